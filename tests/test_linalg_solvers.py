"""Least squares, ridge, kernel ridge, conjugate gradients and Newton sketch against exact solutions."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize
from scipy.sparse.linalg import aslinearoperator

from bochner import RBF, FeatureMatrix, FourierFeatures, datasets, linalg
from bochner.backends import limit_threads
from bochner.draws.keys import Key
from bochner.linalg.least_squares import _whiten
from bochner.ridge.krylov import heavy_ball
from bochner.ridge.matrices import gram_product, residual_product
from bochner.sketches import SKETCH_LAWS, SparseSign, as_sketch_law
from bochner.theory import GaussianSketchBound
from laws import assert_unbiased
from matrices import FORMS, with_eigenvalues, with_singular_values

EPS = np.finfo(np.float64).eps


def tall(n, d, condition, noise, seed=0):
    """A with the given condition, x of unit norm and b = Ax + noise orthogonal to A."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(n, d)))[0]
    A = (U * np.logspace(0, -np.log10(condition), d)) @ np.linalg.qr(rng.normal(size=(d, d)))[0].T
    x, r = rng.normal(size=d), rng.normal(size=n)
    r -= U @ (U.T @ r)
    return A, A @ (x / np.linalg.norm(x)) + noise * r / np.linalg.norm(r)


def backward_error(A, b, x):
    """Karlson and Waldén's estimate, from the exact singular values: within sqrt(2) of the smallest ‖ΔA‖_F / ‖A‖_F."""
    _, s, Vt = np.linalg.svd(A, full_matrices=False)
    r = b - A @ x
    damped = (Vt @ (A.T @ r)) / np.sqrt(s**2 + (np.linalg.norm(r) / np.linalg.norm(x)) ** 2)
    return np.linalg.norm(damped) / np.linalg.norm(x) / np.linalg.norm(s)


# Conjugate gradients


def test_conjugate_gradients_solve_columns_independently():
    A = with_eigenvalues(40, np.linspace(1.0, 50.0, 40))
    B = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 1e-6, 1e6]
    B[:, 1] = A[:, 0]
    X, report = linalg.conjugate_gradient(A, B, tol=1e-12)
    exact = np.linalg.solve(A, B)
    np.testing.assert_allclose(X / np.abs(exact).max(axis=0), exact / np.abs(exact).max(axis=0), atol=1e-9)
    assert report.converged
    assert report.residual <= 1e-11
    for j in range(3):
        alone = linalg.conjugate_gradient(lambda V: A @ V, B[:, j], tol=1e-12).x
        np.testing.assert_allclose(alone, X[:, j], rtol=1e-7, atol=1e-10 * np.abs(X[:, j]).max())


def test_conjugate_gradients_at_the_edges():
    A = np.diag([2.0, 1.0, 0.0])
    x, report = linalg.conjugate_gradient(A, np.array([2.0, 3.0, 0.0]))  # singular, but consistent
    np.testing.assert_allclose(x, [1.0, 3.0, 0.0])
    assert not linalg.conjugate_gradient(A, np.zeros(3)).x.any()
    assert linalg.conjugate_gradient(np.eye(3), np.ones(3), x0=np.ones(3)).report.iterations == 0
    report = linalg.conjugate_gradient(with_eigenvalues(50, np.logspace(0, 8, 50)), np.ones(50), max_iter=3).report
    assert not report.converged
    assert report.iterations == 3
    with pytest.raises(ValueError, match="not positive definite"):
        linalg.conjugate_gradient(-np.eye(3), np.ones(3))
    for form in (np.asarray, scipy.sparse.csr_array, aslinearoperator):
        with pytest.raises(ValueError, match="not symmetric"):
            linalg.conjugate_gradient(form(np.eye(9) + np.triu(np.ones((9, 9)))), np.ones(9))
    # singular, positive semi-definite and inconsistent: nothing indefinite about it
    report = linalg.conjugate_gradient(np.ones((15, 15)), np.arange(15.0)).report
    assert not report.converged
    assert "singular" in report.notes[0]
    with pytest.raises(ValueError, match="preconditioner is not positive definite"):
        linalg.conjugate_gradient(np.eye(3), np.ones(3), preconditioner=-np.eye(3))
    with pytest.raises(ValueError, match="same shape"):
        linalg.conjugate_gradient(lambda V: V[:2], np.ones(3))
    with pytest.raises(ValueError, match="NaN"):
        linalg.conjugate_gradient(np.eye(3), np.array([1.0, np.nan, 0.0]))
    with pytest.raises(ValueError, match="rows"):
        linalg.conjugate_gradient(np.eye(3), np.ones(4))


def test_the_preconditioner_is_the_formula_and_bounds_the_condition():
    alpha = 1e-3
    A = with_eigenvalues(150, 0.8 ** np.arange(150.0))
    P = linalg.nystrom_preconditioner(A, alpha, random_state=0)
    U, values = P.vectors, P.values
    inverse = (values[-1] + alpha) * (U / (values + alpha)) @ U.T + np.eye(150) - U @ U.T
    np.testing.assert_allclose(P(np.eye(150)), inverse, atol=1e-10)
    np.testing.assert_allclose(P(np.ones(150)), inverse @ np.ones(150), atol=1e-10)
    spectrum = np.linalg.eigvals(P(A + alpha * np.eye(150))).real
    assert spectrum.max() / spectrum.min() < 28.0  # Frangella, Tropp & Udell, at twice the effective dimension
    dimension = P.report.estimates["effective_dimension"]
    truth = (0.8 ** np.arange(150) / (0.8 ** np.arange(150) + alpha)).sum()
    assert dimension.low <= truth <= dimension.high
    partial = linalg.nystrom_preconditioner(A, alpha, 5, random_state=0)
    assert not partial.report.converged
    assert "partial" in partial.report.notes[0]


# Least squares


@pytest.mark.parametrize("method", ["iterative", "precondition"])
@pytest.mark.parametrize("condition", [1e1, 1e8, 1e12])
@pytest.mark.parametrize("noise", [1e-12, 1e-3, 1.0])
def test_least_squares_is_backward_stable(method, condition, noise):
    A, b = tall(1500, 25, condition, noise)
    theirs = backward_error(A, b, np.linalg.lstsq(A, b, rcond=None)[0])
    for seed in range(3):
        x, report = linalg.lstsq(A, b, method=method, random_state=seed)
        ours = backward_error(A, b, x)
        assert ours <= max(10.0 * theirs, A.shape[1] * EPS)  # sums of as many products, rounded in any order
        assert report.converged
        assert report.residual <= 3.0 * ours + EPS  # the report's own, from the sketch
        # sketched with 12 rows a column: singular values are stretched by 1 ± sqrt(1/12), or so
        assert condition / 3 <= report.estimates["condition"].value <= 3 * condition


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", ["iterative", "precondition", "sketch"])
def test_least_squares_for_every_kind_of_matrix(form, method):
    A, _ = tall(600, 8, 10.0, 1.0)
    B = np.random.default_rng(1).normal(size=(600, 3))
    exact = np.linalg.lstsq(A, B, rcond=None)[0]
    x, report = linalg.lstsq(FORMS[form](A), B, method=method, random_state=0)
    assert x.shape == (8, 3)
    if method == "sketch":
        residuals = [np.linalg.norm(A @ s - B, axis=0) ** 2 for s in (x, exact)]
        measured = report.estimates["excess"].value  # within the distortion of the sketch, about 1 ± sqrt(1/20), twice
        assert 0.5 < (residuals[0] / residuals[1] - 1.0).max() / measured < 2.0
    else:
        np.testing.assert_allclose(x, exact, rtol=1e-9, atol=1e-11)
    one = linalg.lstsq(FORMS[form](A), B[:, 0], method=method, random_state=0).x
    assert one.shape == (8,)
    np.testing.assert_allclose(one, x[:, 0], rtol=1e-7)


@pytest.mark.parametrize("law", SKETCH_LAWS)
def test_least_squares_with_every_law(law):
    A, b = tall(512, 6, 100.0, 0.1)
    exact = np.linalg.lstsq(A, b, rcond=None)[0]
    x, report = linalg.lstsq(A, b, law=law, random_state=0)
    np.testing.assert_allclose(x, exact, rtol=1e-8)
    assert report.converged


@pytest.mark.parametrize("dependent", [True, False])
@pytest.mark.parametrize("method", ["iterative", "precondition"])
def test_a_law_that_misses_rows_is_noticed(dependent, method):
    # one row carries a whole direction, and uniform sampling does not see it
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(2000, 5)), rng.normal(size=2000)
    A[:, 4] = 1e-3 * (A[:, 3] if dependent else A[:, 4])
    A[77, 4] = 1e3
    x, report = linalg.lstsq(A, b, method=method, law="uniform", sketch_size=60, random_state=0)
    np.testing.assert_allclose(x, np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-6, atol=1e-9)
    assert report.converged
    if dependent:
        assert "missed directions" in report.notes[0]
    elif method == "iterative":
        assert "LSQR took over" in report.notes[0]


def test_undamped_iteration_diverges_where_momentum_converges():
    A, b = tall(2000, 40, 100.0, 1.0)
    white = _whiten(A, b[:, None], SparseSign(), 160, Key(0))
    assert white.rho == 0.25

    def gram(Y):
        return white.N.T @ (A.T @ (A @ (white.N @ Y)))

    c = white.N.T @ (A.T @ (b[:, None] - A @ white.x0))
    floor = np.array([1e-12])
    assert not heavy_ball(gram, c, 0.0, floor, 200)[2]
    Y, steps, settled = heavy_ball(gram, c, white.rho, floor, 200)
    assert settled
    assert steps < 80  # sqrt(rho)^k = 1e-12 at k = 40
    np.testing.assert_allclose(gram(Y), c, atol=1e-10)


@pytest.mark.parametrize("m", [40, 120])
def test_sketch_and_solve_has_the_exact_gaussian_risk(m):
    A, b = tall(200, 10, 1e3, 1.0)
    best = np.linalg.lstsq(A, b, rcond=None)[0]
    optimum = np.linalg.norm(A @ best - b) ** 2
    excess = []
    for seed in range(400):
        x = linalg.lstsq(A, b, method="sketch", law="gaussian", sketch_size=m, random_state=seed).x
        excess.append(np.linalg.norm(A @ (x - best)) ** 2 / optimum)
    assert_unbiased(np.array(excess), 10 / (m - 10 - 1))
    assert np.isclose(GaussianSketchBound(rank=10).error(m), 10 / (m - 11))


@pytest.mark.parametrize("method", ["iterative", "precondition", "sketch"])
def test_rank_deficient_least_squares_has_the_minimum_norm(method):
    A, b = tall(400, 5, 10.0, 0.0)
    A = A @ np.random.default_rng(2).normal(size=(5, 9))  # consistent, so the sketch is exact too
    x, report = linalg.lstsq(A, b, method=method, random_state=0)
    np.testing.assert_allclose(x, np.linalg.lstsq(A, b, rcond=1e-12)[0], atol=1e-9)
    assert "rank 5 of 9" in report.notes[-1]


@pytest.mark.parametrize("method", ["iterative", "precondition"])
def test_wide_least_squares_has_the_minimum_norm(method):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(12, 300)), rng.normal(size=(12, 2))
    x, report = linalg.lstsq(A, B, method=method, random_state=0)
    np.testing.assert_allclose(x, np.linalg.lstsq(A, B, rcond=None)[0], rtol=1e-9, atol=1e-13)
    assert report.converged
    A[3] = A[4]  # inconsistent and rank deficient
    x, report = linalg.lstsq(A, B, method=method, random_state=0)
    np.testing.assert_allclose(x, np.linalg.lstsq(A, B, rcond=1e-12)[0], rtol=1e-8, atol=1e-12)
    assert "rank 11 of 12" in report.notes[-1]


@pytest.mark.parametrize("method", ["iterative", "precondition", "sketch"])
def test_least_squares_at_the_edges(method):
    A, b = tall(300, 4, 10.0, 1.0)
    assert not linalg.lstsq(A, np.zeros(300), method=method, random_state=0).x.any()
    assert not linalg.lstsq(np.zeros((300, 4)), b, method=method, random_state=0).x.any()
    square = with_singular_values(6, 6, np.arange(1.0, 7.0))
    np.testing.assert_allclose(linalg.lstsq(square, square[:, 0], method=method).x, np.eye(6)[0], atol=1e-12)
    x = linalg.lstsq(A.astype(np.float32), b.astype(np.float32), method=method, random_state=0).x
    assert x.dtype == np.float32
    for scale in (1e-120, 1e120):
        scaled = linalg.lstsq(scale * A, b, method=method, random_state=0).x
        np.testing.assert_allclose(scale * scaled, linalg.lstsq(A, b, method=method, random_state=0).x, rtol=1e-8)
    with pytest.raises(ValueError, match="NaN"):
        linalg.lstsq(A, np.full(300, np.nan), method=method)
    with pytest.raises(ValueError, match="300 rows"):
        linalg.lstsq(A, b[:-1], method=method)
    with pytest.raises(ValueError, match="at least the number of columns"):
        linalg.lstsq(A, b, method=method, sketch_size=3)
    with pytest.raises(ValueError, match="'iterative', 'precondition', 'sketch'"):
        linalg.lstsq(A, b, method="qr")


def test_a_tolerance_saves_steps():
    A, b = tall(1500, 25, 1e6, 1.0)
    exact = np.linalg.lstsq(A, b, rcond=None)[0]
    full = linalg.lstsq(A, b, random_state=0).report
    x, report = linalg.lstsq(A, b, tol=1e-4, random_state=0)
    assert report.iterations < full.iterations
    assert np.linalg.norm(A @ (x - exact)) <= 1e-3 * np.linalg.norm(b)


# Ridge


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(120, 30), (30, 120)])
def test_ridge_is_exact_by_preconditioning(form, shape):
    A = with_singular_values(*shape, 0.7 ** np.arange(30.0))
    B = np.random.default_rng(0).normal(size=(shape[0], 2))
    for alpha in (1e-4, 1.0, 1e4):
        exact = np.linalg.solve(A.T @ A + alpha * np.eye(shape[1]), A.T @ B)
        x, report = linalg.ridge(FORMS[form](A), B, alpha, random_state=0)
        np.testing.assert_allclose(x, exact, atol=1e-6 * np.abs(exact).max())
        assert report.converged
        assert report.residual < 1e-7


@pytest.mark.parametrize("m", [3, 15, 90])
def test_partial_and_full_sketches_are_their_formulas(m):
    A = with_singular_values(100, 12, 0.8 ** np.arange(12.0))
    b, alpha, law = np.random.default_rng(0).normal(size=100), 0.1, as_sketch_law("sparse_sign")
    S = law.sample(100, m, Key(5)).to_dense()
    x = linalg.ridge(A, b, alpha, method="partial_sketch", sketch_size=m, random_state=5).x
    np.testing.assert_allclose(x, np.linalg.solve((S @ A).T @ S @ A + alpha * np.eye(12), (S @ A).T @ S @ b), rtol=1e-8)
    if m > 13:
        S1 = law.sample(100, m, Key(5).child("data")).to_dense()
        S2 = law.sample(12, m, Key(5).child("penalty")).to_dense()
        signs = 2 * Key(5).child("signs").generator().integers(0, 2, (m, 1)) - 1
        M = S1 @ A + np.sqrt(alpha) * signs * S2
        x = linalg.ridge(A, b, alpha, method="full_sketch", sketch_size=m, random_state=5).x
        np.testing.assert_allclose(x, np.linalg.lstsq(M, S1 @ b, rcond=None)[0], rtol=1e-7)
    else:
        with pytest.raises(ValueError, match="partial_sketch"):
            linalg.ridge(A, b, alpha, method="full_sketch", sketch_size=m)


@pytest.mark.parametrize("law", SKETCH_LAWS)
@pytest.mark.parametrize("method", ["partial_sketch", "full_sketch"])
def test_sketched_ridge_errors_fall_like_the_root_of_the_rows_under_every_law(method, law):
    # positive entries, so that sampled rows and sampled rows of the penalty would add up without random signs
    rng = np.random.default_rng(0)
    A = np.abs(rng.normal(size=(300, 4)))
    b, alpha = A @ np.ones(4) + rng.normal(size=300), 100.0
    exact = np.linalg.solve(A.T @ A + alpha * np.eye(4), A.T @ b)

    def squares(m):
        options = {"method": method, "law": law, "sketch_size": m}
        draws = [linalg.ridge(A, b, alpha, random_state=r, **options).x for r in range(30)]
        return np.mean(np.square(np.array(draws) - exact).sum(axis=1))

    # 16, but for the spread of two means of 30 squares, each of at least one degree of freedom: a factor of
    # 1 ± sqrt(2 / 30), twice, at six standard deviations; SRHT and SRTT take coordinates without repetition
    few, many = squares(64), squares(1024)
    assert few / many > 16.0 / np.exp(6.0 * np.sqrt(4.0 / 30.0))
    assert many <= 6e-3 * (exact @ exact)


def test_what_a_method_of_ridge_does_not_look_at_is_refused():
    A, b = tall(200, 5, 10.0, 1.0)
    for option in ({"law": "gaussian"}, {"sketch_size": 50}):
        with pytest.raises(ValueError, match="or use method='partial_sketch' or 'full_sketch'"):
            linalg.ridge(A, b, 1.0, **option)
    for option in ({"rank": 3}, {"max_iter": 7}):
        for method in ("partial_sketch", "full_sketch"):
            with pytest.raises(ValueError, match="or use method='precondition'"):
                linalg.ridge(A, b, 1.0, method=method, **option)
    for function in (linalg.lstsq, lambda A, b, **kw: linalg.ridge(A, b, 1.0, method="full_sketch", **kw)):
        with pytest.raises(ValueError, match="law must be"):
            function(A, b, law="no such law")
    with pytest.raises(ValueError, match="an operator does not give"):
        linalg.lstsq(aslinearoperator(np.tile(A, (20, 1))), np.tile(b, 20), law="leverage")


def test_a_sketch_has_converged_where_it_met_a_tolerance():
    A, b = tall(400, 5, 10.0, 1.0)
    for solve in (
        lambda **kw: linalg.ridge(A, b, 1.0, method="partial_sketch", random_state=0, **kw),
        lambda **kw: linalg.ridge(A, b, 1.0, method="full_sketch", random_state=0, **kw),
        lambda **kw: linalg.lstsq(A, b, method="sketch", random_state=0, **kw),
    ):
        assert solve().report.converged is None
        assert solve(tol=0.99).report.converged is True
        assert solve(tol=1e-6).report.converged is False


def test_results_are_indexed_as_numpys_are():
    A, b = tall(300, 4, 10.0, 1.0)
    result = linalg.lstsq(A, b, random_state=0)
    np.testing.assert_allclose(result[0], np.linalg.lstsq(A, b, rcond=None)[0])
    assert result[-1] is result.report
    assert len(result) == 2
    with pytest.raises(IndexError):
        result[2]
    np.testing.assert_array_equal(
        linalg.randomized_svd(A, 2, random_state=0)[1], linalg.randomized_svd(A, 2, random_state=0).s
    )
    # a number is one number in an array, not the two that it unpacks to
    number = linalg.trace(np.diag(np.arange(40.0)), 10, random_state=0)
    assert np.array([number, number], dtype=float).tolist() == [number.value] * 2


def test_the_excess_of_a_partial_sketch_is_the_effective_dimension_over_the_rows():
    n, d, alpha = 1000, 60, 1.0
    rng = np.random.default_rng(0)
    s = 30.0 / np.arange(1.0, d + 1.0) ** 1.5
    A = with_singular_values(n, d, s)
    b = A @ rng.normal(size=d) + rng.normal(size=n)
    d_e = (s**2 / (s**2 + alpha)).sum()

    def objective(x):
        return np.linalg.norm(A @ x - b) ** 2 + alpha * np.linalg.norm(x) ** 2

    best = objective(np.linalg.solve(A.T @ A + alpha * np.eye(d), A.T @ b))
    constants = []
    for m in (100, 400):
        draws = [
            objective(
                linalg.ridge(A, b, alpha, method="partial_sketch", law="gaussian", sketch_size=m, random_state=r).x
            )
            for r in range(30)
        ]
        constants.append((np.mean(draws) / best - 1.0) * m / d_e)
    assert min(constants) > 0.4
    assert max(constants) < 1.5


@pytest.mark.parametrize("method", ["precondition", "partial_sketch", "full_sketch"])
def test_ridge_in_float32_and_of_any_scale(method):
    A, b = tall(300, 5, 10.0, 1.0)
    options = {"method": method, "random_state": 0}
    x, report = linalg.ridge(A.astype(np.float32), b.astype(np.float32), 0.1, **options)
    expected = linalg.ridge(A, b, 0.1, **options).x
    assert x.dtype == np.float32
    assert report.converged or method != "precondition"
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    for scale in (2.0**400, 2.0**-400):
        scaled = linalg.ridge(scale * A, b, 0.1 * scale**2, **options).x
        np.testing.assert_allclose(scaled * scale, expected, rtol=1e-6)
    strong = linalg.ridge(2.0**700 * A, b, 0.1, **options).x  # the penalty is beyond rounding: least squares
    kind = "iterative" if method == "precondition" else "sketch"
    np.testing.assert_allclose(strong * 2.0**700, linalg.lstsq(A, b, method=kind, random_state=0).x, rtol=1e-6)


def test_ridge_at_the_edges():
    A, b = tall(200, 5, 10.0, 1.0)
    np.testing.assert_allclose(linalg.ridge(A, b, 0.0, random_state=0).x, np.linalg.lstsq(A, b, rcond=None)[0])
    assert not linalg.ridge(np.zeros((9, 3)), np.ones(9), 1.0).x.any()
    A[:, 1] = A[:, 0]  # singular, which the penalty mends
    exact = np.linalg.solve(A.T @ A + 1e-3 * np.eye(5), A.T @ b)
    np.testing.assert_allclose(linalg.ridge(A, b, 1e-3, random_state=0).x, exact, rtol=1e-6)
    with pytest.raises(ValueError, match="alpha"):
        linalg.ridge(A, b, -1.0)
    with pytest.raises(ValueError, match="'precondition', 'partial_sketch', 'full_sketch'"):
        linalg.ridge(A, b, 1.0, method="cholesky")


@pytest.mark.parametrize("law", ["gaussian", "sparse_sign", "srht", "uniform"])
def test_sketched_kernel_ridge_minimises_what_it_should(law):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    K, alpha, m = RBF(1.0)(X), 0.3, 30
    Y = np.column_stack([np.sin(X[:, 0]), rng.normal(size=120)])
    S = as_sketch_law(law).sample(120, m, Key(1)).to_dense()

    def objective(a, T=None):
        r = K @ a - Y if T is None else T @ (K @ a - Y)
        return (r**2).sum(axis=0) + alpha * np.einsum("ij,ij->j", a, K @ a)

    full = objective(np.linalg.solve(K + alpha * np.eye(120), Y))
    left = linalg.sketched_kernel_ridge(K, Y, alpha, side="left", law=law, sketch_size=m, random_state=1).x
    right, report = linalg.sketched_kernel_ridge(K, Y, alpha, side="right", law=law, sketch_size=m, random_state=1)
    # left: the minimum over all coefficients of the sketched objective
    H = K @ S.T @ S @ K + alpha * K
    oracle = np.linalg.lstsq(H, K @ S.T @ S @ Y, rcond=1e-12)[0]
    np.testing.assert_allclose(K @ left, K @ oracle, atol=1e-6)
    np.testing.assert_allclose(objective(left, S), objective(oracle, S), rtol=1e-8)
    # right: the minimum of the objective itself over a = Sᵀz
    z = np.linalg.lstsq(S @ K @ K @ S.T + alpha * S @ K @ S.T, S @ K @ Y, rcond=1e-13)[0]
    np.testing.assert_allclose(objective(right), objective(S.T @ z), rtol=1e-6)
    assert (objective(right) >= full * (1 - 1e-12)).all()
    assert (objective(right) <= objective(left) * (1 + 1e-9)).all()
    # with one power of K lost, as it is sometimes printed, it is not
    wrong = S.T @ np.linalg.lstsq(S @ K @ S.T + alpha * S @ S.T, S @ K @ Y, rcond=1e-13)[0]
    assert (objective(wrong) > 1.5 * objective(right)).all()
    assert report.residual > 0


def test_kernel_ridge_with_the_whole_sketch_is_exact():
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    K, y = RBF(0.3)(X), np.cos(5.0 * X[:, 0])
    exact = K @ np.linalg.solve(K + 0.1 * np.eye(40), y)
    for form in (np.asarray, scipy.sparse.csr_array, aslinearoperator):
        a = linalg.sketched_kernel_ridge(form(K), y, 0.1, law="gaussian", sketch_size=40, random_state=0).x
        np.testing.assert_allclose(K @ a, exact, atol=1e-8)
        assert a.shape == (40,)
    with pytest.raises(ValueError, match="not a kernel matrix"):
        linalg.sketched_kernel_ridge(-K, y, 0.1)
    with pytest.raises(ValueError, match="not a kernel matrix"):
        linalg.sketched_kernel_ridge(np.triu(K), y, 0.1)
    with pytest.raises(ValueError, match="alpha"):
        linalg.sketched_kernel_ridge(K, y, 0.0)
    assert not linalg.sketched_kernel_ridge(np.zeros((5, 5)), np.ones(5), 1.0).x.any()


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_residual_of_kernel_ridge_is_that_of_its_predictions(side):
    # K of rank 5 and a sketch of 20 rows: the right sketch predicts exactly, though its coefficients are not unique
    K = with_eigenvalues(60, np.linspace(1.0, 3.0, 5))
    y, alpha = np.random.default_rng(0).normal(size=60), 0.2
    exact = K @ np.linalg.solve(K + alpha * np.eye(60), y)
    a, report = linalg.sketched_kernel_ridge(K, y, alpha, side=side, law="gaussian", sketch_size=20, random_state=0)
    # K(K + alpha)⁻¹ times the residual is the error of the predictions
    error = np.linalg.norm(K @ a - exact)
    bounds = [report.residual * np.linalg.norm(K @ y) / (value + alpha) for value in (3.0, 1.0)]
    assert bounds[0] - 1e-12 <= error <= bounds[1] + 1e-12
    if side == "right":
        assert error < 1e-12
        assert report.residual < 1e-12


# Newton sketch


def glm(loss, n=800, d=12, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d))
    t = A @ rng.normal(size=d) / np.sqrt(d)
    targets = {
        "log_loss": np.where(t + rng.logistic(size=n) > 0, 1.0, -1.0),
        "squared_hinge": (t + rng.logistic(size=n) > 0).astype(float),
        "poisson": rng.poisson(np.exp(t)).astype(float),
        "huber": t + rng.standard_t(2, size=n),
        "squared": t + rng.normal(size=n),
    }
    return A, targets[loss]


@pytest.mark.parametrize("loss", linalg.LOSSES)
@pytest.mark.parametrize("finish", ["auto", "sketch"])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 300.0])
def test_newton_sketch_finds_the_minimum(loss, finish, alpha):
    A, y = glm(loss)
    x, report = linalg.newton_sketch(loss, A, y, alpha, finish=finish, tol=1e-10, random_state=0)
    ell = linalg.as_loss(loss)
    targets = ell.targets(y)
    gradient = A.T @ ell.slope(A @ x, targets) + alpha * x
    assert report.converged
    np.testing.assert_allclose(report.residual, np.linalg.norm(gradient), rtol=1e-3, atol=1e-10)
    assert np.linalg.norm(gradient) <= 1e-10 * max(1.0, np.linalg.norm(A.T @ ell.slope(np.zeros(len(y)), targets)))
    theirs = minimize(
        lambda w: ell.value(A @ w, targets).sum() + 0.5 * alpha * w @ w,
        np.zeros(12),
        jac=lambda w: A.T @ ell.slope(A @ w, targets) + alpha * w,
        method="BFGS",
        options={"gtol": 1e-5},
    ).x
    np.testing.assert_allclose(x, theirs, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_newton_sketch_for_every_kind_of_matrix(form):
    A, y = glm("log_loss")
    expected = linalg.newton_sketch("log_loss", A, y, 0.5, tol=1e-11, random_state=0).x
    for finish in ("auto", "sketch"):
        x, report = linalg.newton_sketch("log_loss", FORMS[form](A), y, 0.5, finish=finish, tol=1e-11, random_state=0)
        np.testing.assert_allclose(x, expected, atol=1e-9)
        assert report.converged


@pytest.mark.parametrize("law", ["gaussian", "sparse_sign", "srht", "uniform", "leverage"])
def test_newton_sketch_with_other_laws(law):
    A, y = glm("log_loss")
    x, report = linalg.newton_sketch("log_loss", A, y, 1.0, law=law, finish="sketch", random_state=0)
    assert report.converged
    np.testing.assert_allclose(x, linalg.newton_sketch("log_loss", A, y, 1.0, random_state=1).x, atol=1e-6)


def test_the_sketch_grows_to_the_effective_dimension_and_no_further():
    # 400 columns, of which the penalty leaves about ten: fewer rows than columns are enough throughout
    rng = np.random.default_rng(0)
    A = with_singular_values(3000, 400, 100.0 * 0.7 ** np.arange(400.0))
    y = np.where(A @ rng.normal(size=400) + 0.1 * rng.logistic(size=3000) > 0, 1.0, -1.0)
    report = linalg.newton_sketch(
        "log_loss", A, y, 1.0, law="sparse_sign", sketch_size=4, finish="sketch", random_state=0
    ).report
    assert report.converged
    rows = int(report.notes[-1].split("at most ")[1].split()[0])
    assert 8 <= rows <= 400


def test_newton_sketch_at_the_edges():
    A, y = glm("log_loss")
    # an intercept that is not penalised
    B = np.column_stack([A, np.ones(len(A))])
    penalties = np.append(np.full(12, 1e6), 0.0)
    x = linalg.newton_sketch("log_loss", B, y, penalties, random_state=0).x
    share = (y > 0).mean()
    np.testing.assert_allclose(x[-1], np.log(share / (1 - share)), atol=1e-3)
    # separable and without a penalty: the minimum is at infinity, and only the limit stops the walk towards it
    report = linalg.newton_sketch("log_loss", np.eye(2), np.array([1.0, -1.0]), 0.0, tol=1e-30, max_iter=9).report
    assert not report.converged
    assert report.iterations == 9
    # duplicate columns without a penalty: a minimum, not unique
    C = np.column_stack([A, A[:, 0]])
    x, report = linalg.newton_sketch("log_loss", C, y, 0.0, random_state=0)
    assert report.converged
    np.testing.assert_allclose(C @ x, A @ linalg.newton_sketch("log_loss", A, y, 0.0, random_state=0).x, atol=1e-5)
    assert not linalg.newton_sketch("squared", np.zeros((5, 2)), np.ones(5), 1.0).x.any()
    with pytest.raises(ValueError, match="two classes"):
        linalg.newton_sketch("log_loss", A, np.arange(800.0), 1.0)
    with pytest.raises(ValueError, match="negative"):
        linalg.newton_sketch("poisson", A, y, 1.0)
    with pytest.raises(ValueError, match="'log_loss', 'poisson'"):
        linalg.newton_sketch("hinge", A, y, 1.0)
    with pytest.raises(ValueError, match="one dimension"):
        linalg.newton_sketch("squared", A, A, 1.0)
    with pytest.raises(ValueError, match="12 columns"):
        linalg.newton_sketch("squared", A, y, np.ones(3))
    with pytest.raises(ValueError, match="delta"):
        linalg.Huber(0.0)


def test_newton_sketch_on_a9a():
    if "a9a" not in datasets.available():
        pytest.skip("BOCHNER_DATA names no folder with a9a.npz")
    data = datasets.load("a9a")
    n = data.n_train
    A, y = scipy.sparse.csr_array(data.X[:n].astype(np.float64)), np.where(data.y[:n] > 0, 1.0, -1.0)
    answers = []
    for finish in ("auto", "sketch"):
        x = linalg.newton_sketch("log_loss", A, y, 1.0, finish=finish, tol=1e-14, max_iter=40, random_state=0).x
        t = A @ x
        gradient = A.T @ (-y / (1.0 + np.exp(y * t))) + x
        assert np.linalg.norm(gradient) < 1e-8
        answers.append(x)
    np.testing.assert_allclose(*answers, atol=1e-8)


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_products_by_blocks_of_rows_are_the_products(n_jobs, k):
    rng = np.random.default_rng(k)
    A, V, B = rng.normal(size=(5001, 60)), rng.normal(size=(60, k)), rng.normal(size=(5001, k))
    with limit_threads(n_jobs):
        R, gradient = residual_product(A, V, B)
        gram = gram_product(A, V)
    bound = 1e-12 * np.linalg.norm(A) ** 2 * np.linalg.norm(V)
    assert np.abs(R - (B - A @ V)).max() < bound
    assert np.abs(gradient - A.T @ (B - A @ V)).max() < bound
    assert np.abs(gram - A.T @ (A @ V)).max() < bound


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_large_sparse_sketch_is_shared_among_threads(n_jobs):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30_001, 80))  # 8 non-zeros × 30,001 × 80 products: above the threshold
    S = as_sketch_law("sparse_sign").sample(len(A), 200, Key(0))
    with limit_threads(n_jobs):
        assert np.allclose(S @ A, S.to_sparse() @ A, rtol=0, atol=1e-11)


def test_sums_by_blocks_of_rows_do_not_depend_on_the_threads():
    rng = np.random.default_rng(0)
    A, v = rng.normal(size=(20_001, 60)), rng.normal(size=60)
    sums = []
    for n_jobs in (1, 2, 5):
        with limit_threads(n_jobs):
            sums.append(gram_product(A, v))
    np.testing.assert_array_equal(sums[1], sums[0])
    np.testing.assert_array_equal(sums[2], sums[0])


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("alpha", [1e-6, 0.1, 1e4])
def test_a_kernel_of_features_is_solved_block_by_block(form, alpha, monkeypatch):
    X = np.random.default_rng(0).normal(size=(300, 4))
    features = FourierFeatures(RBF(1.0), 40, random_state=0).fit(X)
    monkeypatch.setattr("bochner.features.maps.row_blocks", lambda *_: [slice(i, i + 70) for i in range(0, 300, 70)])
    Z, B = features.transform(X), X[:, :2]
    x, report = linalg.gram_solve(FeatureMatrix(features, form(X)), B, alpha, random_state=0)
    expected = np.linalg.solve(Z @ Z.T + alpha * np.eye(300), B)
    reached = max(1e-10, 10 * EPS * np.linalg.norm(Z, 2) ** 2 / alpha)  # beyond, products of x are rounded
    assert report.residual <= reached
    assert report.converged == (report.residual <= 1e-10)
    np.testing.assert_allclose(x, expected, atol=reached * np.linalg.norm(B) / alpha)


def test_the_matrix_of_features_is_never_held():
    n, m = 60_000, 256
    X = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    features = FourierFeatures(RBF(1.0), m, random_state=0).fit(X[:100])
    Z = FeatureMatrix(features, X)
    v = np.ones((n, 1))
    Z.T @ v[:, :1]
    tracemalloc.start()
    Z @ (Z.T @ v)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * m * 4 / 2
    with pytest.raises(TypeError, match="fitted transformer"):
        FeatureMatrix("rbf", X)
    with pytest.raises(ValueError, match="features"):
        FeatureMatrix(features, X[:, :2])
    with pytest.raises(ValueError, match="singular"):
        linalg.gram_solve(X[:10], X[:10, 0], 0.0)
