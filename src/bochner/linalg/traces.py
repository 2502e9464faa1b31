"""Traces, log-determinants and effective dimensions from matrix products, with error bars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike

from bochner.backends import Array, is_sparse
from bochner.checks import check_choice, check_count, check_positive
from bochner.draws.keys import Key, Seed
from bochner.linalg.reports import trace_estimate
from bochner.ridge.krylov import conjugate_gradient
from bochner.ridge.matrices import (
    Matrix,
    MatrixLike,
    Operator,
    as_matrix,
    as_square,
    check_symmetric,
    dense,
    diagonal,
    gram_product,
    in_units,
    in_units_with,
    is_symmetric,
    orthonormal,
)
from bochner.ridge.preconditioners import gaussian, nystrom_preconditioner
from bochner.ridge.reports import Estimate, Report, Result

TRACE_METHODS = ("xtrace", "xnystrace", "hutch++", "hutchinson")


@dataclass(frozen=True)
class Number(Result):
    """An estimated number with its `standard_error`; unpacks as ``value, standard_error`` and converts with float.

    `report` has its interval, where there is one.
    """

    value: float
    standard_error: float
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("value", "standard_error")
    powers: ClassVar[Mapping[str, int]] = {"value": 1, "standard_error": 1}

    def __float__(self) -> float:
        return self.value

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self.value, dtype)  # one number, although it unpacks to two


def _number(
    name: str, estimate: Estimate, method: str, iterations: int, *notes: str, converged: bool | None = None
) -> Number:
    scale = abs(estimate.value) or 1.0
    report = Report(method, iterations, converged, estimate.standard_error / scale, {name: estimate}, notes)
    return Number(estimate.value, estimate.standard_error, report)


def trace(A: MatrixLike, n_products: int = 100, *, method: str = "xtrace", random_state: Seed = None) -> Number:
    """Estimate the trace of a square matrix from its products with vectors.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (n, n)
        Meant for operators: of an array, the diagonal is cheaper and exact.
    n_products : int
        Columns that A is multiplied with.
    method : {"xtrace", "xnystrace", "hutch++", "hutchinson"}
        "xtrace" (Epperly, Tropp & Webber 2024) is best when the spectrum decays, "xnystrace" needs a positive
        semi-definite A and half the products, "hutchinson" has the smallest error on a flat spectrum, where there is
        no low-rank part to take out. "hutch++" (Meyer et al. 2021) takes a low-rank part out as well, and has an
        interval.
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    Number
        ``value, standard_error``. All four are unbiased. ``report.estimates["trace"]`` has an interval with "hutch++"
        and "hutchinson", whatever the matrix: both are means of independent quadratic forms. "xtrace" and "xnystrace"
        use every product for the low-rank part and for the rest: no interval is known for their error, and
        Student's, from the standard error, too often does not contain the trace.

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
    >>> interval = trace(A, 60, method="hutch++", random_state=0).report.estimates["trace"]
    >>> bool(interval.low < np.trace(A) < interval.high)
    True
    """
    A, unit = in_units(as_square(A))
    n = A.shape[0]
    check_choice("method", method, TRACE_METHODS)
    m = check_count("n_products", n_products, least=6, advice="An error bar needs a few of them.")
    key = Key.from_random_state(random_state)
    if m >= n:
        entries = diagonal(A)
        exact = float(np.trace(A @ np.eye(n)) if entries is None else entries.sum())
        return _number("trace", Estimate.exact(exact), "exact", n).times(unit)
    if method in ("xtrace", "xnystrace"):
        leave_one_out = _xtrace if method == "xtrace" else _xnystrace
        samples, k = leave_one_out(A, m, key)
        # the samples are not independent: their standard error was seen to be up to 1.5 n / (n - k) times too small
        error = 1.5 * n / (n - k) * float(samples.std(ddof=1) / np.sqrt(len(samples)))
        estimate = Estimate.without_interval(float(samples.mean()), error, m)
    else:
        estimate = (_hutch if method == "hutch++" else _hutchinson)(A, m, key)
    return _number("trace", estimate, method, m).times(unit)


def _hutchinson(A: Matrix, m: int, key: Key) -> Estimate:
    n = A.shape[0]
    Z = gaussian((n, m), A, key)
    Z *= np.sqrt(n) / np.linalg.norm(Z, axis=0)  # probes on the sphere have less variance and no bias
    return _from_products(Z, A @ Z, n, m)


def _from_products(Z: Array, products: Array, n: int, m: int, offset: float = 0.0) -> Estimate:
    """Estimate the trace of B, plus an offset, from its products with columns Z on the sphere ‖z‖² = n."""
    P = products.astype(np.float64, copy=False)
    forms, squares = np.einsum("ij,ij->j", Z, P), np.einsum("ij,ij->j", P, P)
    rounding = 100.0 * float(np.finfo(products.dtype).eps) * (np.sqrt(n * squares.mean()) + abs(offset))
    return trace_estimate(forms, squares, n, m).plus(offset).widened(float(rounding))


def _hutch(A: Matrix, m: int, key: Key) -> Estimate:
    """Add the trace on a sketched range and Hutchinson's estimate orthogonal to it (Hutch++, Meyer et al. 2021)."""
    n, k = A.shape[0], m // 3
    Q = orthonormal(A @ gaussian((n, k), A, key.child("range")))
    Z = gaussian((n, m - 2 * k), A, key.child("probes"))
    Z -= Q @ (Q.T @ Z)
    Z *= np.sqrt(n - k) / np.linalg.norm(Z, axis=0)
    products = A @ Z
    inside = float(np.einsum("ij,ij->", Q, A @ Q, dtype=np.float64))
    return _from_products(Z, products - Q @ (Q.T @ products), n - k, m, inside)


def _xtrace(A: Matrix, m: int, key: Key) -> tuple[Array, int]:
    """Leave every probe in turn out of the range and use it as the probe, all from one QR factorisation.

    Returns one sample for each probe, and the number of probes.
    """
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
    return np.trace(H) - np.einsum("ij,ij->j", S, H @ S) + (n - k + 1) * quadratic / lengths, k


def _inverse_transpose(R: Array) -> Array:
    """Return R⁻ᵀ of a triangle up to a factor; zeros on the diagonal, of a low rank, are moved off singularity."""
    size = np.abs(np.diag(R)).max()
    R = R / (size or 1.0)
    singular = np.abs(np.diag(R)) < np.finfo(R.dtype).eps
    R = R + np.diag(np.where(singular, np.finfo(R.dtype).eps if size else 1.0, 0.0)).astype(R.dtype)
    return scipy.linalg.solve_triangular(R, np.eye(len(R), dtype=R.dtype), trans="T", check_finite=False)


def _xnystrace(A: Matrix, m: int, key: Key) -> tuple[Array, int]:
    """Add each probe's residual to the trace of the Nyström approximation without it, downdated from H = ΩᵀAΩ."""
    n = A.shape[0]
    omega = gaussian((n, m), A, key)
    Y = A @ omega
    check_symmetric(A, "A", "Use method='xtrace'.", omega, Y)
    if not Y.any():
        return np.zeros(m), m
    H = omega.T @ Y
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
    # the residual vanishes on the other probes, so only the part of ω orthogonal to them counts
    lengths = 1.0 / np.diag(scipy.linalg.inv(omega.T @ omega, check_finite=False))
    return total - lost + (n - m + 1) / (pivots * lengths) - shift * n, m


def log_determinant(
    A: MatrixLike,
    *,
    alpha: float = 0.0,
    n_probes: int = 20,
    n_steps: int = 50,
    random_state: Seed = None,
) -> Number:
    """Estimate log det(A + alpha I), for a positive definite A + alpha I, by stochastic Lanczos quadrature.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (n, n)
    alpha : float
        What is added to the diagonal: log det(A + alpha I).
    n_probes : int
        Random vectors; the error falls like their square root.
    n_steps : int
        Lanczos steps for each, with full re-orthogonalisation: each step is one product of A with n_probes columns.
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    Number
        ``value, standard_error``; the error is that of the probes. ``report.converged`` is whether the second half of
        the Lanczos steps moved the value by less than that. ``report.estimates["log_determinant"]`` has an interval
        that holds for every matrix once they have converged; until then values are too large, and its `low` is -inf.

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
    alpha = check_positive("alpha", alpha, zero=True)
    s = check_count("n_probes", n_probes, least=2, advice="An error bar needs two.")
    steps = min(check_count("n_steps", n_steps, least=2), n)
    A, alpha, unit = in_units_with(A, alpha, 1)
    check_symmetric(A, "A", "The logarithm of its determinant needs a symmetric positive definite matrix.")
    probes = gaussian((n, s), A, Key.from_random_state(random_state)).astype(np.float64)
    tridiagonals = _lanczos(A, probes, steps, alpha)
    # eᵀ log(T) e and eᵀ log(T)² e for probes on the sphere ‖z‖² = n, exact for a space that is exhausted early
    forms, squares = n * np.array([_quadrature(a, b) for a, b in tridiagonals]).T
    halves = [(a[: (len(a) + 1) // 2], b) if len(a) == steps < n else (a, b) for a, b in tridiagonals]
    moved = float(abs(forms.mean() - n * np.mean([_quadrature(a, b)[0] for a, b in halves])))
    estimate = trace_estimate(forms, squares, n)
    settled = moved <= estimate.standard_error + 1e-8 * abs(estimate.value)
    notes = () if settled else (f"the second half of the Lanczos steps moved the value by {moved:.3g}: raise n_steps",)
    # Gauss's rule bounds the logarithm from above, and its error is at most what the second half of the steps moved
    estimate = replace(estimate, low=estimate.low - moved if settled else -np.inf)
    estimate = estimate.plus(n * float(np.log(unit))).widened(100.0 * n * float(np.finfo(A.dtype).eps))
    return _number("log_determinant", estimate, "stochastic Lanczos quadrature", steps, *notes, converged=settled)


def _lanczos(A: Matrix, probes: Array, steps: int, alpha: float) -> list[tuple[Array, Array]]:
    """Return (diagonal, off-diagonal) of A + alpha I for every probe; shorter if its space is exhausted."""
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


def _quadrature(a: Array, b: Array) -> tuple[float, float]:
    """Return e₁ᵀ log(T) e₁ and e₁ᵀ log(T)² e₁ for a tridiagonal T."""
    nodes, V = scipy.linalg.eigh_tridiagonal(a, b[: len(a) - 1])
    if nodes[0] <= len(a) * np.finfo(np.float64).eps * abs(nodes[-1]):
        raise ValueError(
            f"the matrix is not positive definite: it has an eigenvalue of at most {nodes[0]:.3g}. Use a larger alpha."
        )
    logs = np.log(nodes)
    return float(V[0] ** 2 @ logs), float(V[0] ** 2 @ logs**2)


def effective_dimension(
    A_or_K: MatrixLike,
    alpha: float,
    *,
    method: str = "exact",
    kind: str = "auto",
    rank: int | None = None,
    n_probes: int = 20,
    random_state: Seed = None,
) -> Number:
    """Compute the effective dimension Σ λ / (λ + alpha) of the squared singular values of A, or eigenvalues of K.

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
          random vectors; the error bar and the interval are theirs.
    kind : {"auto", "data", "kernel"}
        "auto" takes a square symmetric matrix for a kernel matrix.
    rank : int or None
        Of the Nyström approximation.
    n_probes : int
        Random vectors of method="stochastic".
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

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
    alpha = check_positive("alpha", alpha, advice="At 0 the effective dimension is the rank.")
    check_choice("method", method, ("exact", "sketch", "stochastic"))
    check_choice("kind", kind, ("auto", "data", "kernel"))
    key = Key.from_random_state(random_state)
    if kind == "auto":
        kind = "kernel" if A.shape[0] == A.shape[1] and is_symmetric(A) else "data"
    A, alpha, _ = in_units_with(A, alpha, 1 if kind == "kernel" else 2)
    alpha = max(alpha, float(np.finfo(np.float64).tiny))
    G, total = _gram(A, kind)
    n = G.shape[0]
    if method == "exact":
        values = np.maximum(_eigenvalues(A, G), 0.0)
        value = float((values / (values + alpha)).sum())
        return _number("effective_dimension", Estimate.exact(value), "exact", 0)
    if method == "sketch":
        return _bracket(G, alpha, rank, total, key)
    P = nystrom_preconditioner(G, alpha, rank, random_state=key.child("sketch"))
    found = float((P.values / (P.values + alpha)).sum())
    s = check_count("n_probes", n_probes, least=2, advice="An error bar needs two.")
    probes = gaussian((n, s), G, key.child("probes")).astype(np.float64)
    probes *= np.sqrt(n) / np.linalg.norm(probes, axis=0)
    # ωᵀG(G + alpha)⁻¹ω = ωᵀω - alpha ωᵀ(G + alpha)⁻¹ω, less the known trace for the Nyström approximation
    solved, inner = conjugate_gradient(
        lambda V: np.asarray(G @ V) + alpha * V, probes, preconditioner=P, tol=1e-8, max_iter=1000
    )
    share = P.values / (P.values + alpha)
    products = probes - alpha * solved - P.vectors @ (share[:, None] * (P.vectors.T @ probes))
    estimate = _from_products(probes, products, n, s, found)
    # x / (x + alpha) is operator monotone, so the Nyström approximation bounds it from below
    estimate = replace(estimate, low=max(estimate.low, found), high=min(estimate.high, float(n)))
    estimate = estimate.widened(n * max(1e-8, 10.0 * float(np.finfo(A.dtype).eps)))
    method = f"Hutchinson on what a Nyström approximation of rank {P.rank} misses"
    return _number("effective_dimension", estimate, method, inner.iterations, converged=inner.converged)


def _bracket(G: Matrix, alpha: float, rank: int | None, total: float | None, key: Key) -> Number:
    """Bound the dimension by a Nyström approximation Ĝ ⪯ G: its values, and the most that the rest adds.

    For a concave f with f(0) = 0, tr f(Ĝ + E) ≤ tr f(Ĝ) + tr f(E) (Rotfel'd), and the n - rank eigenvalues of E count
    most when they are equal.
    """
    n, confidence = G.shape[0], 1.0
    if total is None:
        report = trace(G, max(6, min(n, 100)), method="hutch++", random_state=key.child("trace")).report
        total, confidence = report.estimates["trace"].high, report.estimates["trace"].confidence
    size = min(n, 32) if rank is None else min(n, check_count("rank", rank))
    while True:
        P = nystrom_preconditioner(G, alpha, size, random_state=key.child("sketch"))
        found = float((P.values / (P.values + alpha)).sum())
        left = max(0.0, total - float(P.values.sum())) + 10.0 * float(np.finfo(P.values.dtype).eps) * total
        upper = found + (left / (left / (n - P.rank) + alpha) if P.rank < n else 0.0)
        if rank is not None or upper <= 1.1 * found or size >= min(n, 1000):
            break
        size = min(2 * size, n)
    # the standard error is that of a number uniform between the bounds
    estimate = Estimate((found + upper) / 2.0, float((upper - found) / np.sqrt(12.0)), found, upper, P.rank, confidence)
    return _number("effective_dimension", estimate, f"Nyström bracket of rank {P.rank}", P.report.iterations)


def _gram(A: Matrix, kind: str) -> tuple[Matrix, float | None]:
    """Return the positive semi-definite matrix whose eigenvalues count, and its trace if it is known."""
    n, d = A.shape
    if kind == "kernel":
        A = as_square(A, "A_or_K")
        check_symmetric(A, "A_or_K", "Pass kind='data' for a data matrix.")
        entries = diagonal(A)
        return A, None if entries is None else float(entries.sum())
    small, size = (A if n >= d else A.T), min(n, d)

    def product(V: Array) -> Array:
        return gram_product(small, V)

    total = None
    if not isinstance(A, Operator):
        values = A.data if is_sparse(A) else A.ravel(order="K")
        total = float(np.einsum("i,i->", values, values, dtype=np.float64))
    return Operator((size, size), product, product), total


def _eigenvalues(A: Matrix, G: Matrix) -> Array:
    if isinstance(G, Operator) and not isinstance(A, Operator):
        if isinstance(A, np.ndarray):
            return scipy.linalg.svdvals(A.astype(np.float64, copy=False), check_finite=False) ** 2
        A = A.astype(np.float64)
        small = A.T @ A if A.shape[0] >= A.shape[1] else A @ A.T
        return scipy.linalg.eigvalsh(small.toarray(), check_finite=False)
    M = dense(G).astype(np.float64, copy=False)
    values = scipy.linalg.eigvalsh((M + M.T) / 2.0, check_finite=False)
    if values[0] < -np.sqrt(np.finfo(G.dtype).eps) * abs(values[-1]):
        raise ValueError(
            f"the kernel matrix has a negative eigenvalue, {values[0]:.3g}: it is not positive semi-definite."
        )
    return values
