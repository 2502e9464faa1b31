"""The rows that approximations are compared on, and how far each is from the exact kernel there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from sklearn.preprocessing import FunctionTransformer

from bochner.backends import Array
from bochner.backends.threads import one_thread
from bochner.estimators import KernelRidge
from bochner.kernels import Kernel, as_points
from bochner.keys import Key

_FEW_LABELS = 50  # integers with more distinct values than this are numbers, not labels
_ALPHA_ROWS = 2000  # rows on which the exact model chooses its penalty
_BLOCK_BYTES = 1 << 25


@dataclass(frozen=True)
class Rows:
    """The rows that everything is measured on: X (n_reference, d), and with targets some more for testing."""

    X: Any
    X_test: Any
    Y: Array | None = None  # (n_reference, k): numbers, or ±1 for each class
    y_test: Array | None = None
    classes: Array | None = None

    @property
    def task(self) -> str | None:
        """What the targets are."""
        return None if self.Y is None else "regression" if self.classes is None else "classification"

    def error(self, scores: Array) -> float:
        """Root mean squared error, or share of wrong labels, of predictions for the test rows."""
        assert self.y_test is not None
        if self.classes is None:
            return float(np.sqrt(np.mean((scores.reshape(self.y_test.shape) - self.y_test) ** 2)))
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return float(np.mean(self.classes[codes] != self.y_test))


def task_of(y: Array) -> str:
    """Labels are strings, booleans and integers of few distinct values; all else is numbers."""
    if y.dtype.kind in "OUSb":
        return "classification"
    if y.dtype.kind in "iu" and y.ndim == 1 and len(np.unique(y)) <= _FEW_LABELS:
        return "classification"
    return "regression"


def as_table(X: Any) -> Any:
    """X as an array or CSR matrix, not copied."""
    if scipy.sparse.issparse(X):
        return X.tocsr()
    X = X if isinstance(X, np.ndarray) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"expected a table of shape (n_samples, n_features), got {X.ndim} dimension(s).")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"the data must be numbers, got values of type {X.dtype}; encode them first.")
    return X


def _finite(X: Any) -> Any:
    X = as_points(X)
    if not np.isfinite(X.data if scipy.sparse.issparse(X) else X).all():
        raise ValueError("the data contains NaN or infinity; fill or remove those rows.")
    return X


def draw_rows(X: Any, y: Any, n_reference: int, key: Key) -> Rows:
    """Draw reference rows, and test rows beside them where there are targets."""
    X = as_table(X)
    n = X.shape[0]
    if X.shape[1] < 1 or n < 2:
        raise ValueError(f"a comparison needs at least two rows and one column, got shape {X.shape}.")
    draw = key.child("reference").generator()
    if y is None:
        rows = np.sort(draw.choice(n, min(n, n_reference), replace=False))
        return Rows(_finite(X[rows]), None)
    y = np.asarray(y)
    if y.ndim not in (1, 2) or len(y) != n:
        raise ValueError(f"y has shape {y.shape} and X has {n} rows; there must be one target a row.")
    if n < 10:
        raise ValueError(f"a comparison with targets needs at least ten rows, some of them for testing; got {n}.")
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    task = task_of(y)
    n_test = max(2, min(n // 5, n_reference))
    chosen = draw.choice(n, min(n, n_reference + n_test), replace=False)
    test, train = np.sort(chosen[:n_test]), np.sort(chosen[n_test:])
    X_train, X_test = _finite(X[train]), _finite(X[test])
    if task == "regression":
        y = y.astype(np.float64)
        if not np.isfinite(y).all():
            raise ValueError("the targets contain NaN or infinity; remove those rows.")
        return Rows(X_train, X_test, y[train].reshape(len(train), -1), y[test].reshape(n_test, -1))
    if y.dtype == object:
        if any(label is None or label != label for label in y):
            raise ValueError("the targets contain missing labels; remove those rows.")
        y = y.astype(str)
    classes, codes = np.unique(y[train], return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"all targets are {classes[0]!r}: there is nothing to tell apart.")
    signs = 2.0 * (codes[:, None] == np.arange(len(classes))) - 1.0
    return Rows(X_train, X_test, signs[:, 1:] if len(classes) == 2 else signs, y[test], classes)


class Reference:
    """The exact kernel matrix of the reference rows, computed once, and errors of features against it."""

    def __init__(self, kernel: Kernel, X: Any) -> None:
        n = X.shape[0]
        self.rows = max(1, _BLOCK_BYTES // (n * X.dtype.itemsize))
        self.K = np.empty((n, n), X.dtype)
        start = time.perf_counter()
        for i in range(0, n, self.rows):
            self.K[i : i + self.rows] = kernel(X[i : i + self.rows], X)
        self.seconds = time.perf_counter() - start
        if not np.isfinite(self.K).all():
            raise ValueError(f"{kernel!r} is not finite on these rows; scale the data, or choose another kernel.")
        self.frobenius_norm = float(np.linalg.norm(self.K))
        self.spectral_norm = self._largest(lambda v: self.K @ v)
        if not self.frobenius_norm > 0:
            raise ValueError(f"{kernel!r} is zero on these rows, so there is no relative error.")

    def frobenius(self, Z: Array) -> float:
        """‖K - ZZᵀ‖_F / ‖K‖_F, from blocks of the upper triangle."""
        total = 0.0
        for i in range(0, len(Z), self.rows):
            rows = slice(i, i + self.rows)
            E = self.K[rows, i:] - Z[rows] @ Z[i:].T
            corner = E[:, : len(E)]
            total += 2.0 * _squares(E) - _squares(corner)
        return float(np.sqrt(max(0.0, total)) / self.frobenius_norm)

    def spectral(self, Z: Array) -> float:
        """‖K - ZZᵀ‖ / ‖K‖ to three digits, by Lanczos."""
        return self._largest(lambda v: self.K @ v - Z @ (Z.T @ v)) / self.spectral_norm

    def _largest(self, product: Callable[[Array], Array]) -> float:
        n = len(self.K)
        if n <= 64:  # too few rows for Lanczos
            return float(np.abs(np.linalg.eigvalsh(product(np.eye(n, dtype=self.K.dtype)))).max())
        start = np.random.Generator(np.random.Philox(0)).normal(size=n).astype(self.K.dtype)
        if not np.any(product(start)):
            return 0.0
        operator = LinearOperator((n, n), matvec=product, dtype=self.K.dtype)
        try:
            with one_thread():  # products this small wait for a second thread longer than it helps
                values = eigsh(operator, k=1, which="LM", tol=1e-3, v0=start, return_eigenvectors=False)
        except ArpackError:
            return float(np.abs(np.linalg.eigvalsh(product(np.eye(n, dtype=self.K.dtype)))).max())
        return float(abs(values[0]))


def _squares(E: Array) -> float:
    return float(np.linalg.norm(E)) ** 2


def dense(Z: Any) -> Array:
    """Features as a contiguous array."""
    return np.ascontiguousarray(Z.toarray() if scipy.sparse.issparse(Z) else Z)


def linear_error(Z: Array, Z_test: Array, rows: Rows) -> tuple[float, float]:
    """Test error of ridge regression on given features, the penalty left-one-out's, and the seconds of training."""
    start = time.perf_counter()
    model = KernelRidge(features=FunctionTransformer(), alpha="loo").fit(Z, rows.Y)
    seconds = time.perf_counter() - start
    return rows.error(model.predict(Z_test)), seconds


def exact_error(reference: Reference, K_test: Array, rows: Rows, key: Key) -> tuple[float, float]:
    """Test error of exact kernel ridge regression, and the seconds it took.

    The penalty has the least leave-one-out error, on a sample of the rows where there are many.
    """
    assert rows.Y is not None
    begun = time.perf_counter()
    K, Y, n = reference.K, rows.Y, len(reference.K)
    some = np.sort(key.child("alpha").generator().choice(n, min(n, _ALPHA_ROWS), replace=False))
    alpha = _best_alpha(K[np.ix_(some, some)].astype(np.float64), Y[some])
    A = K.astype(np.float64)
    A[np.diag_indices(n)] += alpha
    factor = scipy.linalg.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
    solved = scipy.linalg.cho_solve(factor, np.column_stack([Y, np.ones(n)]), check_finite=False)
    AY, A1 = solved[:, :-1], solved[:, -1]
    intercept = AY.sum(axis=0) / A1.sum()  # the dual sums to zero
    scores = K_test @ (AY - np.outer(A1, intercept)) + intercept
    return rows.error(scores), time.perf_counter() - begun


def _best_alpha(K: Array, Y: Array) -> float:
    """The penalty with the least leave-one-out error of kernel ridge regression with an intercept."""
    with one_thread():
        values, Q = np.linalg.eigh(K)
    values = np.maximum(values, 0.0)
    QY, ones = Q.T @ Y, Q.sum(axis=0)
    best, least = 1.0, np.inf
    for alpha in values[-1] * np.logspace(-9, 0, 28):
        inverse = 1.0 / (values + alpha)
        A1 = Q @ (inverse * ones)
        total = A1.sum()
        intercept = (A1 @ Y) / total
        dual = Q @ (inverse[:, None] * QY) - np.outer(A1, intercept)
        left_out = dual / ((Q * Q) @ inverse - A1 * A1 / total)[:, None]
        loss = float(np.mean(left_out**2))
        if loss < least:
            best, least = float(alpha), loss
    return best
