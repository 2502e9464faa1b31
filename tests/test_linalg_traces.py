"""Traces, log-determinants and effective dimensions: unbiased, with error bars that mean something."""

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator
from scipy.stats import binom

from bochner import linalg, theory
from bochner.linalg.traces import TRACE_METHODS
from laws import assert_unbiased
from matrices import FORMS, with_eigenvalues, with_singular_values

SPECTRA = {
    "decaying": 1.0 / np.arange(1.0, 121.0) ** 2,
    "flat": np.linspace(0.5, 1.5, 120),
    "singular": np.append(np.ones(5), np.zeros(115)),
}


@pytest.mark.parametrize("method", TRACE_METHODS)
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("n_products", [30, 90])
def test_traces_are_unbiased_and_their_error_bars_honest(method, spectrum, n_products):
    values = SPECTRA[spectrum]
    A, n_draws = with_eigenvalues(120, values), 200
    draws = np.array([tuple(linalg.trace(A, n_products, method=method, random_state=r)) for r in range(n_draws)])
    assert_unbiased(draws[:, 0], values.sum(), floor=1e-11)
    # the bar is that of the draws within a factor of two, or both are rounding
    spread = draws[:, 0].std()
    assert spread / 2 <= np.sqrt((draws[:, 1] ** 2).mean()) + 1e-11
    assert np.sqrt((draws[:, 1] ** 2).mean()) <= 3 * spread + 1e-11


def test_traces_of_matrices_that_are_not_symmetric():
    A = np.triu(np.random.default_rng(0).normal(size=(60, 60))) + 3.0 * np.eye(60)
    for method in ("xtrace", "hutch++", "hutchinson"):
        draws = np.array([float(linalg.trace(A, 20, method=method, random_state=r)) for r in range(300)])
        assert_unbiased(draws, np.trace(A))
    with pytest.raises(ValueError, match="not symmetric"):
        linalg.trace(A, 20, method="xnystrace", random_state=0)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        linalg.trace(-with_eigenvalues(60, SPECTRA["flat"][:60]), 20, method="xnystrace", random_state=0)


@pytest.mark.parametrize("form", FORMS)
def test_traces_of_every_kind_of_matrix(form):
    A = with_eigenvalues(50, SPECTRA["decaying"][:50])
    for method in TRACE_METHODS:
        expected = linalg.trace(A, 20, method=method, random_state=1)
        result = linalg.trace(FORMS[form](A), 20, method=method, random_state=1)
        np.testing.assert_allclose(tuple(result), tuple(expected), atol=1e-9)
    exact = linalg.trace(FORMS[form](A), 50)
    np.testing.assert_allclose(float(exact), np.trace(A))
    assert exact.standard_error == 0.0


def test_low_rank_parts_pay_when_the_spectrum_decays_and_only_then():
    def spread(spectrum, method):
        A = with_eigenvalues(120, SPECTRA[spectrum])
        return np.std([float(linalg.trace(A, 30, method=method, random_state=r)) for r in range(100)])

    assert spread("decaying", "xtrace") < 0.2 * spread("decaying", "hutchinson")
    assert spread("decaying", "xnystrace") < spread("decaying", "hutch++")
    assert spread("flat", "hutchinson") < spread("flat", "hutch++")


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_log_determinants(alpha):
    values = np.logspace(0, -2, 100)
    A = with_eigenvalues(100, values)
    truth = np.log(values + alpha).sum()
    draws = np.array([tuple(linalg.log_determinant(A, alpha=alpha, n_probes=5, random_state=r)) for r in range(200)])
    assert_unbiased(draws[:, 0], truth, floor=1e-6)
    assert 0.5 < np.sqrt((draws[:, 1] ** 2).mean()) / draws[:, 0].std() < 2.0
    few = linalg.log_determinant(A, alpha=alpha, n_steps=7, n_probes=200, random_state=0).report
    assert linalg.log_determinant(A, alpha=alpha, random_state=0).report.converged
    assert few.converged or "n_steps" in few.notes[0]


@pytest.mark.parametrize("form", FORMS)
def test_log_determinants_of_every_kind_of_matrix(form):
    A = with_eigenvalues(40, np.linspace(1.0, 2.0, 40))
    expected = linalg.log_determinant(A, random_state=0)
    np.testing.assert_allclose(
        tuple(linalg.log_determinant(FORMS[form](A), random_state=0)), tuple(expected), atol=1e-9
    )
    # few distinct eigenvalues: the Lanczos space closes, and the answer is exact in the steps
    B = FORMS[form](with_eigenvalues(40, np.ones(3)))
    assert linalg.log_determinant(B, alpha=0.5, random_state=0).report.converged
    np.testing.assert_allclose(float(linalg.log_determinant(FORMS[form](np.eye(8)), alpha=1.0)), 8 * np.log(2.0))


def test_log_determinants_of_indefinite_matrices_are_refused():
    for A in (np.diag([1.0, -1.0, 2.0]), np.zeros((3, 3)), with_eigenvalues(20, np.ones(3))):
        with pytest.raises(ValueError, match="not positive definite"):
            linalg.log_determinant(A)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_effective_dimensions(spectrum, alpha):
    values = SPECTRA[spectrum]
    K = with_eigenvalues(120, values)
    A = with_singular_values(200, 120, np.sqrt(values))
    truth = theory.effective_dimension(values, alpha)
    for matrix, kind in ((K, "auto"), (A, "auto"), (A.T, "auto"), (K, "kernel"), (A, "data")):
        exact = linalg.effective_dimension(matrix, alpha, kind=kind)
        np.testing.assert_allclose(float(exact), truth, rtol=1e-8)
        # the bracket is a theorem, up to rounding
        for rank in (None, 10):
            result = linalg.effective_dimension(matrix, alpha, method="sketch", kind=kind, rank=rank, random_state=0)
            bracket = result.report.estimates["effective_dimension"]
            assert bracket.low - 1e-6 <= truth <= bracket.high + 1e-6
            assert bracket.confidence == 1.0
            if rank is None:
                assert bracket.high <= 1.1 * bracket.low + 1e-6 or bracket.n_probes >= 120


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_stochastic_effective_dimensions_are_unbiased(spectrum):
    values, alpha, n_draws = SPECTRA[spectrum], 0.05, 120
    K = with_eigenvalues(120, values)
    truth = theory.effective_dimension(values, alpha)
    results = [
        linalg.effective_dimension(K, alpha, method="stochastic", rank=10, n_probes=8, random_state=r)
        for r in range(n_draws)
    ]
    assert_unbiased(np.array([float(r) for r in results]), truth, floor=1e-6)
    outside = sum(not r.report.estimates["effective_dimension"].low - 1e-6 <= truth for r in results)
    outside += sum(not truth <= r.report.estimates["effective_dimension"].high + 1e-6 for r in results)
    assert outside <= binom.isf(1e-6, n_draws, 1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_effective_dimensions_of_every_kind_of_matrix(form):
    A = with_singular_values(50, 30, 0.8 ** np.arange(30.0))
    for matrix in (A, A @ A.T):
        for method in ("exact", "sketch", "stochastic"):
            expected = linalg.effective_dimension(matrix, 0.01, method=method, random_state=0)
            result = linalg.effective_dimension(FORMS[form](matrix), 0.01, method=method, random_state=0)
            assert abs(float(result) - float(expected)) <= 1e-6 + 4 * (result.standard_error + expected.standard_error)


def test_effective_dimensions_at_the_edges():
    assert float(linalg.effective_dimension(np.zeros((6, 4)), 1.0)) == 0.0
    for method in ("sketch", "stochastic"):
        assert float(linalg.effective_dimension(np.zeros((6, 4)), 1.0, method=method)) < 1e-12
    with pytest.raises(ValueError, match="alpha"):
        linalg.effective_dimension(np.eye(3), 0.0)
    with pytest.raises(ValueError, match="symmetric"):
        linalg.effective_dimension(np.triu(np.ones((5, 5))), 1.0, kind="kernel")
    with pytest.raises(ValueError, match="square"):
        linalg.effective_dimension(np.ones((5, 4)), 1.0, kind="kernel")
    with pytest.raises(ValueError, match="negative eigenvalue"):
        linalg.effective_dimension(-np.eye(5), 1.0, kind="kernel")
    with pytest.raises(ValueError, match="not positive semi-definite"):
        linalg.effective_dimension(-np.eye(5), 1.0, kind="kernel", method="sketch")
    with pytest.raises(ValueError, match="at least 6"):
        linalg.trace(aslinearoperator(np.eye(9)), 2)


def test_every_report_is_a_frozen_record_and_nothing_is_printed(capsys):
    K = with_eigenvalues(20, SPECTRA["decaying"][:20])
    for result in (
        linalg.trace(K, 10),
        linalg.nystrom(K, 3),
        linalg.lstsq(K[:, :3], K[:, 0]),
        linalg.ridge(K, K[:, 0], 1.0),
        linalg.newton_sketch("squared", K, K[:, 0], 1.0),
        linalg.conjugate_gradient(K + np.eye(20), K[:, 0]),
    ):
        assert isinstance(result.report, linalg.Report)
        assert len(list(result)) >= 2
        with pytest.raises(AttributeError):
            result.report.converged = False
    assert capsys.readouterr().out == ""
