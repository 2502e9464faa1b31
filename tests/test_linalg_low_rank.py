"""Low-rank approximations: as good as their theory, the same for every kind of matrix, honest about their error."""

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from scipy.stats import binom

from bochner import linalg
from bochner.sketches import SKETCH_LAWS
from bochner.theory import LowRankBound, trace_upper_factor
from laws import assert_unbiased
from matrices import FORMS, Products, with_eigenvalues, with_singular_values

# name: (function of (A, rank, random_state), needs a symmetric positive semi-definite matrix)
METHODS = {
    "svd": (linalg.randomized_svd, False),
    "svd_subspace": (lambda A, k, **kw: linalg.randomized_svd(A, k, iteration="subspace", **kw), False),
    "eigh": (linalg.randomized_eigh, True),
    "nystrom": (linalg.nystrom, True),
    "generalized_nystrom": (linalg.generalized_nystrom, False),
    "cx": (linalg.cx, False),
    "cur": (linalg.cur, False),
}


@pytest.fixture(params=METHODS)
def method(request):
    return METHODS[request.param]


def example(symmetric, values):
    return with_eigenvalues(60, values) if symmetric else with_singular_values(60, 45, values)


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_matrix_gives_the_same_answer(method, form):
    function, symmetric = method
    A = example(symmetric, 0.7 ** np.arange(30.0))
    expected = function(A, 6, random_state=3)
    result = function(FORMS[form](A), 6, random_state=3)
    np.testing.assert_allclose(result.to_dense(), expected.to_dense(), atol=1e-9)
    assert result.rank <= 6
    B = np.random.default_rng(0).normal(size=(A.shape[1], 2))
    np.testing.assert_allclose(result @ B, result.to_dense() @ B, atol=1e-12)


def test_float32_stays_float32(method):
    function, symmetric = method
    A = example(symmetric, 0.5 ** np.arange(20.0)).astype(np.float32)
    result = function(A, 5, random_state=0)
    assert all(part.dtype == np.float32 for part in result.factors())
    best = np.linalg.norm(0.5 ** np.arange(5.0, 20.0))
    assert np.linalg.norm(A - result.to_dense()) <= 20 * best


def test_a_matrix_of_low_rank_is_found_exactly(method):
    function, symmetric = method
    A = example(symmetric, np.array([3.0, 2.0, 1.0]))
    result = function(A, 5, random_state=1)
    np.testing.assert_allclose(result.to_dense(), A, atol=1e-9)
    assert result.report.residual < 1e-9


def test_rank_beyond_the_size_is_exact(method):
    function, symmetric = method
    A = example(symmetric, 1.0 / np.arange(1.0, 46.0))
    np.testing.assert_allclose(function(A, 1000, random_state=0).to_dense(), A, atol=1e-8)


def test_zero_matrices(method):
    function, _ = method
    result = function(np.zeros((7, 7)), 2, random_state=0)
    assert not result.to_dense().any()
    assert result.report.residual == 0.0


def test_one_row_and_one_column(method):
    function, symmetric = method
    for A in [np.array([[4.0]])] + ([] if symmetric else [np.arange(1.0, 6.0)[None], np.arange(1.0, 6.0)[:, None]]):
        np.testing.assert_allclose(function(A, 1, random_state=0).to_dense(), A)


@pytest.mark.parametrize("scale", [1e-250, 1e-150, 1e150, 1e250])
def test_scales_do_not_matter(method, scale):
    function, symmetric = method
    A = example(symmetric, 0.5 ** np.arange(20.0))
    result = function(A, 5, random_state=0)
    for form in (np.asarray, scipy.sparse.csr_array):
        scaled = function(form(scale * A), 5, random_state=0)
        np.testing.assert_allclose(scaled.to_dense() / scale, result.to_dense(), atol=1e-9)
        for name, estimate in result.report.estimates.items():
            unit = 1.0 if name.startswith("relative") else scale
            np.testing.assert_allclose(scaled.report.estimates[name].high / unit, estimate.high, rtol=1e-4)


def test_float32_of_any_scale(method):
    function, symmetric = method
    A = example(symmetric, 0.5 ** np.arange(20.0)).astype(np.float32)
    result = function(A, 5, random_state=0)
    for scale in (np.float32(2.0) ** 120, np.float32(2.0) ** -110):
        scaled = function(scale * A, 5, random_state=0)
        assert all(part.dtype == np.float32 for part in scaled.factors())
        np.testing.assert_allclose(scaled.to_dense() / scale, result.to_dense(), atol=1e-4)
    if function in (linalg.randomized_svd, linalg.randomized_eigh, linalg.nystrom):
        with pytest.raises(ValueError, match="beyond the range of float64"):
            function(np.full((6, 6), 1e308), 1, random_state=0)
    assert np.isfinite(function(np.full((6, 6), 5e37, np.float32), 1, random_state=0).report.residual)


@pytest.mark.parametrize("n", [3, 15, 40])
@pytest.mark.parametrize("form", FORMS)
def test_constant_matrices_and_repeated_rows_are_found_exactly(method, form, n):
    # nothing is left after the first direction: what an iteration makes up from rounding must not do harm
    function, _ = method
    for A in (np.ones((n, n)), np.kron(np.eye(3), np.ones((n // 3, n // 3)))):
        for seed in range(5):
            result = function(FORMS[form](A), 3, random_state=seed)
            np.testing.assert_allclose(result.to_dense(), A, atol=1e-10)
            assert result.report.residual < 1e-10


def test_signs_of_singular_vectors_do_not_depend_on_the_seed():
    A = example(False, 0.5 ** np.arange(20.0))
    U, _, Vt = linalg.randomized_svd(A, 4, random_state=0)
    assert (np.abs(U).max(axis=0) == U.max(axis=0)).all()
    for seed in range(1, 6):
        other = linalg.randomized_svd(A, 4, random_state=seed)
        np.testing.assert_allclose(other.U, U, atol=1e-6)
        np.testing.assert_allclose(other.Vt, Vt, atol=1e-6)


@pytest.mark.parametrize("iteration", ["krylov", "subspace"])
def test_bases_of_matrices_of_rank_one_are_orthonormal(iteration):
    A = np.outer(np.arange(1.0, 31.0), np.ones(25))
    for seed in range(10):
        for options in ({"rank": 4, "n_iter": 5}, {"tol": 1e-12, "n_iter": 2}):
            Q, report = linalg.range_finder(A, iteration=iteration, random_state=seed, **options)
            np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-12)
            assert report.residual < 1e-12
            U, s, Vt = linalg.randomized_svd(A, iteration=iteration, random_state=seed, **options)
            np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-12)
            np.testing.assert_allclose(Vt @ Vt.T, np.eye(len(s)), atol=1e-12)
            np.testing.assert_allclose(s[0], np.linalg.norm(A))


def test_the_error_of_a_known_matrix_is_exact():
    A = with_singular_values(60, 45, 1.0 / np.arange(1.0, 46.0))
    for form in (np.asarray, np.asfortranarray, scipy.sparse.csr_array):
        for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 2e-3)):
            result = linalg.randomized_svd(form(A.astype(dtype)), 8, random_state=0)
            error, estimate = np.linalg.norm(A - result.to_dense()), result.report.estimates["error"]
            np.testing.assert_allclose(estimate.value, error, rtol=tolerance)
            assert estimate.low <= error <= estimate.high
            assert (estimate.n_probes, estimate.confidence) == (0, 1.0)
    # an operator's norm is not known, and a difference of squares says nothing of an error near rounding
    assert linalg.randomized_svd(aslinearoperator(A), 8, random_state=0).report.estimates["error"].n_probes == 10
    result = linalg.randomized_svd(with_singular_values(60, 45, 0.1 ** np.arange(45.0)), 8, random_state=0)
    assert result.report.estimates["error"].n_probes == 10
    assert 1e-9 < result.report.residual < 1e-7


def test_bad_matrices_are_refused(method):
    function, symmetric = method
    with pytest.raises(ValueError, match="NaN"):
        function(np.full((3, 3), np.nan), 1)
    with pytest.raises(ValueError, match="2D"):
        function(np.ones(3), 1)
    with pytest.raises(ValueError, match="Complex"):
        function(np.ones((3, 3)) * 1j, 1)
    with pytest.raises(ValueError, match="positive integer"):
        function(np.eye(3), 0)
    with pytest.raises(TypeError, match="integer"):
        function(np.eye(3), 1.5)
    with pytest.raises(ValueError, match="NaN"):
        function(Products(np.full((3, 3), np.nan)), 1)
    if symmetric:
        with pytest.raises(ValueError, match="square"):
            function(np.ones((3, 4)), 1)
        with pytest.raises(ValueError, match="not symmetric"):
            function(np.random.default_rng(0).normal(size=(30, 30)), 5, random_state=0)


def test_the_transpose_is_asked_for_kindly():
    with pytest.raises(TypeError, match="transpose"):
        linalg.randomized_svd(LinearOperator((4, 4), matvec=lambda v: v), 2)


def test_the_error_estimate_is_unbiased_and_its_bound_holds(method):
    function, symmetric = method
    A = example(symmetric, 1.0 / np.arange(1.0, 46.0))
    ratios, failures, n_draws = [], 0, 200
    for seed in range(n_draws):
        result = function(A, 8, random_state=seed)
        error = np.linalg.norm(A - result.to_dense())
        estimate = result.report.estimates["error"]
        ratios.append(estimate.value**2 / error**2)
        failures += not error <= estimate.high
        relative = result.report.estimates["relative_error"]
        np.testing.assert_allclose(relative.value, estimate.value / np.linalg.norm(A), rtol=1e-6)
    assert_unbiased(np.array(ratios), 1.0)
    assert failures <= binom.isf(1e-6, n_draws, 1e-3)


@pytest.mark.parametrize("decay", [0.5, 1.0, 2.0])
def test_the_range_finder_obeys_its_bound(decay):
    # E‖A - QQᵀA‖_F² ≤ min over k of (1 + k / (m - k - 1)) Σ_{j > k} σ_j², over 200 draws
    s = np.arange(1.0, 81.0) ** -decay
    A = with_singular_values(100, 80, s)
    for m in (5, 20):
        squares = []
        for seed in range(200):
            Q = linalg.range_finder(A, m, oversampling=0, random_state=seed).Q
            squares.append(np.linalg.norm(A - Q @ (Q.T @ A)) ** 2)
        squares = np.array(squares)
        assert squares.mean() <= LowRankBound(singular_values=s).error(m) + 5.0 * squares.std() / np.sqrt(200)
        assert squares.min() >= (1 - 1e-12) * (s[m:] ** 2).sum()


def test_iterations_sharpen_and_krylov_sharpens_more():
    s = np.arange(1.0, 101.0) ** -0.5
    A = with_singular_values(150, 100, s)
    best = np.linalg.norm(s[10:])

    def excess(**options):
        errors = [
            np.linalg.norm(A - linalg.randomized_svd(A, 10, random_state=r, **options).to_dense()) for r in range(20)
        ]
        return np.mean(errors) / best - 1.0

    plain, one, two = (excess(n_iter=q, iteration="subspace") for q in (0, 1, 2))
    assert two < one < plain
    assert excess(n_iter=2, iteration="krylov") < 0.5 * two


@pytest.mark.parametrize("function", [linalg.randomized_svd, linalg.randomized_eigh, linalg.nystrom])
@pytest.mark.parametrize("tol", [0.3, 0.03])
def test_adaptive_ranks_reach_their_tolerance(function, tol):
    values = 1.0 / np.arange(1.0, 121.0)
    A = with_eigenvalues(120, values)
    tails = np.sqrt(np.cumsum(values[::-1] ** 2)[::-1]) / np.linalg.norm(values)
    needed = np.argmax(tails <= tol)
    for seed in range(20):
        result = function(A, tol=tol, random_state=seed)
        error = np.linalg.norm(A - result.to_dense()) / np.linalg.norm(A)
        assert error <= tol * np.sqrt(trace_upper_factor(10, delta=1e-6))
        assert needed <= 1.2 * result.rank + 1
        assert result.rank <= 2 * needed + 5
        assert result.report.converged


def test_adaptive_range_of_an_operator():
    A = with_singular_values(90, 70, 0.8 ** np.arange(70.0))
    Q, report = linalg.range_finder(aslinearoperator(A), tol=1e-3, n_iter=1, random_state=0)
    assert np.linalg.norm(A - Q @ (Q.T @ A)) <= 1e-3 * 7 * np.linalg.norm(A)
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-12)
    assert Q.shape[1] < 70
    assert report.estimates["relative_error"].n_probes >= 10


def test_a_rank_or_a_tolerance():
    for options in ({}, {"rank": 2, "tol": 0.1}):
        with pytest.raises(ValueError, match="either a rank or a tol"):
            linalg.randomized_svd(np.eye(3), **options)
    with pytest.raises(ValueError, match="between 0 and 1"):
        linalg.randomized_svd(np.eye(3), tol=2.0)
    with pytest.raises(ValueError, match="'krylov', 'subspace'"):
        linalg.randomized_svd(np.eye(3), 1, iteration="power")


def test_singular_vectors_are_orthonormal_and_values_do_not_exceed_the_true_ones():
    s = 1.0 / np.arange(1.0, 46.0)
    A = with_singular_values(60, 45, s)
    for seed in range(10):
        U, found, Vt = linalg.randomized_svd(A, 10, n_iter=0, random_state=seed)
        np.testing.assert_allclose(U.T @ U, np.eye(10), atol=1e-12)
        np.testing.assert_allclose(Vt @ Vt.T, np.eye(10), atol=1e-12)
        assert (found <= s[:10] * (1 + 1e-12)).all()
        assert (np.diff(found) <= 0).all()


def test_eigenvalues_of_either_sign():
    values = np.array([5.0, -4.0, 3.0, -0.01, 0.002])
    result = linalg.randomized_eigh(with_eigenvalues(30, values), 3, random_state=0)
    np.testing.assert_allclose(result.values, values[:3], rtol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nystrom_stays_below_the_matrix(dtype):
    values = 0.6 ** np.arange(60.0)  # singular to working precision
    A = with_eigenvalues(80, values).astype(dtype)
    for seed in range(10):
        result = linalg.nystrom(A, 20, random_state=seed)
        rounding = 50 * np.finfo(dtype).eps
        assert (result.values <= values[:20] + rounding).all()
        assert np.linalg.eigvalsh(A.astype(float) - result.to_dense())[0] >= -rounding
        lost = result.report.estimates["trace_error"].value
        np.testing.assert_allclose(lost, np.trace(A - result.to_dense()), atol=10 * rounding)


def test_an_indefinite_matrix_is_no_kernel_matrix():
    with pytest.raises(ValueError, match="not positive semi-definite"):
        linalg.nystrom(with_eigenvalues(30, np.array([1.0, -0.5])), 5, random_state=0)


@pytest.mark.parametrize("law", SKETCH_LAWS)
def test_generalized_nystrom_with_every_law(law):
    A = with_singular_values(64, 50, np.array([4.0, 2.0, 1.0]))
    result = linalg.generalized_nystrom(A, 12, law=law, random_state=0)
    np.testing.assert_allclose(result.to_dense(), A, atol=1e-8)


def test_generalized_nystrom_is_stable_below_rounding():
    # singular values far below rounding: the naive inverse of the core would amplify them
    A = with_singular_values(80, 70, 0.1 ** np.arange(70.0))
    for seed in range(20):
        result = linalg.generalized_nystrom(A, 40, random_state=seed)
        assert np.linalg.norm(A - result.to_dense()) < 1e-11


@pytest.mark.parametrize("selection", ["pivoted", "leverage", "adaptive", "norm", "uniform", [3, 7, 7, 0]])
def test_cx_and_cur_do_the_best_their_columns_can(selection):
    A = with_singular_values(40, 30, 0.8 ** np.arange(30.0))
    for form in (np.asarray, scipy.sparse.csr_array, aslinearoperator):
        result = linalg.cx(form(A), 4, selection=selection, random_state=0)
        np.testing.assert_allclose(result.C, A[:, result.indices], atol=1e-14)
        np.testing.assert_allclose(result.C.T @ (A - result.to_dense()), 0.0, atol=1e-12)
        assert isinstance(selection, list) or len(set(result.indices)) == 4
        result = linalg.cur(form(A), 4, n_rows=6, selection=selection, random_state=0)
        np.testing.assert_allclose(result.R, A[result.row_indices], atol=1e-14)
        residual = A - result.to_dense()
        np.testing.assert_allclose(result.C.T @ residual @ result.R.T, 0.0, atol=1e-12)


def test_pivots_beat_uniform_columns():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 200)) * 1e-3
    A[:, [17, 90]] += rng.normal(size=(50, 2))  # two columns that matter, which uniform sampling hardly ever meets
    for selection in ("pivoted", "leverage", "adaptive", "norm"):
        assert {17, 90} <= set(linalg.cx(A, 6, selection=selection, random_state=1).indices)


def test_bad_columns_are_refused():
    with pytest.raises(ValueError, match="outside 0 … 2"):
        linalg.cx(np.eye(3), 1, selection=[3])
    with pytest.raises(ValueError, match="n_rows must be a positive integer"):
        linalg.cur(np.eye(3), 1, n_rows=0)
    with pytest.raises(ValueError, match="'pivoted'"):
        linalg.cx(np.eye(3), 1, selection="best")
    with pytest.raises(ValueError, match="indices"):
        linalg.cx(np.eye(3), 1, selection=[0.5])


def test_the_same_seed_gives_the_same_answer_and_inputs_are_left_alone(method):
    function, symmetric = method
    A = example(symmetric, 1.0 / np.arange(1.0, 46.0))
    A.flags.writeable = False
    np.testing.assert_array_equal(function(A, 4, random_state=5).to_dense(), function(A, 4, random_state=5).to_dense())
