"""Feature maps and fitted estimators as graphs: inputs, outputs and the nodes between them."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import onnx
from sklearn.base import BaseEstimator

from bochner.backends import Array, Rows, densified
from bochner.estimators.classifier import KernelClassifier
from bochner.estimators.feature_spec import Transformed
from bochner.estimators.gaussian_process import GaussianProcessRegressor
from bochner.estimators.kernel_kmeans import KernelKMeans
from bochner.estimators.kernel_pca import KernelPCA
from bochner.estimators.ridge import KernelRidge
from bochner.estimators.transformers import FeatureTransformer
from bochner.exports.graphs import (
    DOUBLE,
    FLOAT,
    INT,
    Graph,
    Tensor,
    concat,
    fourier,
    half_turns,
    interleave,
    linear,
    real_inverse_fourier,
)
from bochner.exports.kernels import block, diagonal
from bochner.exports.tables import scores as table_scores
from bochner.features.compositions import (
    ConvolvedMap,
    ProductMap,
    ProjectedMap,
    RestrictedMap,
    ScaledMap,
    ShiftedMap,
    StackedMap,
)
from bochner.features.fourier import Fourier, HistogramFourier, HistogramSamples, RandomBinning
from bochner.features.kitchen_sinks import ACTIVATIONS, KitchenSink, Thresholds
from bochner.features.maclaurin import Maclaurin
from bochner.features.maps import HasFeatureMap, Identity, Projection
from bochner.features.nystrom import KernelColumns, Nystrom
from bochner.features.tensor_sketch import Arm, TensorProduct, TensorSketch
from bochner.lab.low_rank import Clustered, StackedNystrom
from bochner.tables.estimators import TabularClassifier, TabularRegressor


@singledispatch
def features(map_: object, X: Tensor) -> Tensor:
    """Compute features: (n, n_features) → (n, n_components), float32 or float64."""
    outer = map_.transformer if isinstance(map_, Transformed) else map_
    if isinstance(outer, HasFeatureMap):
        return features(outer.feature_map_, X)
    raise ValueError(f"{type(outer).__name__} cannot be written as an ONNX graph; features of bochner can.")


@features.register
def _(map_: Identity, X: Tensor) -> Tensor:
    return X


@features.register
def _(map_: Fourier, X: Tensor) -> Tensor:
    phases = linear(map_.frequencies, X)
    if map_.form == "offset":
        scale = map_.amplitude * np.sqrt(2.0 / map_.n_components)
        return half_turns(phases + map_.offsets).apply("Cos") * scale
    T, m = map_.frequencies.shape[0], map_.n_components
    if map_.form == "complex":
        return _cos_sin(phases, T).reshape(-1, m, 2) * (map_.amplitude / np.sqrt(m))
    return _pairs(phases, T, m, float(map_.offsets[0])) * (map_.amplitude * np.sqrt(2.0 / m))


def _pairs(phases: Tensor, T: int, m: int, tail: float) -> Tensor:
    """Return cosine and sine side by side; if m is odd the last component is cos(phase + tail)."""
    if m % 2 == 0:
        return _cos_sin(phases, T)
    last = half_turns(phases.columns(T - 1, T) + tail).apply("Cos")
    return last if m == 1 else concat([_cos_sin(phases.columns(0, T - 1), T - 1), last])


def _cos_sin(phases: Tensor, T: int) -> Tensor:
    """Return cosine and sine of each phase side by side."""
    phases = half_turns(phases)
    return interleave(phases.apply("Cos"), phases.apply("Sin"), T)


_FUNCTIONS = {np.cos: "Cos", np.sin: "Sin", np.tanh: "Tanh", np.exp: "Exp", np.sign: "Sign", np.abs: "Abs"}


@features.register
def _(map_: KitchenSink, X: Tensor) -> Tensor:
    return _units(map_, linear(map_.rows, X))


def _units(map_: KitchenSink, projections: Tensor) -> Tensor:
    A = projections + map_.offsets
    match map_.activation:
        case "cos":
            Z = half_turns(A).apply("Cos")
        case "sign":
            Z = A.apply("Sign")
        case "relu":
            Z = A.apply("Relu")
        case "squared_relu":
            Z = A.apply("Relu")
            Z = Z * Z
        case "step":
            Z = A.greater(0.0).astype(A.dtype)
        case "gaussian":
            Z = (A * A * -0.5).apply("Exp")
        case name:
            function = ACTIVATIONS[name][0] if isinstance(name, str) else name
            if function not in _FUNCTIONS:
                raise ValueError(
                    f"the activation {getattr(function, '__name__', function)!r} cannot be written as an ONNX graph; "
                    f"use one of {', '.join(map(repr, ACTIVATIONS))}."
                )
            Z = A.apply(_FUNCTIONS[function])
    return Z * (map_.amplitude / np.sqrt(map_.n_components))


@features.register
def _(map_: Thresholds, X: Tensor) -> Tensor:
    above = (X.reshape(-1, 1, map_.thresholds.shape[1]) - map_.thresholds[None]).greater(0.0).astype(X.dtype)
    return above.reduce("Prod", 2) * map_.weights


@features.register
def _(map_: Projection, X: Tensor) -> Tensor:
    return linear(map_.sketch, X)


@features.register
def _(map_: StackedMap, X: Tensor) -> Tensor:
    return concat([features(part, X) for part in map_.parts])


@features.register
def _(map_: ScaledMap, X: Tensor) -> Tensor:
    return features(map_.inner, X) * map_.factor


@features.register
def _(map_: RestrictedMap, X: Tensor) -> Tensor:
    return features(map_.inner, X.gather(map_.columns))


@features.register
def _(map_: ProjectedMap, X: Tensor) -> Tensor:
    return linear(map_.projection, features(map_.inner, X))


@features.register
def _(map_: ProductMap, X: Tensor) -> Tensor:
    parts = [linear(s, features(part, X)) for part, s in zip(map_.parts, map_.sketches, strict=True)]
    return _convolved(parts, map_.n_components)


def _convolved(parts: list[Tensor], m: int) -> Tensor:
    """Convolve cyclically, row by row."""
    if len(parts) == 1:
        return parts[0]
    real, imaginary = fourier(parts[0], m)
    for part in parts[1:]:
        a, b = fourier(part, m)
        real, imaginary = real * a - imaginary * b, real * b + imaginary * a
    return real_inverse_fourier(real, imaginary, m)


@features.register
def _(map_: Maclaurin, X: Tensor) -> Tensor:
    total = None
    for level, factor in enumerate(map_.factors):
        has = map_.degrees > level
        products = linear(factor, X).pad(1, 1.0)  # columns of lower degrees are multiplied by one
        index = np.where(has, np.cumsum(has) - 1, np.count_nonzero(has))
        spread = products.gather(index)
        total = spread if total is None else total * spread
    if total is None:
        total = X.columns(0, 1) * 0.0 + np.ones(map_.n_components)
    return total * map_.constants


@features.register
def _(map_: TensorSketch, X: Tensor) -> Tensor:
    B = X.pad(1, map_.offset) if map_.offset else X
    along = None if map_.direction is None else B @ map_.direction[:, None]  # (n, 1)
    columns = []
    for term in map_.terms:
        weight: Tensor | float = term.weight * map_.scale
        if along is not None and term.degree < map_.degree:
            weight = along ** (map_.degree - term.degree) * weight
        if term.features is None:
            constant = np.ones((1, term.n_components))
            columns.append(
                weight * constant if isinstance(weight, Tensor) else X.columns(0, 1) * 0.0 + weight * constant
            )
        else:
            columns.append(_tensor(term.features, B, along) * weight)
    return concat(columns).pad(map_.n_components - sum(term.n_components for term in map_.terms))


def _tensor(node: TensorProduct | Arm, B: Tensor, along: Tensor | None) -> Tensor:
    if isinstance(node, Arm):
        return _arm(node, B, along)[0]
    arms = [_arm(arm, B, along) for arm in node.arms]
    if node.convolved:
        return _convolved([real for real, _ in arms], node.n_components)
    m = node.arms[0].sketch.shape[0]
    real, imaginary = arms[0]
    for a, b in arms[1:]:
        a = a * np.sqrt(m)
        if imaginary is None or b is None:
            real = real * a
        else:
            b = b * np.sqrt(m)
            real, imaginary = real * a - imaginary * b, real * b + imaginary * a
    if imaginary is None:
        return real if m == node.n_components else real.columns(0, node.n_components)
    Z = interleave(real, imaginary, m) * np.sqrt(2.0 * m / node.n_components)
    return Z if 2 * m == node.n_components else Z.columns(0, node.n_components)


def _arm(arm: Arm, B: Tensor, along: Tensor | None) -> tuple[Tensor, Tensor | None]:
    if arm.inner is not None:
        return linear(arm.sketch, _tensor(arm.inner, B, along)), None
    parts: list[Tensor | None] = []
    for sketch, image in ((arm.sketch, arm.image), (arm.turned, arm.turned_image)):
        V = None if sketch is None else linear(sketch, B)
        if V is not None and along is not None and image is not None:
            V = V - along * image
        parts.append(V)
    assert parts[0] is not None
    return parts[0], parts[1]


def _dense(A: Rows) -> Array:
    return np.asarray(densified(A), np.float64)


@features.register
def _(map_: Nystrom, X: Tensor) -> Tensor:
    return _landmark_columns(map_, X).pad(map_.n_components - map_.rank)


def _landmark_columns(map_: Nystrom, X: Tensor) -> Tensor:
    """Return the landmarks' columns (n, rank) in float64."""
    return _kernel_values(map_, X) @ map_.root


def _kernel_values(map_: Nystrom, X: Tensor) -> Tensor:
    """Return k(X, landmarks) in float64."""
    return X.gather(map_.landmarks) if map_.kernel is None else block(map_.kernel, X, _dense(map_.landmarks))


@features.register
def _(map_: KernelColumns, X: Tensor) -> Tensor:
    return _kernel_values(map_.nystrom, X)


@features.register
def _(map_: StackedNystrom, X: Tensor) -> Tensor:
    parts = [_landmark_columns(part, X) for part in map_.parts if part.rank]
    return concat(parts).pad(map_.n_components - sum(part.rank for part in map_.parts))


@features.register
def _(map_: Clustered, X: Tensor) -> Tensor:
    centres = map_.centres.astype(np.float64)
    half = 0.5 * np.einsum("ij,ij->i", centres, centres)
    labels = ((X / map_.scales) @ centres.T - half).extreme("ArgMax").reshape(-1, 1)
    total = None
    for label, (part, link) in enumerate(zip(map_.parts, map_.links, strict=True)):
        Z = _landmark_columns(part, X) @ link
        mine = labels.equal(label).where(Z, 0.0, DOUBLE)
        total = mine if total is None else total + mine
    assert total is not None
    return total


@features.register
def _(map_: RandomBinning, X: Tensor) -> Tensor:
    n_grids, d = map_.pitches.shape
    cells = (X.reshape(-1, 1, d) - map_.origins[None]) / map_.pitches[None]
    cells = cells.apply("Floor").maximum(-(2.0**62)).minimum(2.0**62)
    # products modulo 2^64 are the same for signed and unsigned numbers; sums by a product, which is exact in integers
    terms = cells.astype(INT) * map_.multipliers[None].view(np.int64)
    codes = terms.stacked_product(np.ones((d, 1), np.int64)).reshape(-1, n_grids)
    hashed = (codes + map_.salts.view(np.int64)).astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None)):
        hashed = _xor(hashed, _shifted(hashed, shift))
        if factor is not None:
            product = hashed.astype(INT) * np.array(factor, np.uint64).view(np.int64)
            hashed = product.astype(np.uint64)
    upper = _shifted(hashed, 1)
    columns = upper.astype(INT).modulo(map_.n_components)
    sign = (hashed.astype(INT) - upper.astype(INT) * 2).equal(1)
    values = sign.where(1.0 / np.sqrt(n_grids), -1.0 / np.sqrt(n_grids), FLOAT)
    zeros = (X.columns(0, 1).astype(FLOAT) * 0.0) + np.zeros((1, map_.n_components))
    return X.graph.node("ScatterElements", [zeros, columns, values], FLOAT, axis=1, reduction="add")


def _shifted(bits: Tensor, shift: int) -> Tensor:
    return bits.graph.node("BitShift", [bits, bits.graph.constant(shift, np.uint64)], np.uint64, direction="RIGHT")


def _xor(a: Tensor, b: Tensor) -> Tensor:
    return a.graph.node("BitwiseXor", [a, b], np.uint64)


@features.register
def _(map_: HistogramFourier, X: Tensor) -> Tensor:
    V = X.gather(map_.coordinates)
    phases = V.greater(0.0).where(V, 1.0, V.dtype).apply("Log") * map_.frequencies
    T, m = len(map_.coordinates), map_.n_components
    offsets = np.zeros(T)
    if m % 2:  # the last component is one cosine with an offset
        offsets[-1] = map_.offset
    sizes = (V.apply("Sqrt") * map_.scales).astype(FLOAT)
    even, odd = half_turns(phases + offsets).apply("Cos"), half_turns(phases).apply("Sin")
    pairs = interleave(sizes * even, sizes * odd, T)
    return pairs if m % 2 == 0 else pairs.columns(0, m)


@features.register
def _(map_: HistogramSamples, X: Tensor) -> Tensor:
    L = map_.interval
    log = X.greater(0.0).where(X, 1.0, X.dtype).apply("Log")
    blocks = [(X * L).apply("Sqrt")]
    for j in range(1, map_.sample_steps):
        size = (X * float(2.0 * L / np.cosh(np.pi * j * L))).apply("Sqrt")
        phase = half_turns(log * float(j * L))
        blocks += [size * phase.apply("Cos"), size * phase.apply("Sin")]
    return concat(blocks)


@features.register(ShiftedMap)
@features.register(ConvolvedMap)
def _(map_: Any, X: Tensor) -> Tensor:
    shape = map_.shape
    d = int(np.prod(shape))
    rows = X.gather(_shift_index(X, shape)).reshape(-1, d)  # every shift of every row
    return features(map_.inner, rows).reshape(-1, d, map_.n_components).reduce("Mean", 1)


def _shift_index(X: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Compute all cyclic shifts as indices (d, d) in the graph, from numbers 0 … size - 1."""
    total: Tensor | None = None
    k = len(shape)
    for axis, size in enumerate(shape):
        steps, places = (
            np.arange(size).reshape([size if i == at else 1 for i in range(2 * k)]) for at in (axis, k + axis)
        )
        index = (X.graph.constant(steps, INT) + places).modulo(size)
        total = index if total is None else total * size + index
    assert total is not None
    d = int(np.prod(shape))
    ones = X.graph.constant(np.array([*shape, *shape]), INT)
    return X.graph.node("Expand", [total, ones], INT).reshape(d, d)


Outputs = dict[str, tuple[Tensor, tuple[int, ...]]]


def graph_of(model: BaseEstimator) -> onnx.ModelProto:
    """Build the ONNX model of a fitted estimator."""
    graph = Graph()
    X = graph.input("X", int(model.n_features_in_))
    outputs = {
        name: (tensor.astype(FLOAT) if tensor.dtype == DOUBLE else tensor, shape)
        for name, (tensor, shape) in results(model, X).items()
    }
    return graph.model(outputs, f"{type(model).__name__} of bochner")


@singledispatch
def results(model: BaseEstimator, X: Tensor) -> Outputs:
    """Return outputs by name, with their shapes except for the first axis."""
    raise ValueError(f"export_onnx takes fitted transformers and models of bochner; got {type(model).__name__}.")


@results.register
def _(model: FeatureTransformer, X: Tensor) -> Outputs:
    found = model.feature_map_
    shape = (found.n_components, 2) if isinstance(found, Fourier) and found.form == "complex" else (found.n_components,)
    return {"features": (features(found, X), shape)}


def _scores(model: Any, X: Tensor, coefficients: Array, intercept: Array) -> Tensor:
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
    scores = _scores(model, X, np.asarray(model.component_weights_.T), np.asarray(model.intercept_)).astype(FLOAT)
    return _labels(scores, model.classes_, model._labels.n_scores == 1, with_probabilities=model.loss == "log_loss")


def _labels(scores: Tensor, classes: Array, binary: bool, *, with_probabilities: bool) -> Outputs:
    """Return labels, scores and probabilities from log-odds in float32."""
    index = scores.greater(0.0).astype(np.int64).reshape(-1) if binary else scores.extreme("ArgMax")
    k = len(classes)
    found: Outputs = {"label": (scores.graph.constant(classes).gather(index, axis=0), ())}
    found["scores"] = (scores.reshape(-1), ()) if binary else (scores, (k,))
    if with_probabilities:
        if binary:
            P = concat([(-scores).apply("Sigmoid"), scores.apply("Sigmoid")])
        else:
            P = scores.graph.node("Softmax", [scores], FLOAT, axis=1)
        found["probabilities"] = (P, (k,))
    return found


@results.register
def _(model: TabularRegressor, X: Tensor) -> Outputs:
    shape = model._target_shape
    return {"prediction": (table_scores(model._members, model._columns, X).reshape(-1, *shape), shape)}


@results.register
def _(model: TabularClassifier, X: Tensor) -> Outputs:
    scores = model._link(table_scores(model._members, model._columns, X))
    return _labels(scores.astype(FLOAT), model.classes_, len(model.classes_) == 2, with_probabilities=True)


@results.register
def _(model: GaussianProcessRegressor, X: Tensor) -> Outputs:
    posterior = model._current()
    Z = features(model.feature_map_, X).astype(DOUBLE)
    offset = posterior.level - posterior.centre @ posterior.coefficients
    mean = Z @ posterior.coefficients + offset
    factor = posterior.spectrum.factor.at(posterior.alpha)
    half = (Z - posterior.centre) @ (factor.vectors * np.sqrt(factor.inverse_eigenvalues))
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
