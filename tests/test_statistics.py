"""Ridge statistics and their spectrum against dense linear algebra."""

import os
import pickle
import signal
import sys

import numpy as np
import pytest
import scipy.linalg
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_info, threadpool_limits

from bochner import RBF, FourierFeatures
from bochner.backends import limit_threads, threads
from bochner.backends.threads import blas_threads, one_thread
from bochner.data.folds import StreamedGram
from bochner.data.sources import BlockSource
from bochner.draws.keys import Key
from bochner.draws.linear_maps import Centred, DenseGram
from bochner.features.maps import Identity
from bochner.ridge import solvers
from bochner.ridge.solvers import Cholesky, ConjugateGradient, Eigen, SampledPreconditioner, StochasticGradient
from bochner.ridge.statistics import RidgeStatistics
from laws import rounding_squares


def problem(n=200, m=15, k=2, seed=0, mean=3.0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, m)) @ np.diag(np.geomspace(1.0, 1e-3, m)) + 0.3
    Y = Z @ rng.normal(size=(m, k)) + 0.1 * rng.normal(size=(n, k)) + mean
    return Z, Y, rng.integers(0, 4, n).astype(float)


def of(Z, Y, weight=None, **options):
    return RidgeStatistics(Z.shape[1], Y.shape[1], **options).update(Z, Y, weight)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_coefficients_are_those_of_ridge_regression(fit_intercept, weighted):
    Z, Y, weight = problem()
    statistics = of(Z, Y, weight if weighted else None)
    spectrum = statistics.spectrum(fit_intercept)
    for alpha in (1e-3, 0.3, 50.0):
        truth = Ridge(alpha, fit_intercept=fit_intercept).fit(Z, Y, weight if weighted else None)
        w = spectrum.coefficients(alpha)
        np.testing.assert_allclose(w.T, truth.coef_, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(
            statistics.intercept(w, fit_intercept), np.broadcast_to(truth.intercept_, 2), rtol=1e-9
        )


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_everything_about_a_penalty_matches_its_definition(fit_intercept):
    Z, Y, _ = problem(n=60, mean=0.5)
    spectrum = of(Z, Y).spectrum(fit_intercept)
    alphas = np.array([1e-2, 1.0])
    n = 60 - fit_intercept
    centre = np.eye(60) - fit_intercept / 60.0
    Zc, Yc = centre @ Z, centre @ Y
    for i, alpha in enumerate(alphas):
        H = Zc @ np.linalg.solve(Zc.T @ Zc + alpha * np.eye(15), Zc.T)
        residual = ((Yc - H @ Yc) ** 2).sum(axis=0)
        np.testing.assert_allclose(spectrum.residual_squares(alphas)[i], residual, rtol=1e-9)
        np.testing.assert_allclose(spectrum.effective_dimension(alphas)[i], np.trace(H), rtol=1e-10)
        np.testing.assert_allclose(spectrum.gcv(alphas)[i], n * residual / (n - np.trace(H)) ** 2, rtol=1e-9)
        if not fit_intercept:
            for j in range(2):
                law = multivariate_normal(np.zeros(60), 0.2 / alpha * Z @ Z.T + 0.2 * np.eye(60))
                np.testing.assert_allclose(spectrum.log_evidence(alphas, 0.2)[i, j], law.logpdf(Y[:, j]), rtol=1e-9)
    # the profiled noise variance is the most likely one
    best = spectrum.penalised_squares(alphas) / n
    for factor in (0.9, 1.1):
        assert (spectrum.log_evidence(alphas) >= spectrum.log_evidence(alphas, factor * best)).all()
    np.testing.assert_allclose(spectrum.log_evidence(alphas), spectrum.log_evidence(alphas, best))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 1.0])
def test_left_out_residuals_are_those_of_fits_without_the_row(alpha, fit_intercept):
    """Also where components are repeated: without a penalty their share is that of the shortest solution."""
    Z, Y, _ = problem(n=40, m=6)
    Z = np.column_stack([Z, Z[:, 0]])
    statistics = of(Z, Y)
    spectrum = statistics.spectrum(fit_intercept)
    found = statistics.left_out_residuals(Z, Y, np.array([alpha, 1.0]), spectrum, fit_intercept)
    for row in (0, 17, 39):
        others = np.arange(40) != row
        rest = of(Z[others], Y[others])
        w = rest.spectrum(fit_intercept).coefficients(alpha)
        expected = Y[row] - Z[row] @ w - rest.intercept(w, fit_intercept)
        np.testing.assert_allclose(found[row, 0], expected, rtol=1e-6, atol=1e-9)


def test_gcv_of_a_noisy_line_prefers_its_noise():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2000, 50))
    w = rng.normal(size=(50, 1))
    noise = 2.0
    spectrum = of(Z, Z @ w + noise * rng.normal(size=(2000, 1))).spectrum(False)
    # prior variance 1, noise variance 4: the best penalty is 4, and both criteria find its neighbourhood
    for criterion in ("gcv", "evidence"):
        assert 1.0 < spectrum.best(criterion)[0] < 16.0


@pytest.mark.parametrize("weighted", [True, False])
def test_merging_equals_seeing_everything(weighted):
    Z, Y, weight = problem(mean=1e6)
    weight = weight if weighted else np.ones(len(Z))
    whole = of(Z, Y, weight)
    parts = RidgeStatistics(15, 2)
    for rows in (slice(0, 1), slice(1, 70), slice(70, 70), slice(70, None)):
        parts.merge(of(Z[rows], Y[rows], weight[rows]))
    assert parts.n_samples == whole.n_samples
    np.testing.assert_allclose(
        parts.spectrum().coefficients(0.1), whole.spectrum().coefficients(0.1), rtol=1e-8, atol=1e-9
    )
    np.testing.assert_allclose(parts.total_squares(), whole.total_squares(), rtol=1e-9)
    np.testing.assert_allclose(parts.target_mean, whole.target_mean, rtol=1e-12)
    assert parts.copy().arrays().keys() == parts.arrays().keys()


def test_a_weight_counts_as_repeated_rows():
    Z, Y, weight = problem()
    repeated = np.repeat(np.arange(len(Z)), weight.astype(int))
    a, b = of(Z, Y, weight).spectrum(), of(Z[repeated], Y[repeated]).spectrum()
    alphas = np.geomspace(1e-3, 10, 4)
    np.testing.assert_allclose(a.coefficients(0.1), b.coefficients(0.1), rtol=1e-9)
    np.testing.assert_allclose(a.residual_squares(alphas), b.residual_squares(alphas), rtol=1e-9)


def test_weights_of_any_unit_choose_the_same_penalty():
    """In that unit: rows count once where degrees of freedom are counted, whatever they weigh."""
    Z, Y, weight = problem()
    one, other = of(Z, Y, weight).spectrum(), of(Z, Y, 1e-3 * weight).spectrum()
    np.testing.assert_allclose(other.grid(), 1e-3 * one.grid(), rtol=1e-9)
    for name in ("gcv", "evidence"):
        assert other.best(name)[0] == pytest.approx(1e-3 * one.best(name)[0], rel=1e-6)


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("mean", [0.0, 1e5])
def test_float32_blocks_lose_less_than_stated(scale, mean, integers, monkeypatch):
    """Sums of float32 products stay within 1e-6 of float64 sums of the same features, and so does the fit.

    Rounded to fixed point, features differ by noise of a known variance v, and products by what that explains.
    """
    backend = pytest.importorskip("bochner.backends.native")
    monkeypatch.setattr(backend, "integers_pay", lambda: integers)
    monkeypatch.setattr("bochner.ridge.statistics._FLOAT32_COLUMNS", 0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3)).astype(np.float32)
    Y = scale * (np.sin(X[:, :1].astype(float)) + 0.1 * rng.normal(size=(20_000, 1)) + mean)
    Z = FourierFeatures(RBF(1.0), 100, random_state=0).fit_transform(X)
    given = Z.copy()
    single, double = of(Z, Y, precision="fast" if integers else "full"), of(Z.astype(float), Y)
    np.testing.assert_array_equal(Z, given)
    assert (single.float32_error > 0.0) is not integers
    assert double.float32_error == 0.0
    squares = np.diagonal(double.gram)
    changes = np.abs(np.tril(single.gram - double.gram))
    moments = np.abs(single.moment - double.moment)
    if integers:
        v = single.rounding_noise / len(Z)
        assert len(Z) * 100 * v <= 2.5e-8 * squares.sum()
        assert (changes <= 7.0 * np.sqrt(v * np.add.outer(squares, squares)) + single.rounding_noise).all()
        assert (moments <= 7.0 * np.sqrt(v * double.target_squares) + 1e-6 * np.sqrt(squares)[:, None]).all()
    else:
        assert (changes <= 1e-6 * np.sqrt(np.outer(squares, squares))).all()
        assert (moments <= 1e-12 * np.sqrt(squares[:, None] * double.target_squares)).all()
    a, b = single.spectrum().coefficients(0.1), double.spectrum().coefficients(0.1)
    centred = Z - Z.mean(axis=0, dtype=float)
    # directions of small eigenvalues see most of the error, and few rows see those directions
    assert (centred @ (a - b)).std() <= (1e-4 if integers else 1e-5) * (centred @ b).std()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("length_scale", [1.0, 300.0])
def test_rounding_to_eight_bits_costs_a_share_of_the_noise(length_scale, weighted, monkeypatch):
    """Whether rows have weights or not, and however little the features vary."""
    backend = pytest.importorskip("bochner.backends.native")
    monkeypatch.setattr(backend, "integers_pay", lambda: True)
    rng = np.random.default_rng(0)
    n, m, alpha = 12_000, 160, 0.05
    X = rng.normal(size=(n, 4)).astype(np.float32)
    Y = np.column_stack([np.sin(2.0 * X[:, 0]), X[:, 1]]) + 0.2 * rng.normal(size=(n, 2))
    weight = rng.uniform(0.5, 1.5, n) if weighted else None
    Z = FourierFeatures(RBF(length_scale), m, random_state=0).fit_transform(X)
    variance = 1.7 / (m / 2) / 126.0**2 / 6.0
    single, double = of(Z, Y, weight, precision="fast", penalty=100.0 * variance), of(Z.astype(float), Y, weight)
    assert 0.3 * n * variance < single.rounding_noise <= n * variance
    a, b = (found.spectrum(False).coefficients(alpha) for found in (single, double))
    root = np.ones((n, 1)) if weight is None else np.sqrt(weight)[:, None]
    moved = ((root * (Z @ (a - b))) ** 2).sum(axis=0)
    assert (moved <= rounding_squares(single, alpha, False)).all()


@pytest.mark.parametrize("smallest", [1.0, 1e-3])
def test_rounding_bounds_the_error_of_float32_sums(smallest, monkeypatch):
    """Whatever the sizes of the columns; a few large ones among small ones cost less than as many large ones."""
    backend = pytest.importorskip("bochner.backends.native")
    monkeypatch.setattr(backend, "integers_pay", lambda: False)
    rng = np.random.default_rng(0)
    sizes = np.geomspace(1.0, smallest, 600)
    Z = ((1.0 + rng.normal(size=(9000, 600))) * sizes).astype(np.float32)
    single, double = of(Z, Z[:, :1]), of(Z.astype(float), Z[:, :1])
    lower = np.tril(single.gram - double.gram)
    error = np.linalg.norm(lower + np.tril(lower, -1).T, 2)
    assert error <= single.rounding
    assert single.rounding <= 2e-7 * np.sqrt(1.1 * (sizes**2).sum()) * np.diagonal(double.gram).max()


def test_the_last_rows_of_many_are_rounded_like_the_others(monkeypatch):
    """Uneven columns and a short last block: one that float32 multiplied would ask for a penalty of its own."""
    backend = pytest.importorskip("bochner.backends.native")
    monkeypatch.setattr(backend, "integers_pay", lambda: True)
    monkeypatch.setattr("bochner.ridge.statistics._FLOAT32_COLUMNS", 0)
    rng = np.random.default_rng(0)
    Z = (rng.normal(size=(2000, 130)) * np.geomspace(1.0, 1e-3, 130)).astype(np.float32)
    few, many = (of(Z[:n], Z[:n, :1], precision="fast") for n in (700, 1300))
    many.update(Z[1300:], Z[1300:, :1])
    assert few.rounding_noise == 0.0 < few.float32_error
    assert many.float32_error == 0.0 < many.rounding_noise


def test_rounding_is_not_mistaken_for_directions():
    """float32 sums of features of rank 2: the rest is rounding, and a tiny penalty does not blow it up."""
    rng = np.random.default_rng(0)
    Z = (rng.normal(size=(5000, 2)) @ rng.normal(size=(2, 40))).astype(np.float32)
    y = Z[:, :1].astype(float)
    statistics = of(Z, y)
    spectrum = statistics.spectrum(False)
    assert (spectrum.factor.eigenvalues > 0).sum() == 2
    assert np.abs(Z @ spectrum.coefficients(1e-12) - y).max() < 1e-3
    factor = Cholesky().factor(statistics.operator(False), 1e-12)
    assert factor.report.jitter > 0
    assert np.abs(Z @ factor.solve(statistics.right_side(False)) - y).max() < 1e-3


def test_arrays_and_pickles_round_trip():
    Z, Y, weight = problem()
    whole = of(Z.astype(np.float32), Y, weight)
    for copy in (RidgeStatistics.from_arrays(whole.arrays()), pickle.loads(pickle.dumps(whole))):
        np.testing.assert_array_equal(np.tril(copy.gram), np.tril(whole.gram))
        np.testing.assert_array_equal(copy.moment, whole.moment)
        assert (copy.weight, copy.n_samples) == (whole.weight, whole.n_samples)
        copy.update(Z.astype(np.float32), Y)


def test_a_block_of_the_wrong_width_is_refused():
    with pytest.raises(ValueError, match="3 features"):
        RidgeStatistics(3, 1).update(np.zeros((2, 4)), np.zeros(2))
    with pytest.raises(ValueError, match="cannot merge"):
        RidgeStatistics(3, 1).merge(RidgeStatistics(4, 1))
    with pytest.raises(ValueError, match="without"):
        RidgeStatistics(3, 1).merge(RidgeStatistics(3, 1, with_gram=False))


def test_update_leaves_its_arguments_alone():
    Z, Y, weight = problem()
    before = Z.copy(), Y.copy(), weight.copy()
    of(Z, Y, weight + 1.0)
    for a, b in zip(before, (Z, Y, weight), strict=True):
        np.testing.assert_array_equal(a, b)


SOLVERS = {name: lambda G, alpha, rule=rule: rule() for name, rule in solvers.SOLVERS.items()}
SOLVERS |= {
    "cg": lambda G, alpha: ConjugateGradient(tol=1e-13, rank=5),
    "sgd": lambda G, alpha: StochasticGradient(tol=1e-9, max_iter=10_000),
    "falkon": lambda G, alpha: ConjugateGradient(
        tol=1e-13, preconditioner=SampledPreconditioner.of(Cholesky().factor(DenseGram(1.1 * G), alpha))
    ),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_a_factor_solves(name):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50, 30)) @ np.diag(np.geomspace(1.0, 1e-2, 30))
    G = A.T @ A
    B, alpha = rng.normal(size=(30, 3)), 1.0 if name == "sgd" else 0.01  # passes of descent grow as 1 / alpha
    full = G + alpha * np.eye(30)
    factor = SOLVERS[name](G, alpha).factor(DenseGram(np.tril(G)), alpha)
    np.testing.assert_allclose(factor.solve(B), np.linalg.solve(full, B), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(factor.solve(B[:, 0]), np.linalg.solve(full, B[:, 0]), rtol=1e-7, atol=1e-8)
    assert factor.report.converged
    if name not in ("cg", "falkon", "sgd"):
        np.testing.assert_allclose(factor.logdet(), np.linalg.slogdet(full)[1], rtol=1e-10)
        condition = np.linalg.cond(full)
        assert 0.1 * condition <= factor.report.condition <= 10.0 * condition
    else:
        with pytest.raises(ValueError, match="determinant"):
            factor.logdet()


def steep_rows(case, seed, n=400, m=20):
    """Rows and weights for which a step size could be wrong."""
    rng = np.random.default_rng(seed)
    Z, weight = rng.normal(size=(n, m)) @ np.diag(np.geomspace(1.0, 0.1, m)) + 1.0, rng.uniform(0.0, 3.0, n)
    if case == "other units":
        Z *= 10.0 ** rng.uniform(-6, 6)
    elif case == "a row far away":
        Z[7] *= 5.0
    elif case == "in order":
        Z = Z[np.argsort(Z[:, 0])]
    elif case == "a heavy row":
        weight[7] *= 30.0
    return Z, weight


@pytest.mark.parametrize("case", ["other units", "a row far away", "in order", "a heavy row"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("tol", [0.1, 1e-3])
def test_gradient_descent_is_as_near_the_solution_as_it_reports(case, seed, tol):
    """‖w - w*‖ in G + alpha I, which is at least ‖Z(w - w*)‖, relative to ‖w*‖; for rows in any order and units."""
    Z, weight = steep_rows(case, seed)
    targets = np.column_stack([np.sin(Z[:, 0] / abs(Z).max()), np.zeros(len(Z)), Z[:, 1] ** 2])
    centred = Z - weight @ Z / weight.sum()
    G, B = (centred * weight[:, None]).T @ centred, (centred * weight[:, None]).T @ targets
    alpha = 0.01 * np.trace(G) / len(G)
    source = BlockSource([(Z[:150], targets[:150], weight[:150]), (Z[150:], targets[150:], weight[150:])])
    gram = Centred(StreamedGram(source, Identity(20), rows=64), weight @ Z, weight.sum())
    factor = StochasticGradient(tol=tol, max_iter=2000, key=Key(seed)).factor(gram, alpha)
    W, truth = factor.solve(B), np.linalg.solve(G + alpha * np.eye(20), B)
    squares = ((W - truth) * ((G + alpha * np.eye(20)) @ (W - truth))).sum(axis=0)
    norms = (B * truth).sum(axis=0)
    rounding = 1e-20 * norms.max()
    assert factor.report.converged
    assert 0.0 < factor.report.residual <= tol
    assert (squares <= factor.report.residual**2 * norms + rounding).all()
    assert (((centred @ (W - truth)) ** 2 * weight[:, None]).sum(axis=0) <= tol**2 * norms + rounding).all()
    assert not W[:, 1].any()


def test_gradient_descent_says_where_it_stopped():
    Z, _ = steep_rows("in order", 0)
    gram, B = DenseGram(Z.T @ Z), Z.T @ Z[:, 0]
    factor = StochasticGradient(tol=1e-9, max_iter=10).factor(gram, 1.0)
    with pytest.warns(ConvergenceWarning, match="after 9 passes.*Increase alpha, or use solver='cg'"):
        W = factor.solve(B)
    assert not factor.report.converged
    error = W - np.linalg.solve(Z.T @ Z + np.eye(20), B)
    assert error @ (Z.T @ Z + np.eye(20)) @ error <= factor.report.residual**2 * (B @ (W - error))
    with pytest.raises(ValueError, match="alpha > 0"):
        StochasticGradient().factor(gram, 0.0)
    np.testing.assert_allclose(StochasticGradient().factor(DenseGram(np.zeros((3, 3))), 2.0).solve(np.ones(3)), 0.5)


def test_eigenvalues_that_divide_and_conquer_gives_up(monkeypatch):
    A = np.random.default_rng(0).normal(size=(30, 12))

    def gives_up(G, **options):
        raise np.linalg.LinAlgError("did not converge")

    monkeypatch.setattr(scipy.linalg, "eigh", gives_up)
    found = Eigen().factor(DenseGram(A.T @ A), 1.0).eigenvalues
    np.testing.assert_allclose(found, np.linalg.eigvalsh(A.T @ A), rtol=1e-10)


def test_large_matrices_are_factored_panel_by_panel():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(1400, 1300))  # three panels, the last one narrow
    G = A.T @ A
    factor = Cholesky().factor(DenseGram(np.tril(G)), 2.0)
    np.testing.assert_allclose(factor.L, np.linalg.cholesky(G + 2.0 * np.eye(1300)), rtol=1e-8, atol=1e-10)
    G[1200, 1200] = -1e9  # in the last panel
    with pytest.raises(ValueError, match="positive definite"):
        Cholesky().factor(DenseGram(np.tril(G)), 2.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_in_tiles_do_not_depend_on_threads(dtype):
    rng = np.random.default_rng(0)
    Z, Y = rng.normal(size=(700, 1100)).astype(dtype), rng.normal(size=(700, 2))  # tiles of 512, 512 and 76 columns
    found = []
    for n in (1, 4):
        with limit_threads(n):
            found.append(of(Z, Y))
    assert all(np.array_equal(a, found[1].arrays()[name]) for name, a in found[0].arrays().items())
    truth = Z.astype(float).T @ Z.astype(float)
    rtol = 1e-6 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(np.tril(found[0].gram), np.tril(truth), atol=rtol * truth.max())


def test_the_limit_on_threads_ends_with_the_last_one_inside():
    threads = lambda: [found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"]  # noqa: E731
    with threadpool_limits(2, "blas"):
        before = threads()
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)  # in the order of threads, not of brackets
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert threads() == before


def test_of_two_limits_on_threads_the_smaller_holds():
    numbers = lambda: {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}  # noqa: E731
    with threadpool_limits(4, "blas"):
        with blas_threads(3):
            outer, inner = blas_threads(3), blas_threads(2)
            outer.__enter__()
            inner.__enter__()
            assert numbers() == {2}
            outer.__exit__(None, None, None)
            assert numbers() == {2}
            inner.__exit__(None, None, None)
            assert numbers() == {3}
        with blas_threads(5):
            assert numbers() == {4}  # a limit raises nothing: OpenBLAS 0.3.28 crashes with more than it started with
        assert numbers() == {4}


def test_ctrl_c_leaves_no_limit_on_threads():
    """At whatever moment it comes: with a signal pending, Python raises at the next call that it makes."""
    numbers = lambda: {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}  # noqa: E731
    inside = {function.__code__ for function in (blas_threads.__wrapped__, threads._limit_blas)}
    calls = 0

    def limited(strike):
        """Whether there were so many calls."""
        left = strike

        def interrupt(frame, event, _):
            nonlocal left
            if frame.f_code in inside and event in ("call", "c_return"):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGINT)

        sys.setprofile(interrupt)
        try:
            with blas_threads(1):
                pass
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
        return False

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with threadpool_limits(4, "blas"):
            while limited(calls + 1):
                calls += 1
                assert numbers() == {4}, calls
                with blas_threads(2):
                    assert numbers() == {2}, calls
                assert numbers() == {4}, calls
    finally:
        signal.signal(signal.SIGINT, before)
    assert calls > 10


def test_a_preconditioner_saves_iterations():
    rng = np.random.default_rng(0)
    m = 300
    A = rng.normal(size=(1000, m)) @ np.diag(np.geomspace(1.0, 1e-4, m))
    gram = DenseGram(A.T @ A)
    b = rng.normal(size=m)
    plain = ConjugateGradient(tol=1e-8, max_iter=5000, preconditioner=lambda V: V).factor(gram, 1e-2)
    good = ConjugateGradient(tol=1e-8, rank=150).factor(gram, 1e-2)
    np.testing.assert_allclose(good.solve(b), plain.solve(b), rtol=1e-4, atol=1e-4)
    assert good.report.iterations < plain.report.iterations / 4


def test_conjugate_gradients_that_do_not_converge_say_so():
    G = DenseGram(np.diag(np.geomspace(1.0, 1e-12, 200)))
    factor = ConjugateGradient(tol=1e-10, max_iter=3, rank=2).factor(G, 0.0)
    with pytest.warns(Warning, match="stopped after 3 passes"):
        factor.solve(np.ones(200))
    assert not factor.report.converged


def test_centred_gram():
    Z, _, weight = problem()
    mean = weight @ Z / weight.sum()
    truth = (Z - mean).T @ (weight[:, None] * (Z - mean))
    gram = Centred(DenseGram(np.tril((Z * weight[:, None]).T @ Z)), weight @ Z, weight.sum())
    V = np.random.default_rng(1).normal(size=(15, 2))
    np.testing.assert_allclose(gram @ V, truth @ V, atol=1e-10)
    np.testing.assert_allclose(gram @ V[:, 0], truth @ V[:, 0], atol=1e-10)
    np.testing.assert_allclose(gram.to_dense(), truth, atol=1e-10)
    np.testing.assert_allclose(np.tril(gram.lower()), np.tril(truth), atol=1e-10)


@pytest.mark.parametrize("with_gram", [True, False])
def test_the_first_components_are_a_corner(with_gram):
    rng = np.random.default_rng(5)
    Z, Y, weight = rng.normal(size=(50, 6)), rng.normal(size=(50, 2)), rng.uniform(size=50)
    first = RidgeStatistics(6, 2, with_gram=with_gram).update(Z, Y, weight).first(4)
    alone = RidgeStatistics(4, 2, with_gram=with_gram).update(Z[:, :4], Y, weight)
    assert first.with_gram == with_gram
    np.testing.assert_allclose(first.right_side(), alone.right_side(), atol=1e-12)
    if with_gram:
        np.testing.assert_allclose(first.spectrum().coefficients(0.3), alone.spectrum().coefficients(0.3), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_of_transformed_components(weighted):
    rng = np.random.default_rng(0)
    Z, Y = rng.normal(size=(900, 700)), rng.normal(loc=5.0, size=(900, 2))  # tiles of 512 and 188 columns
    A = np.triu(rng.normal(size=(700, 700)))
    weight = rng.uniform(0.5, 2.0, size=900) if weighted else None
    truth, found = of(Z @ A, Y, weight), of(Z, Y, weight).transformed(A)
    for name, of_truth in truth.arrays().items():
        if name != "totals":
            np.testing.assert_allclose(found.arrays()[name], of_truth, rtol=1e-9, atol=1e-9 * np.abs(of_truth).max())
    assert found.n_samples == 900
    assert found.weight == truth.weight


@pytest.mark.parametrize("smallest", [1e-3, 1e-7])
def test_errors_of_transformed_sums_are_not_mistaken_for_directions(smallest):
    # columns that are nearly the same, and a matrix that takes them apart: what is left of the sums is rounding
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2000, 1)) + smallest * rng.normal(size=(2000, 40))
    A = np.eye(40) / smallest
    A[0, 1:] = -1.0 / smallest
    made, truth = of(Z, np.zeros((2000, 1))).transformed(A), of(Z @ A, np.zeros((2000, 1)))
    error = np.linalg.norm(made.operator(False).to_dense() - truth.operator(False).to_dense(), 2)
    assert error <= made.rounding
