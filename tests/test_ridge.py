"""Kernel ridge regression: against the exact one, over every kind of data, and under bad input."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner import (
    RBF,
    FourierFeatures,
    KernelRidge,
    Linear,
    Matern,
    NystromFeatures,
    Polynomial,
    exact_kernel_ridge,
)
from bochner.data.folds import leave_one_out_errors
from bochner.data.sources import ArraySource, Block
from bochner.draws.keys import Key
from bochner.estimators.feature_spec import CHOSEN_LANDMARKS, as_feature_map, choose_landmark_scheme
from bochner.estimators.ridge_fit import RidgeSpec
from bochner.ridge.solvers import SOLVERS, Cholesky, StochasticGradient, needs_sums
from bochner.ridge.statistics import RidgeStatistics
from bochner.tuning.policies import ComponentPolicy
from bochner.tuning.scales import _by_stages, _Evidence, _left_out, _stages, least, tune_length_scale
from laws import rounding_squares


def waves(n=600, d=3, noise=0.1, seed=0, k=None):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, d))
    y = np.sin(2 * X[:, 0]) * X[:, -1] + 3.0 + noise * rng.normal(size=n)
    return X, y if k is None else np.column_stack([y * (j + 1) for j in range(k)])


# -- the mathematics -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_primal_equals_dual(fit_intercept, weighted):
    """Ridge on features is kernel ridge with the kernel ZZᵀ, to rounding."""
    X, y = waves(80, k=2)
    weight = np.random.default_rng(1).integers(0, 3, 80).astype(float) if weighted else None
    model = KernelRidge(RBF(1.0), 40, alpha=0.3, fit_intercept=fit_intercept, random_state=0).fit(X, y, weight)

    def kernel(A, B):
        return model.feature_map_(A) @ model.feature_map_(B).T

    new = waves(30, seed=1)[0]
    dual = exact_kernel_ridge(kernel, X, y, new, 0.3, sample_weight=weight, fit_intercept=fit_intercept)
    np.testing.assert_allclose(model.predict(new), dual, rtol=1e-10, atol=1e-10)


def test_the_exact_reference_is_scikit_learns():
    from sklearn.kernel_ridge import KernelRidge as Theirs

    X, y = waves(70)
    ours = exact_kernel_ridge(RBF(0.7), X, y, X, 0.2, fit_intercept=False)
    theirs = Theirs(kernel="rbf", gamma=0.5 / 0.7**2, alpha=0.2).fit(X, y).predict(X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    # linear kernel with intercept: ordinary ridge
    ours = exact_kernel_ridge(Linear(), X, y, X, 0.2)
    np.testing.assert_allclose(ours, Ridge(0.2).fit(X, y).predict(X), rtol=1e-9)


@pytest.mark.parametrize("features", ["fourier", "nystrom"])
def test_more_components_approach_the_exact_fit(features):
    X, y = waves(300)
    new = waves(200, seed=1)[0]
    truth = exact_kernel_ridge(RBF(1.0), X, y, new, 0.1)
    errors = []
    for m in (20, 300, 2000 if features == "fourier" else 300):
        model = KernelRidge(RBF(1.0), m, features=features, alpha=0.1, random_state=0).fit(X, y)
        errors.append(np.abs(model.predict(new) - truth).mean() / truth.std())
    # Fourier: error ~ 1/sqrt(m); Nyström with as many landmarks as rows is exact
    assert errors[-1] < (0.1 if features == "fourier" else 1e-5)
    assert errors[-1] < errors[0] / 3


def test_leave_one_out_is_leaving_one_out():
    X, y = waves(40, k=2)
    weight = np.random.default_rng(0).integers(1, 3, 40).astype(float)
    feature_map = FourierFeatures(RBF(1.0), 10, random_state=0).fit(X).feature_map_
    Z = feature_map(X)
    for fit_intercept in (True, False):
        statistics = RidgeStatistics(10, 2).update(Z, y, weight)
        spectrum, rows = statistics.spectrum(fit_intercept), ArraySource(X, y, weight).block
        for alpha in (0.01, 1.0):
            found = leave_one_out_errors(
                rows, feature_map, statistics, lambda y: y, spectrum, [alpha], fit_intercept=fit_intercept
            )
            total = np.zeros(2)
            for i in range(40):
                less = weight * (np.arange(40) != i)  # a row with all its weight
                model = Ridge(alpha, fit_intercept=fit_intercept).fit(Z, y, less)
                total += weight[i] * (y[i] - model.predict(Z[i : i + 1])[0]) ** 2
            np.testing.assert_allclose(found[0], total / weight.sum(), rtol=1e-8)


def test_a_penalty_is_not_better_because_of_one_row():
    """A large row that happens to lie on the slope of the others' noise is no reason to prefer that slope."""
    rng = np.random.default_rng(0)
    Z, noise = rng.normal(size=(60, 1)), 0.1 * rng.normal(size=(60, 1))
    slope = (Z[1:] * noise[1:]).sum() / (Z[1:] ** 2).sum()
    Z[0], noise[0] = 30.0, 30.0 * 2.5 * slope  # the others are predicted worse
    alphas = np.geomspace(1e-3, 1e9, 13)
    for Y, alike in ((noise, True), (noise + 0.5 * Z, False)):
        statistics = RidgeStatistics(1, 1).update(Z, Y)
        spectrum = statistics.spectrum(False)
        squares = statistics.left_out_residuals(Z, Y, alphas, spectrum, False)[:, :, 0] ** 2
        errors = squares.mean(axis=0)
        assert errors[0] < 0.9 * errors[-1]
        found = leave_one_out_errors(
            Block(Z, Y), lambda Z: Z, statistics, np.asarray, spectrum, alphas, fit_intercept=False
        )[:, 0]
        more = squares - squares[:, [errors.argmin()]]
        np.testing.assert_allclose(found, np.where(more.sum(0) <= more.max(0), errors.min(), errors), rtol=1e-8)
        assert (found[-1] == found.min()) == alike


@pytest.mark.parametrize("alpha", ["loo", "gcv", "evidence", [1e-3, 0.1, 10.0, 1e4]])
def test_chosen_penalties_are_near_the_best(alpha):
    X, y = waves(500, noise=0.5)
    new, truth = waves(2000, noise=0.0, seed=1)
    model = KernelRidge(RBF(1.0), 200, alpha=alpha, random_state=0).fit(X, y)
    error = np.mean((model.predict(new) - truth) ** 2)
    tried = [KernelRidge(RBF(1.0), 200, alpha=a, random_state=0).fit(X, y) for a in np.geomspace(1e-3, 1e3, 13)]
    best = min(np.mean((m.predict(new) - truth) ** 2) for m in tried)
    assert error < 2.0 * best
    assert set(model.alpha_path_) == {"alpha", "criterion", "effective_dimension"}
    assert np.all(np.diff(model.alpha_path_["effective_dimension"]) <= 0)
    assert 0 < model.effective_dimension_ < 200


@pytest.mark.parametrize("solver", [*SOLVERS, Cholesky(), StochasticGradient(tol=1e-3, max_iter=1000)])
def test_solvers_agree(solver):
    X, y = waves(400, k=2)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 400)
    truth = KernelRidge(RBF(1.0), 60, alpha=0.1, random_state=0).fit(X, y, weight)
    model = KernelRidge(RBF(1.0), 60, alpha=0.1, solver=solver, random_state=0).fit(X, y, weight)
    if solver == "sgd" or isinstance(solver, StochasticGradient):
        explained = (weight[:, None] * (truth.predict(X) - np.average(y, axis=0, weights=weight)) * y).sum(axis=0)
        distance = (weight[:, None] * (model.predict(X) - truth.predict(X)) ** 2).sum(axis=0)
        assert 0.0 < model.report_.residual <= getattr(solver, "tol", 0.01)
        assert (distance <= model.report_.residual**2 * explained).all()
    else:
        np.testing.assert_allclose(model.predict(X), truth.predict(X), rtol=1e-6)
    if not needs_sums(solver):
        assert model.report_.iterations > 0
        assert np.isnan(model.effective_dimension_)
    else:
        np.testing.assert_allclose(model.effective_dimension_, truth.effective_dimension_, rtol=1e-8)


def test_falkon_is_conjugate_gradients_on_nystrom_features():
    X, y = waves(500)
    settings = {"features": "nystrom", "alpha": 1e-3, "random_state": 0}
    direct = KernelRidge(RBF(1.0), 100, **settings).fit(X, y)
    iterated = KernelRidge(RBF(1.0), 100, solver="cg", **settings).fit(X, y)
    np.testing.assert_allclose(iterated.predict(X), direct.predict(X), rtol=1e-5)


def test_solver_auto_turns_to_iterations_when_memory_is_short(monkeypatch):
    X, y = waves(300)
    monkeypatch.setattr("bochner.ridge.solution.memory_available", lambda: 100_000)
    model = KernelRidge(RBF(1.0), 100, random_state=0).fit(X, y)
    assert model.report_.method == "cg"
    assert "GiB are free" in model.report_.notes[0]
    assert "chosen" in model.report_.notes[-1]
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match="keeps no sums"):
        model.partial_fit(X, y)


def test_effective_dimension_of_a_given_penalty():
    X, y = waves(200)
    model = KernelRidge(RBF(1.0), 30, alpha=0.5, random_state=0).fit(X, y)
    Z = model.feature_map_(X)
    Z = Z - Z.mean(axis=0)
    truth = np.trace(np.linalg.solve(Z.T @ Z + 0.5 * np.eye(30), Z.T @ Z))
    np.testing.assert_allclose(model.effective_dimension_, truth, rtol=1e-9)
    assert model.alpha_path_ == {}
    assert "cholesky" in model.report_.notes[0]


# -- scales and sizes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_gradient_of_the_evidence(fit_intercept):
    rng = np.random.default_rng(0)
    X, root, W = rng.normal(size=(50, 3)), np.sqrt(rng.uniform(0.5, 2, 50)), rng.normal(size=(8, 3))
    draft = _Evidence(X, rng.normal(size=(50, 2)), root, W, 0.0, fit_intercept)
    problem = _Evidence(X, draft.centred(draft.Y), root, W, 0.0, fit_intercept)
    at = np.array([0.1 * rng.normal(), np.log(0.3)])
    gradient = problem.value_and_gradient(at)[1]
    steps = 1e-5 * np.eye(len(at))
    difference = [(problem.value_and_gradient(at + s)[0] - problem.value_and_gradient(at - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(gradient, difference, rtol=1e-5, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.parametrize("level", [1e9, 1e11, 1e12])
def test_a_scale_is_tuned_for_targets_of_any_level(level):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(800, 2))
    y = np.sin(8 * X[:, 0]) + 0.1 * rng.normal(size=800)
    models = [KernelRidge("rbf", 200, metric="isotropic", random_state=0).fit(X, target) for target in (y, y + level)]
    assert models[1].score(X, y + level) == pytest.approx(models[0].score(X, y), abs=0.01)


def test_a_scale_is_tuned_beside_a_row_far_away():
    """Scales are tried in float32, which 1e11 less the mean of all rows has no digits for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=300)
    X[0] = 1e11
    model = KernelRidge(metric="isotropic", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_named_kernel_has_its_scale_tuned(scale):
    rng = np.random.default_rng(0)
    X, new = rng.uniform(-2, 2, size=(800, 2)), rng.uniform(-2, 2, size=(1000, 2))
    y = np.sin(8 * X[:, 0]) + 0.1 * rng.normal(size=800)  # wiggles far shorter than the median distance
    given = KernelRidge(RBF("median"), 200, random_state=0).fit(scale * X, y)
    tuned = KernelRidge("rbf", 200, random_state=0).fit(scale * X, y)
    truth = np.sin(8 * new[:, 0])
    assert tuned.score(scale * new, truth) > 0.9 > given.score(scale * new, truth)
    numbered = KernelRidge(RBF(scale * 5.0), 100, random_state=0).fit(scale * X, y)
    assert numbered.features_.kernel_.length_scale == scale * 5.0
    asked = KernelRidge(RBF("auto"), 200, random_state=0).fit(scale * X, y)
    np.testing.assert_array_equal(asked.features_.kernel_.length_scale, tuned.features_.kernel_.length_scale)


def test_rows_left_out_find_the_scale_of_a_process():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(900, 2))
    y = np.linalg.cholesky(RBF(0.5)(X) + 1e-2 * np.eye(900)) @ rng.normal(size=(900, 1))
    # 32 columns, of which evidence is taken, could not follow it
    few, many = (tune_length_scale(RBF(), X, y, key=Key(0), n_components=32, n_landmarks=m) for m in (0, 400))
    assert 0.35 < many.length_scale < 0.7
    assert abs(np.log(many.length_scale / 0.5)) < abs(np.log(few.length_scale / 0.5))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_rows_left_out_of_landmark_columns(fit_intercept, weighted):
    X, y = waves(60)
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 4, size=60).astype(float) if weighted else np.ones(60)
    root, landmarks = np.sqrt(weight), np.arange(0, 60, 6)
    Y = (y - np.average(y, weights=weight) * fit_intercept)[:, None]
    found = _left_out(RBF(1.0), X, root[:, None] * Y, root, fit_intercept, landmarks)
    Z = np.linalg.solve(np.linalg.cholesky(RBF(1.0)(X[landmarks])), RBF(1.0)(X, X[landmarks]).T).T
    others = np.setdiff1d(np.arange(60), landmarks)

    def error(alpha):
        total = 0.0
        for i in others:
            left = weight * (np.arange(60) != i)  # a row with all its weight
            fitted = Ridge(alpha, fit_intercept=fit_intercept).fit(Z, Y, left)
            total += weight[i] * (Y[i, 0] - fitted.predict(Z[i : i + 1]).item()) ** 2
        return total / weight[others].sum()

    best = min(error(alpha) for alpha in np.geomspace(1e-4, 1e2, 25))
    assert 0.98 * best < found < 1.02 * best  # on another grid of penalties


@pytest.mark.parametrize("bottom", [0.3, 4.6, -7.2])
def test_a_walk_ends_at_the_vertex(bottom):
    assert abs(least(lambda step: (step - bottom) ** 2) - bottom) < 1e-9
    assert abs(least(lambda step: -step)) <= 18  # and somewhere, if there is none


@pytest.mark.parametrize("n_rows", [10, 900, 2000, 5000])
def test_stages_end_with_all_rows_and_cost_little_before(n_rows):
    """Twice as many rows and landmarks each time, and few tries with all of them, wherever the minimum moves to."""
    stages = _stages(n_rows, 768)
    assert stages[-1] == (n_rows, max(1, min(768, n_rows // 4)))
    assert all(a <= b and m <= k for (a, m), (b, k) in pairwise(stages))
    calls = []

    def error(half_steps, n_rows, n_landmarks):
        stage = (n_rows, n_landmarks)
        calls.append((half_steps, stage))
        return (half_steps - bottoms[stage]) ** 2

    bottoms = {stage: -4.3 - 0.8 * i for i, stage in enumerate(stages)}
    assert abs(_by_stages(error, n_rows, 768) - bottoms[stages[-1]]) < 1e-9
    assert len(calls) == len(set(calls))
    assert len(stages) == 1 or sum(stage == stages[-1] for _, stage in calls) <= 4


def test_a_scale_for_every_feature():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5)) * [1.0, 100.0, 1e-3, 1.0, 1.0]
    X[:, 4] = 2.0  # constant
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=1000)
    model = KernelRidge("matern52", 300, metric="diagonal", random_state=0).fit(X, y)
    scales = model.features_.kernel_.length_scale / [1.0, 100.0, 1e-3, 1.0, 1.0]
    assert scales[1:4].min() > 3 * scales[0]
    assert model.score(X, y) > 0.95


def test_tuning_keeps_the_kernel_and_needs_no_variation():
    kernel = Matern(3.0, nu=2.5)
    X, y = waves(100)
    tuned = tune_length_scale(kernel, X, y[:, None], key=Key(0), n_components=20)
    assert (tuned.nu, kernel.length_scale) == (2.5, 3.0)
    assert np.isfinite(tune_length_scale(kernel, X, np.ones((100, 1)), key=Key(0)).length_scale)
    assert tune_length_scale(kernel, np.ones((100, 3)), y[:, None], key=Key(0)).length_scale > 0


@pytest.mark.parametrize(
    ("n_landmarks", "means", "nested", "scheme"),
    [
        (CHOSEN_LANDMARKS, True, False, "mixed"),
        (CHOSEN_LANDMARKS, False, False, "rpcholesky"),
        (CHOSEN_LANDMARKS + 1, True, False, "uniform"),
        (CHOSEN_LANDMARKS + 1, False, False, "uniform"),
        (CHOSEN_LANDMARKS + 1, True, True, "mixed"),
        (CHOSEN_LANDMARKS + 1, False, True, "rpcholesky"),
    ],
)
def test_landmarks_are_chosen_where_they_are_few_or_nested(n_landmarks, means, nested, scheme):
    """And moved to means of rows only where there are means: not of sparse rows, nor of kernels of x·y."""
    assert choose_landmark_scheme("mixed", n_landmarks, means=means, nested=nested) == scheme
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_landmarks + 50, 2)), rng.normal(size=n_landmarks + 50)
    model = KernelRidge(RBF(1.0) if means else Polynomial(2), features="nystrom", random_state=0)
    source = ArraySource(X, y)
    features, _ = model._spec(()).features.fit(source, model.kernel, n_landmarks, Key(0), nested=nested)
    assert features.landmarks_law_ == scheme


def test_components_are_added_until_they_stop_helping():
    X, y = waves(3000, d=2, noise=0.05)
    model = KernelRidge(random_state=0, max_components=2048).fit(X, y)
    assert model.n_components_ < 2048  # a smooth function of two variables needs few
    assert model.score(*waves(1000, d=2, noise=0.0, seed=1)) > 0.99
    with pytest.warns(ConvergenceWarning, match="max_components=300"):
        assert KernelRidge(RBF(0.02), random_state=0, max_components=300).fit(X, y).n_components_ <= 300


def test_kernels_without_frequencies_take_landmarks():
    X, y = waves(300)
    model = KernelRidge(Polynomial(3), 50, random_state=0).fit(X, y)
    assert type(model.features_).__name__ == "NystromFeatures"


def test_auto_takes_landmarks_only_where_features_may_depend_on_the_rows():
    X, y = waves(200)
    found = KernelRidge(tol=10.0, random_state=0).fit(X, y)
    assert isinstance(found.features_, NystromFeatures)
    assert not hasattr(found.features_, "trace_error_")  # which a model does not need
    for model in (
        KernelRidge(n_components=64, random_state=0).fit(X, y),
        KernelRidge(tol=10.0, random_state=0).partial_fit(X, y),
        KernelRidge(tol=10.0, random_state=0).fit(scipy.sparse.csr_matrix(X), y),
    ):
        assert isinstance(model.features_, FourierFeatures)


def test_any_transformer_makes_features():
    X, y = waves(400)
    theirs = make_pipeline(StandardScaler(), RBFSampler(gamma=0.5, n_components=80, random_state=0))
    model = KernelRidge(features=theirs, alpha=0.1).fit(X, y)
    truth = make_pipeline(clone(theirs), Ridge(0.1)).fit(X, y)
    np.testing.assert_allclose(model.predict(X), truth.predict(X), rtol=1e-7)
    assert not hasattr(theirs[-1], "random_weights_")  # cloned
    assert as_feature_map(model.features_, X).n_components == 80
    with pytest.raises(ValueError, match="transformer with fit and transform"):
        KernelRidge(features=3).fit(X, y)


# -- updates ---------------------------------------------------------------------------------------------------------


def test_partial_fit_and_merge_equal_one_fit():
    X, y = waves(600, k=2)
    weight = np.random.default_rng(0).uniform(0, 2, 600)
    make = lambda: KernelRidge(RBF(1.0), 50, alpha="evidence", random_state=0)  # noqa: E731
    whole = make().fit(X, y, weight)
    parts = make()
    for rows in np.array_split(np.arange(600), 4):
        parts.partial_fit(X[rows], y[rows], weight[rows])
    left = make().fit(X[:200], y[:200], weight[:200])
    both = left.merge(make().fit(X[200:], y[200:], weight[200:]))
    for other in (parts, both):
        assert other.n_samples_seen_ == whole.n_samples_seen_
        np.testing.assert_allclose(other.alpha_, whole.alpha_, rtol=1e-8)
        np.testing.assert_allclose(other.predict(X), whole.predict(X), rtol=1e-8, atol=1e-10)


def test_models_of_different_features_do_not_merge():
    X, y = waves(100)
    model = KernelRidge(RBF(1.0), 20, random_state=0).fit(X, y)
    before = model.predict(X)
    for other in (
        KernelRidge(RBF(1.0), 20, random_state=1),
        KernelRidge(RBF(1.1), 20, random_state=0),
        KernelRidge(RBF(1.0), 22, random_state=0),
    ):
        with pytest.raises(ValueError, match="different features"):
            model.merge(other.fit(X, y))
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_bad_block_leaves_the_model_as_it_was():
    X, y = waves(300)
    model = KernelRidge(RBF(1.0), 30, random_state=0).partial_fit(X, y)
    before = model.predict(X)
    for bad_X, bad_y, message in (
        (X[:, :2], y, "2 features"),
        (np.where(X > 1.9, np.nan, X), y, "NaN"),
        (X, np.where(y > 4, np.nan, y), "NaN"),
        (X, np.column_stack([y, y]), "shape"),
        (X, y[:-1], "inconsistent"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(bad_X, bad_y)
        with pytest.raises(ValueError, match=r"NaN|columns|rows|shape|length|features"):
            model.partial_fit([(X, y), (bad_X, bad_y)])
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.n_samples_seen_ == 300


# -- input -----------------------------------------------------------------------------------------------------------


def test_constant_targets_and_single_rows():
    X, _ = waves(50)
    for alpha in ("loo", "gcv", "evidence", 1.0):
        model = KernelRidge(n_components=20, alpha=alpha, random_state=0).fit(X, np.full(50, 7.5))
        np.testing.assert_allclose(model.predict(X), 7.5, rtol=1e-9)
        two = KernelRidge(n_components=20, alpha=alpha, random_state=0).fit(
            X, np.column_stack([X[:, 0], np.full(50, 1e5)])
        )
        np.testing.assert_allclose(two.predict(X)[:, 1], 1e5, rtol=1e-9)
    assert KernelRidge(random_state=0).fit(X[:1], [3.0]).predict(X[:1]) == pytest.approx(3.0)


@pytest.mark.parametrize("alpha", ["loo", "gcv", "evidence", 0.0, 1.0])
def test_degenerate_data_gives_finite_answers(alpha):
    X, y = waves(30)
    for bad in (np.repeat(X[:3], 10, axis=0), np.ones((30, 3)), 1e-30 * X, 1e30 * X, np.hstack([X, np.ones((30, 1))])):
        model = KernelRidge(n_components=50, alpha=alpha, random_state=0).fit(bad, y)
        assert np.isfinite(model.predict(bad)).all()


def test_float32_stays_float32_and_close():
    X, y = waves(3000)
    double = KernelRidge(RBF(1.0), 100, alpha=0.1, random_state=0).fit(X, y)
    single = KernelRidge(RBF(1.0), 100, alpha=0.1, random_state=0).fit(X.astype(np.float32), y)
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    moved = single.predict(X.astype(np.float32)) - double.predict(X)
    rounding = np.sqrt(rounding_squares(single.statistics_, 0.1).max() / len(X))
    assert np.sqrt(np.mean(moved**2)) < rounding + 1e-4


def test_targets_beyond_the_range_of_a_type():
    X, y = waves(500)
    with pytest.raises(ValueError, match="divide the targets"):
        KernelRidge(RBF(1.0), 20, alpha=0.1).fit(X, 1e200 * y)
    large = KernelRidge(RBF(1.0), 20, alpha=0.1, random_state=0).fit(X, 1e60 * y)
    usual = KernelRidge(RBF(1.0), 20, alpha=0.1, random_state=0).fit(X, y)
    np.testing.assert_allclose(large.predict(X), 1e60 * usual.predict(X), rtol=1e-6)
    with pytest.raises(ValueError, match="give X as float64"):
        large.predict(X.astype(np.float32))


def test_sparse_rows():
    X = scipy.sparse.random(300, 40, 0.1, "csr", random_state=0)
    y = np.asarray(X.sum(axis=1)).ravel()
    for kernel in ("rbf", RBF(2.0)):
        sparse = KernelRidge(kernel, 50, random_state=0).fit(X, y)
        dense = KernelRidge(kernel, 50, random_state=0).fit(X.toarray(), y)
        np.testing.assert_allclose(sparse.predict(X), dense.predict(X.toarray()), rtol=1e-4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1.0}, "alpha must be"),
        ({"alpha": "best"}, "alpha must be one of 'gcv', 'loo', 'margin', 'evidence'"),
        ({"alpha": [[1.0]]}, "alpha must be"),
        ({"alpha": np.nan}, "alpha must be"),
        ({"solver": "lu"}, "solver must be one of"),
        ({"n_components": 0}, "n_components must be"),
        ({"n_components": "many"}, "n_components must be"),
        ({"features": "wavelets"}, "features must be one of"),
        ({"metric": "some"}, "metric must be"),
        ({"block_size": 0}, "block_size must be"),
        ({"tol": 0.0}, "tol must be"),
        ({"kernel": "gauss"}, "unknown kernel"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
    ],
)
def test_bad_parameters(parameters, message):
    X, y = waves(30)
    with pytest.raises(ValueError, match=message):
        KernelRidge(**parameters).fit(X, y)


def test_bad_weights():
    X, y = waves(30)
    for weight, message in ((-np.ones(30), "not negative"), (np.ones(29), "shape"), (np.full(30, np.nan), "finite")):
        with pytest.raises(ValueError, match=message):
            KernelRidge(RBF(1.0), 10).fit(X, y, weight)
    with pytest.raises(ValueError, match="zero for every row"):
        KernelRidge(RBF(1.0), 10).fit(X, y, np.zeros(30))
    some = (np.arange(30) < 20).astype(float)
    a = KernelRidge(RBF(1.0), 10, random_state=0).fit(X, y, some)
    b = KernelRidge(RBF(1.0), 10, random_state=0).fit(X[:20], y[:20])
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-9)
    assert a.n_samples_seen_ == 20


def test_nothing_is_learned_before_fit():
    model = KernelRidge()
    for name in (
        "component_weights_",
        "alpha_",
        "report_",
        "n_samples_seen_",
        "intercept_",
        "alpha_path_",
        "effective_dimension_",
    ):
        assert not hasattr(model, name)
    with pytest.raises(NotFittedError):
        model.predict([[1.0]])
    with pytest.raises(NotFittedError):
        model.merge(model)


def test_threads_do_not_change_the_answer():
    X, y = make_regression(500, 5, random_state=0)
    one = KernelRidge(RBF(5.0), 64, n_jobs=1, random_state=0).fit(X, y).predict(X)
    two = KernelRidge(RBF(5.0), 64, n_jobs=2, random_state=0).fit(X, y).predict(X)
    np.testing.assert_allclose(one, two, rtol=1e-8)


def test_landmarks_that_say_nothing_are_dropped():
    X, y = waves(400, d=1)
    model = KernelRidge(RBF(5.0), 200, features="nystrom", alpha=0.1, random_state=0).fit(X, y)
    assert model.n_components_ == model.features_.effective_rank_ < 200
    assert model.component_weights_.shape == (model.n_components_,)
    truth = exact_kernel_ridge(RBF(5.0), X, y, X, 0.1)
    np.testing.assert_allclose(model.predict(X), truth, atol=1e-4 * np.abs(truth).max())


@pytest.mark.parametrize("features", ["fourier", "nystrom"])
def test_rounding_to_fixed_point_is_told_and_works_like_a_penalty(monkeypatch, features):
    """The report says how much larger alpha seems; fits with and without agree as far as that goes."""
    backend = pytest.importorskip("bochner.backends.native")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5)).astype(np.float32)
    y = np.sin(X.sum(axis=1)) + 0.3 * rng.normal(size=len(X))
    fits = []
    for integers in (True, False):
        monkeypatch.setattr(backend, "integers_pay", lambda integers=integers: integers)
        options = {"features": features, "alpha": 0.1, "precision": "fast", "random_state": 0}
        fits.append(KernelRidge(RBF(1.5), 256, **options).fit(X, y))
    rounded, plain = fits
    assert any("rounded to integers" in note for note in rounded.report_.notes)
    assert not any("rounded to integers" in note for note in plain.report_.notes)
    assert 0.0 < rounded.statistics_.rounding_noise < (0.01 if features == "fourier" else 1e-4) * rounded.alpha
    gap = rounded.predict(X) - plain.predict(X)
    noise = np.sqrt(rounded.statistics_.rounding_noise / len(X)) * np.linalg.norm(
        plain.component_weights_
    )  # of a prediction of one row
    assert np.sqrt(np.mean(gap**2)) <= noise


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_margins_of_left_out_rows_are_those_of_refits(fit_intercept):
    """Squared hinges of margins from as many refits as rows; of penalties within a standard error none is better."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(40, 6))
    labels = np.argmax(Z[:, :3] + 0.8 * rng.normal(size=(40, 3)), axis=1)
    signs = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    statistics = RidgeStatistics(6, 3).update(Z, signs)
    alphas = np.geomspace(1e-2, 1e3, 9)
    options = {"fit_intercept": fit_intercept}
    spectrum, rows = statistics.spectrum(fit_intercept), Block(Z, signs)
    found = leave_one_out_errors(rows, lambda Z: Z, statistics, np.asarray, spectrum, alphas, margins=True, **options)
    errors = np.empty((40, 9))
    for i in range(40):
        others = np.arange(40) != i
        for a, alpha in enumerate(alphas):
            scores = Ridge(alpha, **options).fit(Z[others], signs[others]).predict(Z[i : i + 1])[0]
            margins = (scores[labels[i]] - np.delete(scores, labels[i])) / 2.0
            errors[i, a] = np.mean(np.maximum(0.0, 1.0 - margins) ** 2)
    mean = errors.mean(axis=0)
    spread = np.linalg.norm(errors - errors[:, [mean.argmin()]], axis=0) / 40
    expected = np.where(mean <= mean.min() + spread, mean.min(), mean)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-8)


def test_margins_are_for_signs():
    X, y = waves(60)
    with pytest.raises(ValueError, match="signs, -1 and 1"):
        KernelRidge(RBF(1.0), 20, alpha="margin").fit(X, np.column_stack([y, -y]))
    with pytest.raises(ValueError, match="signs, -1 and 1"):
        KernelRidge(RBF(1.0), 20, alpha="margin").fit(X, y)
    two = np.sign(y - np.median(y) + 1e-9)
    one, other = (KernelRidge(RBF(1.0), 20, alpha=alpha, random_state=0).fit(X, two) for alpha in ("margin", "loo"))
    assert one.alpha_ == other.alpha_  # of two labels, one column of signs, squared errors


@pytest.mark.parametrize(("n", "d", "noise"), [(600, 60, 1.0), (600, 60, 8.0), (1500, 30, 10.0)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_default_does_not_lose_to_a_linear_model_where_that_is_the_truth(n, d, noise, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 2000, d))
    y = X @ rng.normal(size=d) + noise * rng.normal(size=n + 2000)
    linear = RidgeCV(np.geomspace(1e-3, 1e5, 17)).fit(X[:n], y[:n])
    found = KernelRidge(random_state=seed).fit(X[:n], y[:n])
    errors, least = ((model.predict(X[n:]) - y[n:]) ** 2 for model in (found, linear))
    assert errors.mean() <= least.mean() + least.std() / np.sqrt(2000)


@pytest.mark.parametrize("seed", [2, 3])
def test_a_penalty_that_nobody_asked_for_is_no_reason_to_warn(seed):
    """Without noise the smallest penalty that the sums allow is the best; one that was given is warned of."""
    X = np.random.default_rng(seed).normal(size=(6000, 3))
    y = X[:, 0] * X[:, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelRidge(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.999
    with pytest.warns(LinAlgWarning, match="below the rounding"):
        KernelRidge(RBF(3.0), 200, alpha=1e-16, random_state=0).fit(X, y)


def test_sums_that_are_too_coarse_for_the_penalty_are_not_solved_with(monkeypatch):
    """They are computed again first: their rounding is no reason to warn."""
    X, y = waves(2000)
    solved, solve, coarse = [], RidgeSpec.solve_with, iter([True])

    def solve_with(self, statistics, penalty):
        solved.append(statistics)
        return solve(self, statistics, penalty)

    monkeypatch.setattr(RidgeSpec, "solve_with", solve_with)
    monkeypatch.setattr(RidgeStatistics, "is_coarse", lambda self, alpha: next(coarse, False))
    few = ComponentPolicy(penalty_components=16)  # the penalty is refined with more components
    monkeypatch.setattr("bochner.tuning.components.POLICY", few)
    model = KernelRidge(random_state=0).fit(X, y)
    assert solved == [model.statistics_]
    assert not next(coarse, False)  # it was asked
    np.testing.assert_allclose(model.predict(X), KernelRidge(random_state=0).fit(X, y).predict(X), rtol=1e-6)


@pytest.mark.parametrize(("length_scale", "alpha"), [(1.0, 1e-3), (4.0, 0.1)])
def test_conjugate_gradients_with_landmarks_close_to_each_other(length_scale: float, alpha: float) -> None:
    """Their whitening magnifies the rounding errors of products, by which the sums seem indefinite."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    options = {"features": "nystrom", "alpha": alpha, "random_state": 0}
    found, expected = (
        KernelRidge(RBF(length_scale), 300, solver=solver, **options).fit(X, np.sin(3.0 * X[:, 0])).predict(X)
        for solver in ("cg", "cholesky")
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)
