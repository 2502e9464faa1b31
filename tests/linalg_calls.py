"""Every public function of bochner.linalg with the numbers that its reports estimate.

A new function, or a new option that changes what is computed, adds one entry to CALLS and inherits the laws of
tests/test_linalg_laws.py (any input: a right answer or a clear error) and tests/test_linalg_intervals.py (what a report
says is so with the confidence it states).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner import linalg


@dataclass(frozen=True)
class Call:
    """One way to call a function, as run(A, b, alpha, seed).

    `answer(result, log2 of the scale, n)` is what does not change where A grows by s and alpha by s^penalty, once
    it is multiplied by s^-grows; with `targets` b enters linearly. Truths are functions of (A, b, alpha, result), one
    an estimate.
    """

    run: Callable[..., Any]
    kind: str  # of matrix: "any", "tall", "square", "symmetric", "definite"
    answer: Callable[..., Any]
    truths: dict[str, Callable[..., float]]
    grows: int = 0
    penalty: int = 0
    targets: bool = False
    #: the exact answer as a function of (A, b, alpha), for the methods that reach it on small matrices
    exact: Callable[..., Any] | None = None


def _projector(result):
    return result.Q @ result.Q.T


def _approximation(result):
    return _projector(result) if isinstance(result, linalg.Range) else result.to_dense()


def _error(A, b, alpha, result):
    if isinstance(result, linalg.Range):
        return np.linalg.norm(A - _projector(result) @ A)
    return np.linalg.norm(A - result.to_dense())


def _relative(A, b, alpha, result):
    return _error(A, b, alpha, result) / (np.linalg.norm(A) or 1.0)


def _trace_error(A, b, alpha, result):
    return np.trace(A - result.to_dense())


def dimension_of(values, alpha):
    return float((values / (values + alpha)).sum())


def _kernel_dimension(A, b, alpha, result):
    return dimension_of(np.maximum(np.linalg.eigvalsh(A), 0.0), alpha)


def _data_dimension(A, b, alpha, result):
    return dimension_of(np.linalg.svd(A, compute_uv=False) ** 2, alpha)


def _condition(A, b, alpha, result):
    s = np.linalg.svd(A, compute_uv=False)
    s = s[s > len(A) * 1e-15 * s.max()]
    return s[0] / s[-1] if len(s) else 1.0


def _excess(A, b, alpha, result):
    best = np.linalg.lstsq(A, b, rcond=None)[0]
    return np.linalg.norm(A @ (result.x - best)) ** 2 / np.linalg.norm(A @ best - b) ** 2


def _log_determinant(A, b, alpha, result):
    return np.linalg.slogdet(A + alpha * np.eye(len(A)))[1]


ERRORS = {"error": _error, "relative_error": _relative}


def _low_rank(function, kind="any", **options):
    def run(A, b, alpha, seed):
        size = {} if "tol" in options else {"rank": 3}
        return function(A, **size, random_state=seed, **options)

    truths = ERRORS | ({"trace_error": _trace_error} if function is linalg.nystrom else {})
    projects = function is linalg.range_finder
    return Call(run, kind, lambda result, *_: _approximation(result), truths, grows=0 if projects else 1)


def _solver(function, kind, exact, truths=None, penalty=None, **options):
    def run(A, b, alpha, seed):
        penalties = () if penalty is None else (alpha,)
        return function(A, b, *penalties, random_state=seed, **options)

    return Call(run, kind, lambda result, *_: result.x, truths or {}, -1, penalty or 0, True, exact)


def _number(function, matrix, truths, grows=0, penalty=0, exact=None, **options):
    def run(A, b, alpha, seed):
        penalties = () if not penalty else (alpha,)
        return function(A, *penalties, random_state=seed, **options)

    return Call(run, matrix, lambda result, *_: result.value, truths, grows, penalty, exact=exact)


def _least_squares(A, b, alpha):
    return np.linalg.lstsq(A, b, rcond=1e-12)[0]


def _ridge(A, b, alpha):
    return np.linalg.solve(A.T @ A + alpha * np.eye(A.shape[1]), A.T @ b)


def _gram_solve(A, b, alpha):
    return np.linalg.solve(A @ A.T + alpha * np.eye(A.shape[0]), b)


def _signs(b):
    return np.where(b > 0, 1.0, -1.0)


TRACE = {"trace": lambda A, *_: np.trace(A)}
CONDITION = {"condition": _condition}
OF_DATA, OF_KERNEL = {"effective_dimension": _data_dimension}, {"effective_dimension": _kernel_dimension}

CALLS = {
    "range_finder": _low_rank(linalg.range_finder),
    "range_finder tol": _low_rank(linalg.range_finder, tol=0.1),
    "randomized_svd": _low_rank(linalg.randomized_svd, n_iter=0, oversampling=2),
    "randomized_svd krylov": _low_rank(linalg.randomized_svd),
    "randomized_svd tol": _low_rank(linalg.randomized_svd, tol=0.1),
    "randomized_eigh": _low_rank(linalg.randomized_eigh, "symmetric", n_iter=0, oversampling=2),
    "randomized_eigh tol": _low_rank(linalg.randomized_eigh, "symmetric", tol=0.1),
    "nystrom": _low_rank(linalg.nystrom, "definite"),
    "nystrom tol": _low_rank(linalg.nystrom, "definite", tol=0.1),
    "generalized_nystrom": _low_rank(linalg.generalized_nystrom),
    "cx": _low_rank(linalg.cx),
    "cur": _low_rank(linalg.cur),
    "lstsq iterative": _solver(linalg.lstsq, "any", _least_squares, CONDITION),
    "lstsq precondition": _solver(linalg.lstsq, "any", _least_squares, CONDITION, method="precondition"),
    "lstsq sketch": _solver(linalg.lstsq, "tall", None, CONDITION | {"excess": _excess}, method="sketch"),
    "lstsq gaussian sketch": _solver(
        linalg.lstsq, "tall", None, CONDITION | {"excess": _excess}, method="sketch", law="gaussian"
    ),
    "ridge precondition": _solver(linalg.ridge, "any", _ridge, OF_DATA, penalty=2),
    "ridge partial_sketch": _solver(linalg.ridge, "any", None, penalty=2, method="partial_sketch"),
    "ridge full_sketch": _solver(linalg.ridge, "any", None, penalty=2, method="full_sketch"),
    "gram_solve": Call(
        lambda A, b, alpha, seed: linalg.gram_solve(A, b, alpha, random_state=seed),
        "any",
        lambda result, *_: result.x,
        {},
        grows=-2,
        penalty=2,
        targets=True,
        exact=_gram_solve,
    ),
    "sketched_kernel_ridge right": _solver(linalg.sketched_kernel_ridge, "definite", None, penalty=1),
    "sketched_kernel_ridge left": _solver(linalg.sketched_kernel_ridge, "definite", None, penalty=1, side="left"),
    "conjugate_gradient": Call(
        lambda A, b, alpha, seed: linalg.conjugate_gradient(A, b, tol=1e-12),
        "definite",
        lambda result, *_: result.x,
        {},
        grows=-1,
        targets=True,
    ),
    "nystrom_preconditioner": Call(
        lambda A, b, alpha, seed: linalg.nystrom_preconditioner(A, alpha, random_state=seed),
        "definite",
        lambda result, scale, n: result(np.eye(n)),
        OF_KERNEL,
        penalty=1,
    ),
    "newton_sketch squared": Call(
        lambda A, b, alpha, seed: linalg.newton_sketch("squared", A, b, alpha, tol=1e-12, random_state=seed),
        "any",
        lambda result, *_: result.x,
        {},
        grows=-1,
        penalty=2,
        exact=_ridge,
    ),
    "newton_sketch log_loss": Call(
        lambda A, b, alpha, seed: linalg.newton_sketch("log_loss", A, _signs(b), alpha, tol=1e-12, random_state=seed),
        "any",
        lambda result, *_: result.x,
        {},
        grows=-1,
        penalty=2,
    ),
    **{
        f"trace {method}": _number(
            linalg.trace, "definite" if method == "xnystrace" else "square", TRACE, 1, method=method, n_products=m
        )
        for method, m in (("xtrace", 12), ("xnystrace", 12), ("hutch++", 12), ("hutchinson", 12))
    },
    "log_determinant": Call(
        lambda A, b, alpha, seed: linalg.log_determinant(A, alpha=alpha, random_state=seed),
        "definite",
        lambda result, scale, n: result.value - n * scale * np.log(2.0),
        {"log_determinant": _log_determinant},
        penalty=1,
    ),
    **{
        f"effective_dimension {method} {kind}": _number(
            linalg.effective_dimension,
            "definite" if kind == "kernel" else "any",
            OF_KERNEL if kind == "kernel" else OF_DATA,
            penalty=1 if kind == "kernel" else 2,
            exact=None
            if method != "exact"
            else lambda A, b, alpha, f=(_kernel_dimension if kind == "kernel" else _data_dimension): f(
                A, b, alpha, None
            ),
            method=method,
            kind=kind,
        )
        for method in ("exact", "sketch", "stochastic")
        for kind in ("data", "kernel")
    },
}
