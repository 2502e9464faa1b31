"""n_components="auto" of ridge regression: what is measured, on which rows, and whether it is true."""

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from bochner import RBF, KernelRidge, NystromFeatures, Polynomial, exact_kernel_ridge
from bochner.data.sources import ArraySource
from bochner.draws.keys import Key
from bochner.estimators.ridge_fit import RidgeSpec
from bochner.features.fourier import Fourier
from bochner.features.maps import FeatureMap
from bochner.ridge.statistics import RidgeStatistics
from bochner.tuning import components as ridge_search
from bochner.tuning import excess_risk as excess_risk_module
from bochner.tuning.excess_risk import NestedRidge, RowSplit, excess_risk
from bochner.tuning.policies import ComponentPolicy

RARE = 1e-6  # chance of a false alarm
NOISE = 0.5


def curve(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 3))
    return X, np.sin(2.0 * X[:, 0]) * X[:, 1] + NOISE * rng.normal(size=n)


def nested_ridge(
    feature_map: FeatureMap, X, y, rows, *, alpha=0.3, weight=None, fit_intercept=True, n_requested=None, whole=True
):
    """Sums over all rows, and errors of some of them; `whole`: where more were asked for, these are the kernel."""
    statistics = RidgeStatistics(feature_map.n_components, 1).update(feature_map(X), y, weight)
    chosen = None if weight is None else weight[rows]
    Z, Y = feature_map(X[rows]), y[rows, None]
    diagonal = None if isinstance(feature_map, Fourier) else RBF(1.0).diagonal(X[rows])
    if n_requested is not None and diagonal is not None and whole:
        diagonal = (Z * Z).sum(axis=1)
    n_requested = n_requested or feature_map.n_components
    return NestedRidge(statistics, Z, Y, chosen, alpha, fit_intercept, diagonal, n_requested)


def all_rows(source):
    return np.concatenate([block.X for block in source.blocks(1000)])


def maps(kernel, size):
    """Features of either kind, of which the first components are a draw themselves."""
    X, y = curve(200, 99)
    for name in ("fourier", "nystrom"):
        yield KernelRidge(kernel, size, features=name, random_state=0).fit(X, y).feature_map_


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100, 3000])
@pytest.mark.parametrize("n_landmarks", [1, 2, 50, 2000])
def test_features_never_see_the_rows_that_errors_are_measured_on(n, n_landmarks):
    X = np.arange(float(n))[:, None]
    split = RowSplit.of(ArraySource(X, X[:, 0]), Key(0)).for_landmarks(n_landmarks)
    measured, seen = (set(part.ravel()) for part in (split.measured.X, all_rows(split.others)))
    assert measured
    assert seen
    if n > 1:
        assert not measured & seen
        assert measured | seen == set(X.ravel())
    assert len(seen) >= min(4 * n_landmarks, split.most_landmarks)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100, 2500, 9000])
@pytest.mark.parametrize("n_landmarks", [1, 50, 400, 2000])
def test_folds_measure_every_row_once_that_is_wanted(n, n_landmarks):
    """Each on rows of its own, and with features that do not know them."""
    X = np.arange(float(n))[:, None]
    split = RowSplit.of(ArraySource(X, X[:, 0]), Key(0)).for_landmarks(n_landmarks)
    folds = split.folds()
    measured = [set(fold.measured.X.ravel()) for fold in folds]
    assert measured[0] == set(split.measured.X.ravel())
    assert len(set.union(*measured)) == sum(map(len, measured))
    assert sum(map(len, measured)) >= 0.75 * min(2048, n)
    assert len(folds) <= 3
    if n > 1:
        for fold, rows in zip(folds, measured, strict=True):
            assert rows | set(all_rows(fold.others).ravel()) == set(X.ravel())
            assert not rows & set(all_rows(fold.others).ravel())


def test_draws_are_looked_at_together():
    """The excess of two halves of the rows is that of all of them, and known better than from one."""
    X, y = curve(400, 3)
    for half in (slice(None, 150), slice(150, 300)):  # errors are in units of the variance of a draw's targets
        y[half] = (y[half] - y[half].mean()) / y[half].std()
    for feature_map in maps(RBF(0.5), 64):
        # of components that are all there are: what lies beyond is extrapolated from each draw's own rows
        first, second, everything = (
            nested_ridge(feature_map, X, y, rows, n_requested=65)
            for rows in (slice(None, 150), slice(150, 300), slice(None, 300))
        )
        parts = [first, second]
        whole, both = excess_risk([everything], 16), excess_risk(parts, 16)
        np.testing.assert_allclose(both.interval, whole.interval, rtol=1e-9)
        assert both.high - both.low < max(excess_risk([part], 16).high - excess_risk([part], 16).low for part in parts)


def test_rows_of_weight_zero_are_neither_measured_nor_seen():
    X, weight = np.arange(100.0)[:, None], np.repeat([0.0, 1.0], 50)
    split = RowSplit.of(ArraySource(X, X[:, 0], weight), Key(0)).for_landmarks(10)
    assert min(split.measured.X.min(), all_rows(split.others).min()) >= 50.0


@pytest.mark.parametrize("tol", [0.5, 0.05])
def test_landmarks_of_the_model_are_none_of_the_rows_measured(tol):
    X, y = curve(600, 0)
    model = KernelRidge(Polynomial(5), tol=tol, random_state=0).fit(X, y)  # its landmarks are rows
    rows = RowSplit.of(ArraySource(X, y), Key(0).child("left out")).for_landmarks(600).measured.X
    landmarks = {row.tobytes() for row in model.features_.landmarks_}
    assert landmarks <= {row.tobytes() for row in X}
    assert not landmarks & {row.tobytes() for row in rows}


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_components", [5, 24, 40])
def test_left_out_is_refitting_without_the_row(n_components, fit_intercept):
    X, y = curve(80, 1)
    for feature_map in maps(RBF(1.0), 40):
        found = nested_ridge(feature_map, X, y, slice(None, 20), fit_intercept=fit_intercept)
        Z = feature_map(X)[:, :n_components]
        if isinstance(feature_map, Fourier):
            Z = Z * np.sqrt(feature_map.n_components / n_components)
        for row in (0, 7, 19):
            others = np.arange(80) != row
            rest = RidgeStatistics(n_components, 1).update(Z[others], y[others])
            w = rest.spectrum(fit_intercept).coefficients(0.3)
            expected = Z[row] @ w + rest.intercept(w, fit_intercept)
            np.testing.assert_allclose(found.left_out_predictions(n_components)[row], expected, rtol=1e-8, atol=1e-10)


def test_the_unexplained_share_is_the_formula():
    """Fourier features: effective dimension over number; landmarks: the share of the trace they do not explain."""
    X, y = curve(300, 2)
    K = RBF(1.0)(X)
    fourier, landmarks = (nested_ridge(f, X, y, slice(None)) for f in maps(RBF(1.0), 64))
    centred = fourier.Z - fourier.Z.mean(axis=0)
    dimension = np.trace(centred @ np.linalg.solve(centred.T @ centred + 0.3 * np.eye(64), centred.T))
    np.testing.assert_allclose(fourier.unexplained_share, dimension / 64, rtol=1e-9)
    np.testing.assert_allclose(landmarks.unexplained_share, np.trace(K - landmarks.Z @ landmarks.Z.T) / 300, rtol=1e-9)


def test_more_components_leave_less_unexplained():
    X, y = curve(300, 3)
    sizes = (16, 32, 64, 128)
    for kind in zip(*(maps(RBF(1.0), m) for m in sizes), strict=True):
        shares = [nested_ridge(f, X, y, slice(None)).unexplained_share for f in kind]
        assert all(np.diff(shares) < 0.0)
        assert 0.0 <= shares[-1] <= shares[0] <= 1.0


def test_equal_models_have_no_excess():
    X, y = curve(300, 4)
    for feature_map in maps(RBF(1.0), 64):
        found = nested_ridge(feature_map, X, y, slice(None), n_requested=65)  # there are no more than 64
        assert excess_risk([found], 64).value == 0.0
        assert excess_risk([found], 64).high == 0.0
        assert excess_risk([found], 64, [found]).high == 0.0


def test_the_excess_is_between_the_distance_and_the_difference_of_errors():
    """And is the difference where it is known well: with more rows, and where components are fewer."""
    apart = []
    for n in (300, 30_000):
        X, y = curve(n, 8)
        for feature_map in maps(RBF(1.0), 64):
            found = nested_ridge(feature_map, X, y, slice(None), n_requested=65)
            few, everything = found.left_out_predictions(16), found.left_out_predictions(64)
            errors = [np.mean((p - found.Y) ** 2) for p in (few, everything)]
            difference, distance = errors[0] / errors[1] - 1.0, np.mean((few - everything) ** 2) / errors[1]
            value = excess_risk([found], 16).value
            assert min(difference, distance) <= value <= max(difference, distance)
            assert excess_risk([found], 16).low <= difference <= excess_risk([found], 16).high
            apart.append(abs(value - difference) / abs(distance - difference))
    assert max(apart[2:]) < min(apart[:2])
    assert max(apart[2:]) < 0.1


def test_the_penalty_is_chosen_on_all_rows_and_is_that_of_the_certificate(monkeypatch):
    """Few rows choose too small a penalty as often as too large a one, and the number of components follows."""
    X, y = curve(900, 9)
    seen, solve = [], RidgeSpec.solve

    def watched(self, statistics, feature_map, rows=None, **options):
        solution = solve(self, statistics, feature_map, rows, **options)
        seen.append((statistics.n_components, len(rows), solution.alpha))
        return solution

    monkeypatch.setattr(RidgeSpec, "solve", watched)
    model = KernelRidge(RBF(1.0), tol=0.1, random_state=0).fit(X, y)
    assert {count for _, count, _ in seen} == {900}
    assert model.features_.landmarks_law_ == "mixed"
    assert model.alpha_ in [alpha for size, _, alpha in seen if size == model.n_components_]


def test_weights_have_any_unit():
    X, y = curve(300, 5)
    feature_map = next(maps(RBF(1.0), 64))
    weight = np.repeat([1.0, 0.5], 150)
    once = nested_ridge(feature_map, X, y, slice(None), weight=weight)
    sums = RidgeStatistics(64, 1).update(feature_map(X), y, 3.0 * weight)
    scaled = NestedRidge(sums, once.Z, once.Y, 3.0 * weight, 3.0 * 0.3, True, None, 64)
    np.testing.assert_allclose(excess_risk([scaled], 16).interval, excess_risk([once], 16).interval, rtol=1e-9)


@pytest.mark.slow
def test_the_interval_covers_the_excess_of_unseen_rows():
    """At its level, on new training rows every time, for features and a number of components that do not change."""
    trials = 200
    X_new, y_new = curve(20_000, 10**6)
    for feature_map in maps(RBF(1.0), 96):
        scale = 96 / 24 if isinstance(feature_map, Fourier) else 1.0
        Z_new = feature_map(X_new)
        covered = below = 0
        for seed in range(trials):
            X, y = curve(500, seed)
            found = nested_ridge(feature_map, X, y, slice(None), n_requested=97)
            errors = []
            for m in (24, 96):
                root = np.sqrt(scale) if m == 24 else 1.0
                sums = RidgeStatistics(m, 1).update(root * feature_map(X)[:, :m], y)
                w = sums.spectrum().coefficients(0.3)
                errors.append(np.mean((root * Z_new[:, :m] @ w + sums.intercept(w) - y_new[:, None]) ** 2))
            grown, certificate = errors[0] / errors[1] - 1.0, excess_risk([found], 24)
            covered += certificate.low <= grown <= certificate.high
            below += grown <= certificate.high
        assert covered >= stats.binom.ppf(RARE, trials, 0.95)
        assert below >= stats.binom.ppf(RARE, trials, 0.975)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", ["loo", "evidence", 0.5])
@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_the_tolerance_is_met_on_unseen_rows(features, alpha):
    """In 95 of 100 seeds, with at most about a quarter of the components there are: 1,000 landmarks, 2,000 features."""
    trials, tol, met, sizes = 40, 0.1, 0, []
    for seed in range(trials):
        X, y = curve(5000, 1000 + seed)
        model = KernelRidge(RBF(0.8), features=features, tol=tol, alpha=alpha, random_state=seed).fit(
            X[:1000], y[:1000]
        )
        exact = exact_kernel_ridge(RBF(0.8), X[:1000], y[:1000], X[1000:], model.alpha_)
        errors = [np.mean((p - y[1000:]) ** 2) for p in (model.predict(X[1000:]), exact)]
        met += errors[0] <= (1.0 + tol) * errors[1]
        sizes.append(model.n_components_)
    assert met >= stats.binom.ppf(RARE, trials, 0.95)
    assert np.median(sizes) <= {"nystrom": 256, "fourier": 512}[features]


@pytest.mark.parametrize("budget", [{"max_components": 8}, {"max_components": 24}, {"max_bytes": 8.0 * 8**2}])
def test_too_few_components_vouch_for_nothing(budget):
    """Eight components predict what four do: not because these are enough, but because none learns anything."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = np.sin(2.0 * X[:, 0]) * np.cos(2.0 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.1 * rng.normal(size=1500)
    X, y, X_new, y_new = X[:1000], y[:1000], X[1000:], y[1000:]
    with pytest.warns(ConvergenceWarning, match=r"tol=0.05 is not (certified|reached): .* \(at most inf with 95 %"):
        model = KernelRidge(RBF(1.0), alpha=0.1, random_state=0, **budget).fit(X, y)
    exact = exact_kernel_ridge(RBF(1.0), X, y, X_new, 0.1)
    errors = [np.mean((found - y_new) ** 2) for found in (model.predict(X_new), exact)]
    assert errors[0] > 2.0 * errors[1]
    assert model.certificate_.high == np.inf
    assert "too few components to estimate" in model.certificate_.how
    assert "inf]" in str(model.summary())
    enough = KernelRidge(RBF(3.0), alpha=1.0, random_state=0, max_components=256).fit(X, X[:, 0])
    assert enough.certificate_.high <= 0.05
    same = KernelRidge(RBF(3.0), alpha=1.0, random_state=0).fit(X, X[:, 0])
    np.testing.assert_array_equal(enough.predict(X), same.predict(X))
    repeated = KernelRidge(RBF(3.0), alpha=1.0, random_state=0, max_components=24).fit(X[:5].repeat(40, 0), y[:200])
    assert repeated.certificate_.high <= 0.05  # of five different rows, five landmarks are the kernel


def test_a_linear_function_of_many_columns_needs_more_than_the_usual_components():
    X = np.random.default_rng(0).normal(size=(4000, 200))
    with pytest.warns(ConvergenceWarning, match=r"at most inf .* max_components=300"):
        KernelRidge(RBF(20.0), alpha=1.0, random_state=0, max_components=300).fit(X, X @ np.ones(200))


def test_a_kernel_too_short_for_the_components_is_noticed():
    """Components that explain next to nothing do not change predictions, and are not near the limit for that."""
    X, y = curve(2000, 6)
    with pytest.warns(UserWarning, match="tol=0.05 is not reached"):
        KernelRidge(RBF(0.25), alpha=0.1, tol=0.05, max_components=128, random_state=0).fit(X, y)


def test_the_excess_falls_beyond_the_components_at_hand():
    """Without a jump where measuring ends and extrapolating begins."""
    X, y = curve(400, 7)
    for feature_map in maps(RBF(1.0), 64):
        found = nested_ridge(feature_map, X, y, slice(None))
        half, whole, more = (excess_risk([found], m).value for m in (32, 64, 100))
        assert half > whole > more > 0.0
        ratio = whole / half
        assert ratio >= 0.5 ** (0.75 if isinstance(feature_map, Fourier) else 1.5) - 1e-12
        np.testing.assert_allclose(np.log(more / whole) / np.log(100 / 64), np.log(ratio) / np.log(2.0), rtol=1e-9)


def test_a_step_is_told_from_a_slope():
    """Where a quarter of the components predict what half of them do, the excess is not taken to fall as usual."""
    rng = np.random.default_rng(11)
    n, M = 2000, 256
    Z = np.linalg.qr(rng.normal(size=(n, M)))[0] * np.sqrt(n)
    column = np.arange(M)
    slope, step = (1.0 + column) ** -1.25, 1.0 * (column < 32) + 0.05 * (column >= 192)
    powers, values = [], []
    for coefficients in (slope, step):
        y = Z @ coefficients + 0.02 * rng.normal(size=n)
        sums = RidgeStatistics(M, 1).update(Z, y)
        found = NestedRidge(sums, Z, y[:, None], None, 0.1, True, (Z * Z).sum(axis=1), M)
        powers.append(found._power)
        values.append(excess_risk([found], M).value / excess_risk([found], M // 2).value)
    assert powers == [1.5, 0.5]
    np.testing.assert_allclose(values, 0.5 ** np.array(powers))


def watched_sizes(monkeypatch):
    """Components of every pass over all rows."""
    sizes, accumulate = [], RidgeSpec.accumulate

    def counted(self, source, feature_map, *arguments):
        sizes.append(feature_map.n_components)
        return accumulate(self, source, feature_map, *arguments)

    monkeypatch.setattr(RidgeSpec, "accumulate", counted)
    return sizes


@pytest.mark.parametrize("tol", [0.02, 0.2])
def test_the_search_costs_little_more_than_the_fit(tol, monkeypatch):
    """Passes cost the square of their components: the model is the last of few, not half of a larger one."""
    X, y = curve(6000, 12)
    sizes = watched_sizes(monkeypatch)
    model = KernelRidge(RBF(0.4), alpha=0.3, tol=tol, random_state=0).fit(X, y)
    assert model.n_components_ in sizes
    assert sum(size**2 for size in sizes) <= 3.0 * max(model.n_components_, 750) ** 2


def test_of_many_rows_a_sample_tells_where_to_begin(monkeypatch):
    monkeypatch.setattr(excess_risk_module, "_FEATURE_ROWS", 600)
    monkeypatch.setattr(excess_risk_module, "_MEASURED_ROWS", 200)
    monkeypatch.setattr(ridge_search, "POLICY", ComponentPolicy(sample_rows=800))
    passes, accumulate = [], RidgeSpec.accumulate

    def watched(self, source, feature_map, *arguments):
        passes.append((source.n_samples, feature_map.n_components))
        accumulate(self, source, feature_map, *arguments)

    monkeypatch.setattr(RidgeSpec, "accumulate", watched)
    X, y = curve(4000, 12)
    model = KernelRidge(RBF(1.5), alpha=0.3, tol=0.1, random_state=0).fit(X, y)
    assert passes[-1] == (4000, model.n_components_)
    assert passes[0][0] == 800
    of_all = [size for n, size in passes if n == 4000]
    assert sum(size**2 for size in of_all) <= 2.0 * model.n_components_**2
    assert model.certificate_.high <= 0.1


def test_the_penalty_of_many_components_has_the_least_left_out_error():
    X, y = curve(6000, 13)
    model = KernelRidge(RBF(0.4), tol=0.02, random_state=0).fit(X, y)
    assert model.n_components_ > 512
    path = model.alpha_path_
    assert len(path["alpha"]) == len(path["criterion"]) == len(path["effective_dimension"]) >= 3
    assert all(np.diff(path["effective_dimension"]) < 0.0)
    # of the same features, by eigenvectors and a fine grid
    points = model.features_.landmarks_
    again = KernelRidge(features=NystromFeatures(RBF(0.4), len(points), landmarks=points)).fit(X, y)
    fine = again.alpha_path_
    reached = np.interp(np.log(model.alpha_), np.log(fine["alpha"]), fine["criterion"])
    assert reached <= 1.02 * fine["criterion"].min()
    close = np.argmin(abs(np.log(fine["alpha"] / path["alpha"][1])))
    ratio = fine["effective_dimension"][close] / path["effective_dimension"][1]
    assert 0.7 < ratio < 1.4  # from leverages of some rows, at nearly that penalty


def test_doubled_rows_do_not_make_landmarks_exact():
    """Fewer landmarks than asked for, and a third of the trace unexplained: more of them would be better."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=400)
    points = np.repeat(X[:40], 2, axis=0)
    rough, smooth = (NystromFeatures(RBF(s), 80, landmarks=points).fit(X).feature_map_ for s in (1.5, 300.0))
    found = [
        nested_ridge(feature_map.truncated(feature_map.rank), X, y, slice(200, None), n_requested=80, whole=False)
        for feature_map in (rough, smooth)
    ]
    assert all(t.n_components < 80 for t in found)
    assert [t.exact for t in found] == [False, True]
    assert excess_risk([found[0]], found[0].n_components).value > 0.01
    assert excess_risk([found[1]], found[1].n_components).value == 0.0
