"""recommend: what `fit` would choose, budgets that bind, a page that can be read, models that fit."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

import bochner
from bochner import (
    RBF,
    FourierFeatures,
    KernelClassifier,
    KernelRidge,
    Matern,
    NystromFeatures,
    Polynomial,
    Recommendation,
    recommend,
    recommendations,
)
from bochner.certificates import kernel_error
from bochner.recommendations import Trial, _Candidate, _Fits, _largest, _Times, carried_on, growth
from bochner.tuning.policies import ClassifierPolicy, ComponentPolicy


@pytest.fixture(scope="module", name="data")
def some_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=3000)


@pytest.fixture(scope="module", name="advice")
def some_advice(data):
    return recommend(*data, kernel=RBF(2.0))


# -- arithmetic ------------------------------------------------------------------------------------------------------


def trials_of(sizes, components, dimensions):
    return [Trial("nystrom", *row, 0.04, row[1], d, 1.0) for *row, d in zip(sizes, components, dimensions, strict=True)]


@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 1.0])
def test_a_power_of_the_rows_is_carried_on_exactly(power):
    sizes = np.array([1000, 4000, 16_000])
    components = 7.0 * sizes**power
    without_targets = trials_of(sizes, components, [np.nan] * 3)
    assert growth(without_targets) == pytest.approx(power, abs=1e-12)
    assert carried_on(without_targets, components, 10**6) == pytest.approx(7.0 * 10 ** (6 * power))
    half = trials_of(sizes, 7.0 * sizes**0.5, 3.0 * sizes**0.5)
    assert growth(half) == pytest.approx(0.5)


def test_models_are_drawn_towards_the_square_root_and_stay_between_no_growth_and_a_component_a_row():
    sizes = [1000, 4000]
    assert growth(trials_of(sizes, [100, 400], [50, 200])) == pytest.approx((1.0 + 1.0 + 0.5) / 3)
    assert growth(trials_of(sizes, [400, 100], [200, 50])) == 0.0
    assert growth(trials_of(sizes, [10, 1000], [10, 1000])) == 1.0
    assert carried_on(trials_of(sizes, [90, 400], [50, 200]), [90, 400], 4000) == 400.0  # nothing to carry on


@pytest.mark.parametrize("power", range(6))
def test_times_of_the_form_that_is_assumed_are_carried_on_exactly(power):
    coefficients = np.array([1e-6, 1e-8, 1e-10, 1e-2, 1e-7, 1e-9])
    coefficients[power] = 0.0
    truth = _Times(coefficients)
    timings = [(n, m, truth(n, m)) for n, m in itertools.product((5000, 20_000), (16, 64, 128, 256, 512))]
    found = _Times.of(timings)
    assert found(10**6, 2048) == pytest.approx(truth(10**6, 2048), rel=1e-4)
    # linear in the rows
    assert found(3 * 10**6, 512) - found(2 * 10**6, 512) == pytest.approx(found(2 * 10**6, 512) - found(10**6, 512))


@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_times_grow_with_rows_and_components_whatever_was_measured(noise):
    rng = np.random.default_rng(1)
    timings = [(n, m, 0.1 * rng.lognormal(sigma=noise)) for n in (5000, 20_000) for m in (64, 128, 256)]
    times = _Times.of(timings)
    assert times(10**5, 256) >= times(20_000, 256) >= times(20_000, 64) >= 0.0


def test_the_largest_number_that_is_allowed():
    assert [_largest(limit.__ge__, 100) for limit in (0, 1, 37, 100, 1000)] == [1, 1, 37, 100, 100]


def test_max_seconds_bounds_the_effort(data, monkeypatch):
    """With a clock that jumps a second whenever it is looked at."""

    def rows_searched(max_seconds):
        monkeypatch.setattr(recommendations, "_clock", itertools.count().__next__)
        monkeypatch.setattr(recommendations, "_FIRST_ROWS", 50)
        monkeypatch.setattr(recommendations, "_MORE_ROWS", 2)
        return [t.n_samples for t in recommend(*data, kernel=RBF(2.0), max_seconds=max_seconds).trials]

    assert rows_searched(5.0) == [50, 100]  # two in any case
    assert rows_searched(1000.0) == [50, 100, 200, 400, 800, 1600, 3000]


def test_seconds_are_those_of_the_clock(data, monkeypatch):
    """A clock of which every fit takes a second says that a fit to all rows takes one."""
    monkeypatch.setattr(recommendations, "_clock", itertools.count().__next__)
    advice = recommend(data[0][:300], data[1][:300], kernel=RBF(2.0))
    assert advice.seconds == pytest.approx(1.0, rel=1e-6)
    assert advice.search_seconds == pytest.approx(3.0 + 1.0, rel=1e-6)  # the kernel's scale, and a search


@pytest.mark.parametrize("labels", [False, True])
def test_the_search_itself_says_how_many_components_it_tries(data, labels, monkeypatch):
    monkeypatch.setattr("bochner.tuning.components.POLICY", ComponentPolicy(few_components=24))
    X, y = data[0][:300], data[1][:300]
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different") if labels else y
    advice = recommend(X, y, kernel=Matern(0.3, nu=0.5))
    assert advice.n_components == 24
    assert any("fit tries no more than 24" in reason for reason in advice.reasons)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_seconds_of_a_search_are_those_of_the_last_trial_in_proportion(task):
    """Twice as long as a plain fit; a classifier searches on some of the rows and is fitted to all."""
    fits = _Fits(np.zeros((10**5, 3)), None, np.arange(10**5), task, 0.05, 0)
    times = _Times(np.array([0.0, 1e-6, 0.0, 0.0, 0.0, 0.0]))  # a microsecond for every feature of a row
    trials = tuple(trials_of([1000, 4000], [100, 200], [50, 100]))
    trials = (trials[0], replace(trials[1], seconds=2 * times(4000, 200)))
    found = fits.search_seconds(_Candidate("nystrom", trials, 500.0, 500, times, 1.0), 500)
    rows = 2 * 10**5 if task == "regression" else 2 * ClassifierPolicy().growth_rows + 10**5
    assert found == pytest.approx(1e-6 * rows * 500)


# -- choices ---------------------------------------------------------------------------------------------------------


def test_models_are_what_fit_would_choose(data, advice):
    X, y = data
    assert isinstance(advice, Recommendation)
    assert (advice.task, advice.features, advice.shape) == ("regression", "nystrom", (3000, 3))
    assert advice.trials[-1].n_samples == 3000
    model = advice.model(random_state=0).fit(X[:2500], y[:2500])
    assert isinstance(model, KernelRidge)
    assert model.score(X[2500:], y[2500:]) > 0.95
    assert model.n_components_ == advice.n_components
    assert advice.solver == model.report_.method
    assert 1.0 < advice.effective_dimension <= advice.n_components
    assert advice.seconds > 0


def _sines(rng, X):
    return np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X))


def _rough(rng, X):
    """With so much noise that a fit reaches its tolerance within the 2,048 components it tries of 20,000 rows."""
    return np.abs(X[:, 0]) + np.sign(X[:, 1]) + rng.normal(size=len(X))


def _labels(rng, X):
    return np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=len(X)) > 0, "same", "different")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:alpha=")  # which may be below the rounding of float32 sums, and says so
@pytest.mark.parametrize(
    ("kernel", "n_features", "target"),
    [(RBF(2.0), 3, _sines), (Matern(3.0, nu=1.5), 5, _rough), (RBF(1.5), 3, _labels)],
)
def test_components_and_time_are_those_of_fit(kernel, n_features, target, monkeypatch):
    """Within a factor of two in components and three in processor time, from searches on less than half the rows."""
    monkeypatch.setattr(recommendations, "_SEARCH_GROWTH", np.inf)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20_000, n_features)).astype(np.float32)
    y = target(rng, X)
    advice = recommend(X, y, kernel=kernel)
    assert [t.n_samples for t in advice.trials] == [2000, 6000]
    kind = KernelClassifier if advice.task == "classification" else KernelRidge
    chosen = kind(kernel, random_state=1, n_jobs=1).fit(X, y).n_components_
    assert chosen / 2 <= advice.n_components <= 2 * chosen
    model = advice.model(random_state=1).set_params(n_jobs=1)
    taken = []
    for _ in range(2):
        start = recommendations._clock()
        model.fit(X, y)
        taken.append(recommendations._clock() - start)
    assert min(taken) / 3 <= advice.seconds <= 3 * min(taken)


def test_without_targets_tol_is_that_of_the_kernel_matrix(data):
    X, _ = data
    advice = recommend(X, kernel=Matern(2.0, nu=1.5), tol=0.1)
    assert advice.task is advice.solver is None
    assert np.isnan([advice.alpha, advice.effective_dimension]).all()
    assert {t.features for t in advice.trials} == {"fourier", "nystrom"}
    features = advice.transformer(random_state=0).fit(X)
    assert isinstance(features, (FourierFeatures, NystromFeatures))
    assert advice.error <= 0.1
    # another draw than the one that was measured
    assert kernel_error(features, X, norm="relative_frobenius", random_state=0).value < 0.15


def test_a_kernel_without_frequencies_gets_landmarks(data):
    X, y = data
    for targets in (y[:500], None):
        advice = recommend(X[:500], targets, kernel=Polynomial(2, coef0=1.0))
        assert advice.features == "nystrom"
        assert any("no frequencies" in reason for reason in advice.reasons)


def test_budgets_bind_and_say_so(data):
    X, y = data[0][:400], data[1][:400]
    free = recommend(X, y, kernel=Matern(2.0, nu=0.5))
    hurried = recommend(X, y, kernel=Matern(2.0, nu=0.5), budget_seconds=free.seconds / 100)
    assert hurried.n_components < free.n_components
    assert any("do not suffice" in reason for reason in hurried.reasons)
    cramped = recommend(X, y, kernel=Matern(2.0, nu=0.5), budget_bytes=2**20)
    assert cramped.n_components < free.n_components
    assert cramped.bytes <= 2**20
    assert any("of memory hold" in reason for reason in cramped.reasons)


def test_page(advice):
    page = str(advice)
    for words in ("Recommendation for 3000 rows of 3 features", "KernelRidge(", "effective dimension",
                  "processor time", "memory", "Why", "Tried", "components"):  # fmt: skip
        assert words in page


def test_labels_get_a_classifier_that_knows_them_all(data):
    X = data[0][:600]
    y = np.where(X[:, 0] > 0, "yes", "no").astype(object)
    y[123] = "once"
    advice = recommend(X, y, kernel=RBF(2.0), max_seconds=0.1)
    assert advice.task == "classification"
    model = advice.model(random_state=0).fit(X, y)
    assert isinstance(model, KernelClassifier)
    assert model.score(X, y) > 0.9


def test_sparse_rows_and_few_rows(data):
    X, y = data
    rows = scipy.sparse.csr_matrix(X[:300])
    assert recommend(rows, kernel=RBF(2.0)).n_components >= 1
    assert recommend(rows, y[:300], kernel=RBF(2.0)).features == "fourier"
    tiny = recommend(X[:5], y[:5], kernel=RBF(2.0))
    assert tiny.n_components <= 5


def test_errors(data):
    X, y = data
    with pytest.raises(ValueError, match="at least two rows"):
        recommend(X[:1])
    with pytest.raises(ValueError, match="they must agree"):
        recommend(X, y[:10])
    with pytest.raises(ValueError, match="y contains NaN"):
        recommend(X, np.full(len(X), np.nan))
    with pytest.raises(ValueError, match="X contains NaN"):
        recommend(np.full((10, 2), np.nan), kernel=RBF(1.0))
    with pytest.raises(ValueError, match="missing labels"):
        recommend(X, np.array([None, "a", "b"] * 1000, dtype=object))
    with pytest.raises(ValueError, match="y should be a 1d array"):
        recommend(X, np.full((len(X), 2), "a"))
    with pytest.raises(ValueError, match="two classes"):
        recommend(X, np.full(len(X), "a"))
    for name in ("budget_seconds", "budget_bytes", "tol", "max_seconds"):
        with pytest.raises(ValueError, match=f"{name} must be a positive number"):
            bochner.recommend(X, **{name: 0})
