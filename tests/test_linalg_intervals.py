"""What the reports of bochner.linalg say of their own errors is so, with the confidence they state.

Every function that estimates anything (tests/linalg_calls.py), every sketch law that it takes, matrices and operators
of several sizes, spectra that are flat, decay or have heavy tails, and rows with heavy tails. An interval of confidence
0.999 may fail in as many of n draws as a binomial(n, 0.001) variable exceeds with probability 1e-6.
"""

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator
from scipy.stats import binom

from bochner import linalg
from bochner.linalg.reports import deviation, error_estimates, frobenius_estimate, trace_estimate
from bochner.ridge.reports import DELTA
from bochner.sketches import SKETCH_LAWS
from linalg_calls import CALLS
from matrices import with_eigenvalues, with_singular_values

ALPHA = 0.01
FORMS = {"array": np.asarray, "operator": aslinearoperator}
SPECTRA = {
    "flat": lambda n: np.linspace(0.5, 1.5, n),
    "decaying": lambda n: np.arange(1.0, n + 1.0) ** -1.5,
    "heavy": lambda n: np.append(100.0, np.full(n - 1, 1e-2)),  # what is left has one direction that counts
    "heavy tailed": lambda n: np.sort(np.abs(np.random.default_rng(5).standard_cauchy(n)))[::-1],
}
# estimates that say nothing of every matrix, for the reasons in their functions' docstrings
WITHOUT_INTERVALS = {("trace xtrace", "trace"), ("trace xnystrace", "trace")} | {
    (f"lstsq {method}", estimate)
    for method in ("iterative", "precondition", "sketch")
    for estimate in ("condition", "excess")
}


def matrix(kind, n, spectrum, heavy_rows=False):
    values = SPECTRA[spectrum](n if kind not in ("any", "tall") else max(2, n // 8))
    if kind in ("any", "tall"):
        A = with_singular_values(n, len(values), values)
        if heavy_rows:
            A[:3] *= 1e3
        return A
    if kind == "square":
        return with_singular_values(n, n, values)
    return with_eigenvalues(n, values)


def assert_covered(name, form, matrices, n_draws, run=None):
    """The truth is outside of no interval more often than it may be, over all draws for all of the matrices."""
    call, outside = CALLS[name], {}
    for A in matrices:
        b = A @ np.ones(A.shape[1]) + np.random.default_rng(0).standard_t(2, len(A))
        for seed in range(n_draws):
            result = (run or call.run)(FORMS[form](A), b, ALPHA, seed)
            for key, estimate in result.report.estimates.items():
                assert key in call.truths, f"{name} estimates {key!r}: add its truth to tests/linalg_calls.py"
                truth = call.truths[key](A, b, ALPHA, result)
                rounding = 1e-9 * (np.linalg.norm(A) if key in ("error", "trace_error", "trace") else max(1.0, truth))
                inside = estimate.low - rounding <= truth <= estimate.high + rounding
                outside.setdefault(key, []).append(not inside)
                assert 0.999 <= estimate.confidence <= 1.0
    for key, counts in outside.items():
        assert sum(counts) <= binom.isf(1e-6, len(counts), DELTA), f"{key}: {sum(counts)} of {len(counts)} outside"


ESTIMATING = [name for name, call in CALLS.items() if call.truths]


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ESTIMATING)
def test_every_interval_covers(name, form, spectrum):
    assert_covered(name, form, [matrix(CALLS[name].kind, n, spectrum) for n in (32, 80)], 15)


@pytest.mark.slow
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ESTIMATING)
def test_every_interval_covers_in_long_runs(name, form, spectrum):
    assert_covered(name, form, [matrix(CALLS[name].kind, n, spectrum) for n in (16, 48, 160)], 100)


@pytest.mark.parametrize("law", SKETCH_LAWS)
@pytest.mark.parametrize("heavy_rows", [False, True])
def test_least_squares_by_a_sketch_covers_under_every_law(law, heavy_rows):
    A = matrix("tall", 400, "decaying", heavy_rows)[:, :5]
    for size in (20, 100):

        def run(A, b, alpha, seed, size=size):
            return linalg.lstsq(A, b, method="sketch", law=law, sketch_size=size, random_state=seed)

        assert_covered("lstsq sketch", "array", [A], 40, run)
    estimates = run(A, np.ones(400), ALPHA, 0).report.estimates
    known = np.isfinite([estimates["excess"].high, estimates["condition"].high])
    assert known.all() if law == "gaussian" else not known.any()


def test_intervals_are_there_and_say_something():
    # finite on both sides, and not absurdly wide, but where a docstring says why not
    for name in ESTIMATING:
        for form in FORMS:
            A = matrix(CALLS[name].kind, 400, "decaying")
            A = A[:, :5] if A.shape[1] < 400 else A  # so that a sketch is smaller
            result = CALLS[name].run(FORMS[form](A), np.ones(len(A)) + A[:, 0], ALPHA, 0)
            for key, estimate in result.report.estimates.items():
                finite = np.isfinite([estimate.low, estimate.high])
                if (name, key) in WITHOUT_INTERVALS:
                    assert not finite.any(), (name, key)
                else:
                    assert finite.all(), (name, key)


def test_the_error_of_an_operator_is_as_uncertain_as_its_norm():
    # one direction holds the norm: ten probes may see much more or much less of it
    A = np.diag(np.append(10.0, np.full(49, 0.1)))
    truth = np.linalg.norm(A[1:]) / np.linalg.norm(A)
    outside = 0
    for seed in range(300):
        estimate = linalg.cx(aslinearoperator(A), 1, selection=[0], random_state=seed).report.estimates[
            "relative_error"
        ]
        outside += not estimate.low <= truth <= estimate.high
    assert outside <= binom.isf(1e-6, 300, DELTA)


@pytest.mark.parametrize("s", [2, 6, 10, 30, 100])
@pytest.mark.parametrize("rank", [1, 3, 100])
def test_means_of_quadratic_forms_cover_whatever_the_rank(s, rank):
    # equal eigenvalues of either sign, Gaussian probes: chi-squared variables
    rng, n, n_draws, delta = np.random.default_rng(s), 1000, 20_000, 0.01
    forms = rng.chisquare(rank, size=(n_draws, s)).mean(axis=1)
    x = deviation(s, delta)
    for sign in (1.0, -1.0):
        assert (sign * (forms - rank) >= x * np.sqrt(rank)).mean() <= delta
    assert (forms >= (1.0 + x) * rank).mean() <= delta
    # and of the norm, and of the trace: the sphere makes of it rank / n · F, nearly
    few = [trace_estimate(f, f, n) for f in rng.chisquare(rank, size=(500, s))]
    assert sum(not e.low <= rank <= e.high for e in few) <= binom.isf(1e-6, 500, DELTA)
    columns = rng.normal(size=(500, rank, s))
    found = [frobenius_estimate(c) for c in columns]
    assert sum(not e.low <= np.sqrt(rank) <= e.high for e in found) <= binom.isf(1e-6, 500, DELTA)


@pytest.mark.parametrize("n_steps", [3, 8, 30])
def test_a_log_determinant_says_where_its_quadrature_has_not_converged(n_steps):
    values = np.logspace(0, -8, 100)
    A, truth = with_eigenvalues(100, values), np.log(values).sum()
    for seed in range(10):
        report = linalg.log_determinant(A, n_steps=n_steps, n_probes=40, random_state=seed).report
        estimate = report.estimates["log_determinant"]
        assert estimate.low <= truth <= estimate.high
        assert report.converged == np.isfinite(estimate.low)


def test_many_looks_share_the_probability():
    # an adaptive method stops when an estimate is small: the more often it looks, the wider the interval
    difference = np.random.default_rng(0).normal(size=(5, 10))
    norm = linalg.Estimate.exact(10.0)
    ends = [error_estimates(difference, norm, look=look)["error"] for look in (None, 1, 2, 9)]
    assert (np.diff([e.high for e in ends]) > 0).all()
    assert (np.diff([e.low for e in ends]) < 0).all()
