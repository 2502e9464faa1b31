"""Models for other runtimes: ONNX graphs. Only this folder imports onnx."""

from __future__ import annotations

import os

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bochner.outputs import replacing

__all__ = ["export_onnx"]


def __dir__() -> list[str]:
    return sorted(__all__)


def export_onnx(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted transformer or model as an ONNX graph, which onnxruntime and others run without bochner.

    The input ``X`` is float32 of shape (n_samples, n_features). Outputs are float32 and named by what they are:
    ``features`` of transformers (complex ones with a last axis of 2), ``prediction`` of `KernelRidge` and
    `TabularRegressor`, ``prediction`` and ``std`` of `GaussianProcessRegressor`, ``label``, ``scores`` and
    ``probabilities`` of `KernelClassifier` and `TabularClassifier` (of tables of numbers, which may have gaps),
    ``components`` of `KernelPCA`, ``label`` and ``distances`` of `KernelKMeans`. Structured maps stay small: Hadamard
    transforms are products with matrices of at most 64 × 64.

    Outputs equal bochner's for the same rows in float64, up to the rounding of float32 (about 1e-6 of the largest):
    phases, kernels and products of rows are computed in float64. For Fourier features this holds as long as float64
    resolves their phases: an error of 1e-15 for every radian, so that rows some 1e9 length scales long keep six
    digits, and rows longer than 1e15 none, in the graph as in bochner. What is too large for float32 is infinite.

    Parameters
    ----------
    model : fitted estimator
        Functions of your own (a kernel or an activation given as a Python function) and transformers of other
        libraries cannot be written and raise a ValueError that names them. A profile given to `Radial`, and Matérn
        kernels without a closed form, are written as tables.
    path : path-like

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import bochner
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> model = bochner.FourierFeatures(n_components=32, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.onnx"
    ...     bochner.export_onnx(model, path)
    ...     path.stat().st_size < 3000
    True
    """
    try:
        from bochner.exports.models import graph_of
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "onnx":
            raise
        raise ImportError("export_onnx needs the package onnx: pip install 'bochner[onnx]'.") from None
    check_is_fitted(model)
    data = graph_of(model).SerializeToString()
    with replacing(path) as file:
        file.write(data)
