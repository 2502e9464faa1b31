"""Traces, log-determinants and effective dimensions from matrix products, with error bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse

from bochner.backends import Array
from bochner.keys import Key
from bochner.linalg.factorizations import gaussian
from bochner.linalg.iterations import conjugate_gradient
from bochner.linalg.matrices import (
    Operator,
    as_matrix,
    as_square,
    check_symmetric,
    dense,
    diagonal,
    gram_product,
    orthonormal,
)
from bochner.linalg.preconditioners import nystrom_preconditioner
from bochner.linalg.reports import CONFIDENCE, Estimate, Report, Result, mean_estimate
from bochner.theory import _arguments as check

TRACE_METHODS = ("xtrace", "xnystrace", "hutch++", "hutchinson")


@dataclass(frozen=True)
class Number(Result):
    """An estimated number with its `standard_error`; unpacks as ``value, standard_error`` and converts with float."""

    value: float
    standard_error: float
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("value", "standard_error")

    def __float__(self) -> float:
        return self.value


def _number(name: str, estimate: Estimate, method: str, iterations: int, *notes: str, converged: bool = True) -> Number:
    scale = abs(estimate.value) or 1.0
    report = Report(method, iterations, converged, estimate.standard_error / scale, {name: estimate}, notes)
    return Number(estimate.value, estimate.standard_error, report)


def trace(A: Any, n_products: int = 100, *, method: str = "xtrace", random_state: Any = None) -> Number:
    """Trace of a square matrix known by its products.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (n, n)
        Meant for operators: of an array, the diagonal is cheaper and exact.
    n_products : int
        Columns that A is multiplied with.
    method : {"xtrace", "xnystrace", "hutch++", "hutchinson"}
        "xtrace" (Epperly, Tropp & Webber 2024) is best when the spectrum decays, "xnystrace" needs a positive
        semi-definite A and half the products, "hutchinson" has the smallest error on a flat spectrum, where there is
        no low-rank part to take out.
    random_state : None, int, RandomState, Generator or Key

    Returns
    -------
    Number
        ``value, standard_error``. All four are unbiased.

    Notes
    -----
    `n_products` of at least n gives the exact trace from n products.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import trace
    >>> A = np.diag(1.0 / np.arange(1.0, 501.0) ** 2)
    >>> value, error = trace(A, 60, random_state=0)
    >>> bool(abs(value - np.trace(A)) < 5 * error), error < 0.01
    (True, True)
    """
    A = as_square(A)
    n = A.shape[0]
    check.choice("method", method, TRACE_METHODS)
    m = check.count("n_products", n_products, minimum=6, advice="An error bar needs a few of them.")
    if m >= n:
        exact = float(np.trace(A @ np.eye(n, dtype=A.dtype)))
        return _number("trace", Estimate(exact, 0.0, exact, exact, n, 1.0), "exact", n)
    estimators = {"xtrace": _xtrace, "xnystrace": _xnystrace, "hutch++": _hutch, "hutchinson": _hutchinson}
    samples = estimators[method](A, m, Key.from_random_state(random_state))
    # leaving one out makes samples that are not independent: measured, the plain bar is up to 1.5 × too short
    caution = 1.5 if method in ("xtrace", "xnystrace") else 1.0
    return _number("trace", mean_estimate(samples, m, caution=caution), method, m)


def _hutchinson(A: Any, m: int, key: Key) -> Array:
    probes = gaussian((A.shape[0], m), A, key)
    probes *= np.sqrt(A.shape[0]) / np.linalg.norm(probes, axis=0)  # on the sphere: less variance, still unbiased
    return np.einsum("ij,ij->j", probes, A @ probes, dtype=np.float64)


def _hutch(A: Any, m: int, key: Key) -> Array:
    """Hutch++ (Meyer et al. 2021): the trace on a sketched range, and Hutchinson on what is orthogonal to it."""
    n, k = A.shape[0], m // 3
    Q = orthonormal(A @ gaussian((n, k), A, key.child("range")))
    G = gaussian((n, m - 2 * k), A, key.child("probes"))
    G -= Q @ (Q.T @ G)
    G *= np.sqrt(n - k) / np.linalg.norm(G, axis=0)
    return np.einsum("ij,ij->", Q, A @ Q, dtype=np.float64) + np.einsum("ij,ij->j", G, A @ G, dtype=np.float64)


def _xtrace(A: Any, m: int, key: Key) -> Array:
    """Every probe in turn is left out of the range and used as the probe; all from one QR factorisation."""
    n, k = A.shape[0], m // 2
    omega = gaussian((n, k), A, key)
    Q, R = scipy.linalg.qr(A @ omega, mode="economic", check_finite=False)
    # column i of S: the direction of range(Q) that only probe i contributes, so Q(I - s sᵀ)Qᵀ is the range without it
    S = _inverse_transpose(R)
    S /= np.linalg.norm(S, axis=0)
    Z = A @ Q
    H, T, W = Q.T @ Z, Z.T @ omega, Q.T @ omega
    U = W - S * np.einsum("ij,ij->j", S, W)
    # vᵀAv for v = ω - Q u, from QᵀAω = R and ωᵀAQ = T
    quadratic = (
        np.einsum("ij,ij->j", W, R) - np.einsum("ij,ij->j", T, U) - np.einsum("ij,ij->j", U, R)
        + np.einsum("ij,ij->j", U, H @ U)
    )  # fmt: skip
    lengths = np.einsum("ij,ij->j", omega, omega) - np.einsum("ij,ij->j", U, U)
    return np.trace(H) - np.einsum("ij,ij->j", S, H @ S) + (n - k + 1) * quadratic / lengths


def _inverse_transpose(R: Array) -> Array:
    """R⁻ᵀ of a triangle; where A has a rank below the number of probes, of the triangle moved off singularity."""
    diagonal_ = np.abs(np.diag(R))
    tiny = np.finfo(R.dtype).eps * max(float(diagonal_.max(initial=0.0)), np.finfo(R.dtype).tiny)
    R = R + np.diag(np.where(diagonal_ < tiny, tiny, 0.0)).astype(R.dtype)
    return scipy.linalg.solve_triangular(R, np.eye(len(R), dtype=R.dtype), trans="T", check_finite=False)


def _xnystrace(A: Any, m: int, key: Key) -> Array:
    """The Nyström approximation without each probe in turn, downdated from H = ΩᵀAΩ, plus that probe's residual."""
    n = A.shape[0]
    omega = gaussian((n, m), A, key)
    Y = A @ omega
    H = omega.T @ Y
    check_symmetric(H, "A", "Use method='xtrace'.")
    shift = np.finfo(A.dtype).eps * np.linalg.norm(Y)
    Y, H = Y + shift * omega, (H + H.T) / 2.0 + shift * (omega.T @ omega)
    try:
        C = scipy.linalg.cholesky(H, check_finite=False)
    except scipy.linalg.LinAlgError:
        raise ValueError("A is not positive semi-definite: use method='xtrace'.") from None
    # with H = CᵀC: the approximation is BBᵀ, B = YC⁻¹, and what probe i adds to it is (B C⁻ᵀeᵢ)(…)ᵀ / (H⁻¹)ᵢᵢ
    half = scipy.linalg.solve_triangular(C, np.eye(m, dtype=C.dtype), trans="T", check_finite=False)
    B = scipy.linalg.solve_triangular(C, Y.T, trans="T", check_finite=False).T
    pivots = np.einsum("ij,ij->j", half, half)
    total = np.einsum("ij,ij->", B, B)
    lost = np.einsum("ij,ij->j", B @ half, B @ half) / pivots
    # the residual vanishes on the other probes: only the part of ω orthogonal to them counts, of length²:
    lengths = 1.0 / np.diag(scipy.linalg.inv(omega.T @ omega, check_finite=False))
    return total - lost + (n - m + 1) / (pivots * lengths) - shift * n


def log_determinant(
    A: Any,
    *,
    alpha: float = 0.0,
    n_probes: int = 20,
    n_steps: int = 50,
    random_state: Any = None,
) -> Number:
    """Logarithm of det(A + alpha I), A symmetric, A + alpha I positive definite, by stochastic Lanczos quadrature.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (n, n)
    alpha : float
    n_probes : int
        Random vectors; the error falls like their square root.
    n_steps : int
        Lanczos steps for each, with full re-orthogonalisation: products with A are n_probes columns a step.
    random_state : None, int, RandomState, Generator or Key

    Returns
    -------
    Number
        ``value, standard_error``. The error bar is that of the probes; ``report.converged`` is whether the quadrature
        itself, compared with five steps fewer, is more accurate than that.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import log_determinant
    >>> A = np.diag(np.linspace(1.0, 4.0, 200))
    >>> value, error = log_determinant(A, random_state=0)
    >>> bool(abs(value - np.linalg.slogdet(A)[1]) < 5 * error)
    True
    """
    A = as_square(A)
    n = A.shape[0]
    alpha = check.positive("alpha", alpha, zero=True)
    s = check.count("n_probes", n_probes, minimum=2, advice="An error bar needs two.")
    steps = min(check.count("n_steps", n_steps, minimum=2), n)
    probes = gaussian((n, s), A, Key.from_random_state(random_state)).astype(np.float64)
    tridiagonals = _lanczos(A, probes, steps, alpha)
    samples = n * np.array([_quadrature(a, b) for a, b in tridiagonals])
    # a space that closed early is exhausted: its quadrature is exact
    coarse = n * np.array(
        [_quadrature(a[: max(1, len(a) - 5)] if len(a) == steps < n else a, b) for a, b in tridiagonals]
    )
    estimate = mean_estimate(samples)
    gap = abs(float(samples.mean() - coarse.mean()))
    settled = gap <= estimate.standard_error + 1e-8 * abs(estimate.value)
    notes = () if settled else (f"the last five Lanczos steps still moved the value by {gap:.3g}: raise n_steps",)
    return _number("log_determinant", estimate, "stochastic Lanczos quadrature", steps, *notes, converged=settled)


def _lanczos(A: Any, probes: Array, steps: int, alpha: float) -> list[tuple[Array, Array]]:
    """Tridiagonals (diagonal, off-diagonal) of A + alpha I for every column of probes; they end where a space ends."""
    n, s = probes.shape
    basis = np.zeros((steps, n, s))
    basis[0] = probes / np.linalg.norm(probes, axis=0)
    a, b = np.zeros((steps, s)), np.zeros((steps, s))
    ends = np.full(s, steps)
    for j in range(steps):
        w = np.asarray(A @ basis[j].astype(A.dtype), np.float64) + alpha * basis[j]
        a[j] = np.einsum("ij,ij->j", basis[j], w)
        for _ in range(2):
            w = w - np.einsum("kij,kj->ij", basis[: j + 1], np.einsum("kij,ij->kj", basis[: j + 1], w))
        b[j] = np.linalg.norm(w, axis=0)
        closed = b[j] <= 1e3 * np.finfo(A.dtype).eps * np.maximum(
            np.abs(a[: j + 1]).max(axis=0), b[:j].max(axis=0, initial=0.0)
        )
        ends = np.where(closed, np.minimum(ends, j + 1), ends)
        if j + 1 < steps:
            basis[j + 1] = np.where(closed, 0.0, w / np.where(closed, 1.0, b[j]))
    return [(a[:end, i], b[:end, i]) for i, end in enumerate(ends)]


def _quadrature(a: Array, b: Array) -> float:
    """e₁ᵀ log(T) e₁."""
    nodes, V = scipy.linalg.eigh_tridiagonal(a, b[: len(a) - 1])
    if nodes[0] <= len(a) * np.finfo(np.float64).eps * abs(nodes[-1]):
        raise ValueError(
            f"the matrix is not positive definite: it has an eigenvalue of at most {nodes[0]:.3g}. Use a larger alpha."
        )
    return float(V[0] ** 2 @ np.log(nodes))


def effective_dimension(
    A_or_K: Any,
    alpha: float,
    *,
    method: str = "exact",
    kind: str = "auto",
    rank: int | None = None,
    n_probes: int = 20,
    random_state: Any = None,
) -> Number:
    """Effective dimension Σ λ / (λ + alpha): λ the squared singular values of A, or the eigenvalues of K.

    Parameters
    ----------
    A_or_K : array, sparse matrix or operator
        Data (n, d), or a symmetric positive semi-definite kernel matrix (n, n).
    alpha : float
        Positive, not divided by n.
    method : {"exact", "sketch", "stochastic"}
        - "exact": all eigenvalues of the smaller Gram matrix.
        - "sketch": a Nyström approximation brackets the truth, and the value is the middle; the bounds are theorems
          where the trace is known exactly. Without a `rank` it doubles until they are within 10 %, or at 1000.
        - "stochastic": what the Nyström approximation misses is estimated without bias, by conjugate gradients on
          random vectors; the error bar is theirs.
    kind : {"auto", "data", "kernel"}
        "auto" takes a square symmetric matrix for a kernel matrix.
    rank : int or None
        Of the Nyström approximation.
    n_probes : int
    random_state : None, int, RandomState, Generator or Key

    Returns
    -------
    Number
        ``value, standard_error``, with ``report.estimates["effective_dimension"]``.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import effective_dimension
    >>> float(effective_dimension(np.diag([3.0, 1.0]), 1.0, kind="kernel"))
    1.25
    >>> round(float(effective_dimension(np.diag([3.0, 1.0]), 1.0, kind="data")), 3)
    1.4
    """
    A = as_matrix(A_or_K, "A_or_K")
    alpha = check.positive("alpha", alpha, advice="At 0 the effective dimension is the rank.")
    check.choice("method", method, ("exact", "sketch", "stochastic"))
    check.choice("kind", kind, ("auto", "data", "kernel"))
    key = Key.from_random_state(random_state)
    G, total = _gram(A, kind, key)
    n = G.shape[0]
    if method == "exact":
        values = np.maximum(_eigenvalues(A, G), 0.0)
        value = float((values / (values + alpha)).sum())
        return _number("effective_dimension", Estimate(value, 0.0, value, value, 0, 1.0), "exact", 0)
    if method == "sketch":
        return _bracket(G, alpha, rank, total, key)
    P = nystrom_preconditioner(G, alpha, rank, random_state=key.child("sketch"))
    found = float((P.values / (P.values + alpha)).sum())
    s = check.count("n_probes", n_probes, minimum=2, advice="An error bar needs two.")
    probes = gaussian((n, s), G, key.child("probes")).astype(np.float64)
    probes *= np.sqrt(n) / np.linalg.norm(probes, axis=0)
    # ωᵀG(G + alpha)⁻¹ω = ωᵀω - alpha ωᵀ(G + alpha)⁻¹ω, less the same of the Nyström approximation (trace known)
    solved, inner = conjugate_gradient(
        lambda V: np.asarray(G @ V) + alpha * V, probes, preconditioner=P, tol=1e-8, max_iter=1000
    )
    exact = np.einsum("ij,ij->j", probes, probes - alpha * solved)
    share = P.values / (P.values + alpha)
    samples = exact - share @ (P.vectors.T @ probes) ** 2 + found
    estimate = mean_estimate(samples)
    method = f"Hutchinson on what a Nyström approximation of rank {P.rank} misses"
    return _number("effective_dimension", estimate, method, inner.iterations, converged=inner.converged)


def _bracket(G: Any, alpha: float, rank: int | None, total: float | None, key: Key) -> Number:
    """Bounds from a Nyström approximation Ĝ ⪯ G: the values found, plus the most that the trace left can add."""
    n, error, confidence = G.shape[0], 0.0, 1.0
    if total is None:
        (total, error), confidence = trace(G, max(6, min(n, 100)), random_state=key.child("trace")), CONFIDENCE
    size = min(n, 32) if rank is None else min(n, check.count("rank", rank))
    while True:
        P = nystrom_preconditioner(G, alpha, size, random_state=key.child("sketch"))
        found = float((P.values / (P.values + alpha)).sum())
        left = max(0.0, total - float(P.values.sum())) + 3.3 * error
        # λ/(λ + alpha) is concave: the n - rank eigenvalues left count most when they are equal
        upper = found + (left / (left / (n - P.rank) + alpha) if P.rank < n else 0.0)
        if rank is not None or upper <= 1.1 * found or size >= min(n, 1000):
            break
        size = min(2 * size, n)
    # a bracket, not a deviation: the error is that of a number anywhere in it
    estimate = Estimate((found + upper) / 2.0, float((upper - found) / np.sqrt(12.0)), found, upper, P.rank, confidence)
    return _number("effective_dimension", estimate, f"Nyström bracket of rank {P.rank}", P.report.iterations)


def _gram(A: Any, kind: str, key: Key) -> tuple[Any, float | None]:
    """The positive semi-definite matrix whose eigenvalues count, and its trace where it is known."""
    n, d = A.shape
    if kind == "auto":
        kind = "kernel" if n == d and _is_symmetric(A, key) else "data"
    if kind == "kernel":
        A = as_square(A, "A_or_K")
        if not _is_symmetric(A, key):
            raise ValueError("a kernel matrix must be symmetric; pass kind='data' for a data matrix.")
        entries = diagonal(A)
        return A, None if entries is None else float(entries.sum())
    small, size = (A if n >= d else A.T), min(n, d)

    def product(V: Array) -> Array:
        return gram_product(small, V)

    total = None
    if not isinstance(A, Operator):
        values = A.data if scipy.sparse.issparse(A) else A.ravel(order="K")
        total = float(np.dot(values, values))
    return Operator((size, size), product, product), total


def _is_symmetric(A: Any, key: Key) -> bool:
    V = gaussian((A.shape[0], 2), A, key.child("symmetry"))
    H = V.T @ (A @ V)
    return bool(abs(H[0, 1] - H[1, 0]) <= 10.0 * np.sqrt(np.finfo(A.dtype).eps) * np.abs(H).max())


def _eigenvalues(A: Any, G: Any) -> Array:
    if isinstance(G, Operator) and not isinstance(A, Operator):
        if isinstance(A, np.ndarray):
            return scipy.linalg.svdvals(A, check_finite=False) ** 2
        small = A.T @ A if A.shape[0] >= A.shape[1] else A @ A.T
        return scipy.linalg.eigvalsh(small.toarray(), check_finite=False)
    M = dense(G)
    values = scipy.linalg.eigvalsh((M + M.T) / 2.0, check_finite=False)
    if values[0] < -np.sqrt(np.finfo(M.dtype).eps) * abs(values[-1]):
        raise ValueError(
            f"the kernel matrix has a negative eigenvalue, {values[0]:.3g}: it is not positive semi-definite."
        )
    return values
