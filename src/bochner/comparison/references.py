"""What approximations are measured against: rows of the data, their exact kernel matrix, and other models of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from scipy.linalg import LinAlgWarning
from scipy.sparse.linalg import ArpackError, eigsh

from bochner.backends import Array
from bochner.backends.threads import one_thread
from bochner.data.progress import Stopwatch
from bochner.draws.keys import Key
from bochner.draws.linear_maps import DenseGram
from bochner.estimators.ridge import KernelRidge
from bochner.kernels.algebra import Kernel, as_points
from bochner.ridge.solvers import Cholesky, Eigen
from bochner.ridge.statistics import float32_error

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

EXACT, LINEAR, CONSTANT = "exact kernel", "linear model", "constant"
BASELINES = (EXACT, LINEAR, CONSTANT)
_TEST_ROWS = 5000  # largest number of rows for testing
_FEW_LABELS = 50  # largest number of distinct integers that are taken for labels
_ALPHA_ROWS = 1000  # rows on which the exact model chooses its penalty
_BLOCK_BYTES = 1 << 25  # memory for a block of rows of the kernel matrix
_QUICK = 2e10  # multiplications, about a second, up to which an exact solution is always computed
_SEEN = 1e-3  # relative error below which errors are measured again in float64
_LANCZOS = 8  # vectors that Lanczos keeps


@dataclass(frozen=True)
class Rows:
    """The rows that everything is measured on: X (n_reference, d), and with targets some more for testing."""

    X: Array | csr_matrix
    X_test: Array | csr_matrix
    Y: Array | None = None  # (n_reference, k): numbers, or ±1 for each class
    y_test: Array | None = None
    classes: Array | None = None

    @property
    def task(self) -> str | None:
        """Kind of targets; None without targets."""
        return None if self.Y is None else "regression" if self.classes is None else "classification"

    @property
    def facts(self) -> dict[str, int | str | None]:
        """Sizes and the task."""
        return {
            "n_features": int(self.X.shape[1]),
            "n_reference": int(self.X.shape[0]),
            "n_test": 0 if self.y_test is None else len(self.y_test),
            "n_classes": 0 if self.classes is None else len(self.classes),
            "task": self.task,
        }

    def losses(self, scores: Array) -> Array:
        """Return the squared error of every test row, or 1.0 for a wrong label and 0.0 for a right one."""
        assert self.y_test is not None
        if self.classes is None:
            return np.mean((scores.reshape(self.y_test.shape) - self.y_test) ** 2, axis=1)
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return (self.classes[codes] != self.y_test).astype(np.float64)

    def error(self, losses: Array) -> float:
        """Return the root mean squared error, or the share of wrong labels."""
        mean = float(np.mean(losses))
        return math.sqrt(mean) if self.classes is None else mean


def task_of(y: Array) -> str:
    """Return "classification" for strings, booleans and integers of few distinct values that repeat."""
    if y.dtype.kind in "OUSb":
        return "classification"
    if y.dtype.kind in "iu" and y.ndim == 1 and len(np.unique(y)) <= min(_FEW_LABELS, len(y) // 2):
        return "classification"
    return "regression"


def as_table(X: Any) -> Array | csr_matrix:
    """Return X as an array or CSR matrix, not copied."""
    if scipy.sparse.issparse(X):
        return X.tocsr()
    X = X if isinstance(X, np.ndarray) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"expected a table of shape (n_samples, n_features), got {X.ndim} dimension(s).")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"the data must be numbers, got values of type {X.dtype}; encode them first.")
    return X


def _finite(X: Array | csr_matrix) -> Array | csr_matrix:
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
        raise ValueError(f"y has shape {y.shape} and X has {n} rows; there must be one target for each row.")
    if n < 10:
        raise ValueError(f"a comparison with targets needs at least ten rows, some of them for testing; got {n}.")
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    task = task_of(y)
    n_test = max(2, min(n // 5, _TEST_ROWS))
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

    def __init__(self, kernel: Kernel, X: Array | csr_matrix) -> None:
        n = X.shape[0]
        self.rows = max(1, _BLOCK_BYTES // (n * X.dtype.itemsize))
        self.K = np.empty((n, n), X.dtype)
        start = Stopwatch()
        for i in range(0, n, self.rows):
            self.K[i : i + self.rows] = kernel(X[i : i + self.rows], X)
        self.seconds = start.seconds()
        if not np.isfinite(self.K).all():
            raise ValueError(f"{kernel!r} is not finite on these rows; scale the data, or choose another kernel.")
        self.size = float(np.abs(self.K).max())
        if not self.size > 0:
            raise ValueError(f"{kernel!r} is zero on these rows, so there is no relative error.")
        self._narrow = (self.K / self.size).astype(np.float32)
        self._norms = _norms(self._narrow)

    def errors(self, Z: Array) -> tuple[float, float]:
        """Measure ‖K - ZZᵀ‖ / ‖K‖ in the Frobenius and in the spectral norm, to three digits.

        Float32 is used first, and the precision of K if the rounding of float32 would show.
        """
        Z = Z / np.sqrt(self.size)
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = Z.astype(np.float32)
            found = _norms(narrow @ narrow.T - self._narrow)
        if not found[0] > _SEEN * self._norms[0] or not np.isfinite(found).all():
            found = _norms(Z @ Z.T - self.K / self.size)
        return found[0] / self._norms[0], found[1] / self._norms[1]


def _norms(A: Array) -> tuple[float, float]:
    """Return the Frobenius norm of a symmetric matrix, and its spectral norm to three digits, by Lanczos."""
    frobenius = float(np.linalg.norm(A))
    if not np.isfinite(frobenius) or frobenius == 0.0:
        return frobenius, frobenius
    if len(A) > 64:  # fewer are too few for Lanczos
        start = np.random.Generator(np.random.Philox(0)).normal(size=len(A)).astype(A.dtype)
        options = {"which": "LM", "tol": 1e-3, "ncv": _LANCZOS, "v0": start, "return_eigenvectors": False}
        with suppress(ArpackError), one_thread():  # products this small wait for threads longer than those help
            return frobenius, float(abs(eigsh(A, 1, **options)[0]))
    return frobenius, float(np.abs(np.linalg.eigvalsh(A)).max())


def dense(Z: Array | csr_matrix) -> Array:
    """Return features as a contiguous array of real numbers; complex ones become two, since the kernel is Re ZZ*."""
    Z = np.asarray(Z.toarray() if scipy.sparse.issparse(Z) else Z)  # type: ignore[union-attr]
    return np.ascontiguousarray(np.hstack([Z.real, Z.imag]) if np.iscomplexobj(Z) else Z)


def linear_losses(Z: Array, Z_test: Array, rows: Rows, alpha: float | None) -> tuple[Array, float, float]:
    """Return the test losses of ridge regression on given features, the seconds of training, and alpha.

    Leave-one-out errors choose alpha if it is None.
    """
    start = Stopwatch()
    from sklearn.preprocessing import FunctionTransformer

    model = KernelRidge(features=FunctionTransformer(), alpha="loo" if alpha is None else alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # of alphas below the rounding of the sums
        model.partial_fit(Z, rows.Y)  # which does not warn if the features tell nothing
    seconds = start.seconds()
    return rows.losses(model.predict(Z_test)), seconds, model.alpha_


def baselines(
    reference: Reference, kernel: Kernel, rows: Rows, sizes: Sequence[int], key: Key
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Measure the exact kernel, a linear model and a constant; return also a note about what was left out.

    The exact kernel is left out where solving for it takes longer than measuring all maps with the given numbers of
    components.
    """
    assert rows.Y is not None
    (n, d), k = rows.X.shape, rows.Y.shape[1]
    found: list[dict[str, Any]] = []
    left_out = exact_work(n) > max(_QUICK, sum(map_work(n, m) for m in sizes))
    if not left_out:
        start = Stopwatch()
        K_test = kernel(rows.X_test, rows.X)
        seconds = {"fit_seconds": reference.seconds, "transform_seconds": start.seconds()}
        losses, seconds["model_seconds"] = exact_losses(reference, K_test, rows, key)
        exact = {"map": EXACT, "columns": n, "frobenius": 0.0, "spectral": 0.0, "bytes": int(reference.K.nbytes)}
        found.append({**exact, **seconds, "losses": losses})
    start = Stopwatch()
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    scaler = StandardScaler(with_mean=not scipy.sparse.issparse(rows.X)).fit(rows.X)
    X, X_test = scaler.transform(rows.X), scaler.transform(rows.X_test)
    model = KernelRidge(features=FunctionTransformer(accept_sparse=True), alpha="loo").partial_fit(X, rows.Y)
    linear = {"map": LINEAR, "columns": d, "model_seconds": start.seconds(), "bytes": 8 * (d + 1) * k}
    mean = np.broadcast_to(rows.Y.mean(axis=0), (X_test.shape[0], k))
    constant = {"map": CONSTANT, "columns": 0, "model_seconds": 0.0, "bytes": 8 * k}
    rest = {"frobenius": np.nan, "spectral": np.nan, "fit_seconds": 0.0, "transform_seconds": 0.0}
    found += [
        {**rest, **linear, "losses": rows.losses(model.predict(X_test))},
        {**rest, **constant, "losses": rows.losses(mean)},
    ]
    word = f"The {EXACT} was left out: solving for {n:,} rows takes longer than all maps together."
    return [{**row, "run": 0, "error": rows.error(row["losses"])} for row in found], (word,) if left_out else ()


def exact_work(n: int) -> float:
    """Estimate the multiplications of `exact_losses` for n rows: a factorisation, and a spectrum of fewer rows."""
    return n**3 / 3.0 + 9.0 * min(n, _ALPHA_ROWS) ** 3


def map_work(n: int, m: int) -> float:
    """Estimate the multiplications for measuring a map of m components: errors, and a ridge regression."""
    return float(n * n * m + n * m * m + 9 * m**3)


def exact_losses(reference: Reference, K_test: Array, rows: Rows, key: Key) -> tuple[Array, float]:
    """Return the test losses of exact kernel ridge regression, and the seconds it took.

    The penalty has the least leave-one-out error, on a sample of many rows. It is never below what
    rounding leaves in the eigenvalues of the kernel matrix.
    """
    assert rows.Y is not None
    begun = Stopwatch()
    K, Y, n = reference.K, rows.Y, len(reference.K)
    some = np.sort(key.child("alpha").generator().choice(n, min(n, _ALPHA_ROWS), replace=False))
    alpha = _best_alpha(_as_gram(K[np.ix_(some, some)]), Y[some])
    solved = Cholesky().factor(_as_gram(K), alpha).solve(np.column_stack([Y, np.ones(n)]))
    AY, A1 = solved[:, :-1], solved[:, -1]
    intercept = AY.sum(axis=0) / A1.sum()  # the dual sums to zero
    scores = K_test @ (AY - np.outer(A1, intercept)) + intercept
    return rows.losses(scores), begun.seconds()


def _as_gram(K: Array) -> DenseGram:
    """Wrap a kernel matrix for the solvers, with the size of eigenvalues that only rounding makes differ from zero."""
    return DenseGram(K, float(np.finfo(K.dtype).eps) * float32_error(np.diagonal(K).astype(np.float64)))


def _best_alpha(gram: DenseGram, Y: Array) -> float:
    """Return the penalty with the least leave-one-out error of kernel ridge regression with an intercept."""
    factor = Eigen().factor(gram, 0.0)
    values, Q = factor.eigenvalues, factor.vectors
    QY, ones = Q.T @ Y, Q.sum(axis=0)
    best, least = 1.0, np.inf
    for alpha in np.maximum(values[-1] * np.logspace(-9, 0, 28), gram.rounding):
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
