"""Fitted estimators as graphs: inputs, outputs and what lies between them."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from bochner.estimators import (
    GaussianProcessRegressor,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
)
from bochner.estimators.transformers import FeatureTransformer
from bochner.exports.features import features
from bochner.exports.graphs import DOUBLE, FLOAT, Graph, Tensor, concat
from bochner.exports.kernels import diagonal

Outputs = dict[str, tuple[Tensor, tuple[int, ...]]]


def graph_of(model: Any) -> Any:
    """The ONNX model of a fitted estimator."""
    graph = Graph()
    X = graph.input("X", int(model.n_features_in_))
    outputs = {
        name: (tensor.astype(FLOAT) if tensor.dtype == DOUBLE else tensor, shape)
        for name, (tensor, shape) in results(model, X).items()
    }
    return graph.model(outputs, f"{type(model).__name__} of bochner")


@singledispatch
def results(model: Any, X: Tensor) -> Outputs:
    """Outputs by name, with their shapes but for the first axis."""
    raise ValueError(f"export_onnx takes fitted transformers and models of bochner; got {type(model).__name__}.")


@results.register
def _(model: FeatureTransformer, X: Tensor) -> Outputs:
    found: Any = model.feature_map_
    shape = (found.n_components, 2) if getattr(found, "form", None) == "complex" else (found.n_components,)
    return {"features": (features(found, X), shape)}


def _scores(model: Any, X: Tensor, coefficients: Any, intercept: Any) -> Tensor:
    Z = features(model.feature_map_, X)
    return Z @ coefficients.astype(Z.dtype) + intercept.astype(Z.dtype)


@results.register
def _(model: KernelRidge, X: Tensor) -> Outputs:
    solution = model._current()
    scores = _scores(model, X, solution.coefficients, solution.intercept)
    shape = model._target_shape
    return {"prediction": (scores.reshape(-1, *shape), shape)}


@results.register
def _(model: KernelClassifier, X: Tensor) -> Outputs:
    scores = _scores(model, X, np.asarray(model.coef_.T), np.asarray(model.intercept_)).astype(FLOAT)
    binary = model._labels.n_scores == 1
    index = scores.greater(0.0).astype(np.int64).reshape(-1) if binary else scores.extreme("ArgMax")
    k = len(model.classes_)
    found: Outputs = {"label": (X.graph.constant(model.classes_).gather(index, axis=0), ())}
    found["scores"] = (scores.reshape(-1), ()) if binary else (scores, (k,))
    if model.loss == "log_loss":
        if binary:
            P = concat([(-scores).apply("Sigmoid"), scores.apply("Sigmoid")])
        else:
            P = X.graph.node("Softmax", [scores], FLOAT, axis=1)
        found["probabilities"] = (P, (k,))
    return found


@results.register
def _(model: GaussianProcessRegressor, X: Tensor) -> Outputs:
    posterior = model._current()
    Z = features(model.feature_map_, X).astype(DOUBLE)
    offset = posterior.level - posterior.centre @ posterior.coefficients
    mean = Z @ posterior.coefficients + offset
    factor = posterior.spectrum.factor.at(posterior.alpha)
    half = (Z - posterior.centre) @ (factor.vectors * np.sqrt(factor._inverse))
    share = (half * half).reduce("Sum", 1, keepdims=True) + posterior.level_share
    variance = share * posterior.noise[None]
    if model._has_rest and model.kernel_ is not None:
        prior = diagonal(model.kernel_, X, int(model.n_features_in_))
        rest = (prior - (Z * Z).reduce("Sum", 1, keepdims=True)).maximum(0.0)
        variance = variance + rest * posterior.amplitude[None]
    shape = model._target_shape
    std = variance.apply("Sqrt")
    return {"prediction": (mean.reshape(-1, *shape), shape), "std": (std.reshape(-1, *shape), shape)}


@results.register
def _(model: KernelPCA, X: Tensor) -> Outputs:
    shift = -model.components_ @ model.statistics_.feature_mean
    return {"components": (_scores(model, X, model.components_.T, shift), (len(model.components_),))}


@results.register
def _(model: KernelKMeans, X: Tensor) -> Outputs:
    Z, centres = features(model.feature_map_, X).astype(DOUBLE), model.cluster_centers_
    squares = (Z * Z).reduce("Sum", 1, keepdims=True) - (Z @ centres.T) * 2.0 + np.einsum("ij,ij->i", centres, centres)
    distances = squares.maximum(0.0).apply("Sqrt")
    label = distances.astype(FLOAT).extreme("ArgMin")
    return {"label": (label, ()), "distances": (distances, (len(centres),))}
