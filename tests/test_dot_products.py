"""Maclaurin, kitchen-sink, binning, χ², compact and learned features, and the one-call fits."""

from math import comb

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from sklearn.base import clone
from sklearn.kernel_approximation import AdditiveChi2Sampler, PolynomialCountSketch, RBFSampler
from sklearn.linear_model import Ridge

from bochner import (
    RBF,
    AdditiveChi2,
    AdditiveChi2Features,
    ArcCosine,
    CompactFeatures,
    DotProduct,
    ExponentialDot,
    FourierFeatures,
    KernelClassifier,
    KernelPCA,
    KernelRidge,
    KitchenSinkFeatures,
    Laplacian,
    LearnedFeatures,
    Linear,
    MaclaurinFeatures,
    MaclaurinSeries,
    Matern,
    MonomialFeatures,
    Polynomial,
    RandomBinningFeatures,
    TensorSketchFeatures,
    datasets,
    greedy_kitchen_sinks,
    kitchen_sinks,
)
from bochner.draws.keys import Key
from bochner.draws.linear_maps import Dense
from bochner.draws.mixtures import maclaurin_coefficients
from bochner.features import maclaurin
from bochner.features.maclaurin import divide, geometric_map, optimal_map, series_of, squared_radius
from bochner.lab.kitchen_sinks import _correlated, _explained
from bochner.lab.learned import frequencies_for_targets
from bochner.lab.objectives import CirculantFrequencies, DenseFrequencies, LogObjective, SquaredObjective
from bochner.sampling import ROW_LAWS
from laws import assert_unbiased, points, rounding_squares


@pytest.fixture(autouse=True)
def plan_once(monkeypatch):
    """Many draws of one map: how its columns are spent is the same each time, and is worked out once."""
    plans = {}

    def allocate(a, sample, n_components, allocate=maclaurin._allocate):
        rows = sample.toarray() if scipy.sparse.issparse(sample) else sample
        address = (a.tobytes(), rows.tobytes(), rows.shape, n_components)
        if address not in plans:
            plans[address] = allocate(a, sample, n_components)
        return plans[address]

    monkeypatch.setattr(maclaurin, "_allocate", allocate)


SERIES = {
    "linear": Linear(),
    "homogeneous": Polynomial(2, gamma=1.0, coef0=0.0),
    "polynomial": Polynomial(3, gamma=0.5, coef0=1.0),
    "exponential": ExponentialDot(0.5),
    "series": MaclaurinSeries([0.5, 0.0, 1.0, 0.25]),
    "function": DotProduct(np.cosh),
    "tree": 2.0 * Linear() ** 2 + Polynomial(2, gamma=1.0) * ExponentialDot(0.2),
}


# Maclaurin


@pytest.mark.parametrize("name", SERIES)
def test_coefficients_sum_to_the_kernel(name):
    X = points(8, 4, scale=0.7)
    a = series_of(SERIES[name], 4, squared_radius(X))
    assert (a >= 0).all()
    np.testing.assert_allclose(np.polynomial.polynomial.polyval(X @ X.T, a), SERIES[name](X), rtol=1e-9)


@pytest.mark.parametrize("kernel", [Polynomial(4, gamma=0.7, coef0=0.5), ExponentialDot(1.3)])
def test_numeric_coefficients_are_the_exact_ones(kernel):
    found = maclaurin_coefficients(lambda t: kernel.profile(t, 1), 12, radius=1.5)
    np.testing.assert_allclose(found, kernel.coefficients(12, 1), rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("d", [1, 3, 11])
@pytest.mark.parametrize("allocation", ["optimal", "geometric"])
@pytest.mark.parametrize("name", SERIES)
def test_maclaurin_features_are_unbiased(name, allocation, d):
    X = points(5, d, scale=0.4)
    a = series_of(SERIES[name], d, squared_radius(X))

    def gram(key):
        if allocation == "optimal":
            Z = optimal_map(a, X, 24, key, X.dtype)(X)
        else:
            Z = geometric_map(a, d, 96, key, X.dtype)(X)
        return Z @ Z.T

    samples = np.array([gram(Key(5).child(i)) for i in range(200)])
    assert_unbiased(samples, SERIES[name](X), floor=1e-9, delta=1e-8)


def test_one_column_is_unbiased_too():
    X = points(4, 3, scale=0.4)
    kernel = Polynomial(2, gamma=1.0, coef0=1.0)
    maps = (optimal_map(kernel.coefficients(3, 3), X, 1, Key(1).child(i), X.dtype) for i in range(2000))
    assert_unbiased(np.array([f(X) @ f(X).T for f in maps]), kernel(X), delta=1e-8)


def test_any_base_of_the_geometric_law_is_unbiased():
    X = points(4, 3, scale=0.4)
    kernel = Polynomial(2, gamma=1.0, coef0=1.0)
    maps = (geometric_map(kernel.coefficients(3, 3), 3, 64, Key(1).child(i), X.dtype, base=3.0) for i in range(400))
    assert_unbiased(np.array([f(X) @ f(X).T for f in maps]), kernel(X), delta=1e-8)


@pytest.mark.parametrize("p", [1.0, 0.5, -2.0, "two"])
def test_the_base_of_the_geometric_law_is_above_one(p):
    with pytest.raises(ValueError, match=r"\bp must be"):
        MaclaurinFeatures(Polynomial(2), 10, allocation="geometric", p=p).fit(np.eye(3))


def test_the_base_of_the_geometric_law_is_a_parameter():
    X = points(4, 3, scale=0.4)
    kernel = Polynomial(2, gamma=1.0, coef0=1.0)
    features = [MaclaurinFeatures(kernel, 64, allocation="geometric", p=5.0, random_state=s).fit(X) for s in range(300)]
    assert_unbiased(np.array([f.transform(X) @ f.transform(X).T for f in features]), kernel(X), delta=1e-8)
    degrees = np.concatenate([f.feature_map_.degrees for f in features])
    share = np.mean(degrees == 0)  # 4/5, and those of degree 3 and more, which the kernel has not: 1/125
    expected = 0.8 + 1 / 125
    assert abs(share - expected) < 6 * np.sqrt(expected * (1 - expected) / len(degrees))


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_monomials_give_the_kernel_itself(name, d, make):
    X, Y = points(6, d, scale=0.4), points(5, d, seed=1, scale=0.4)
    features = MonomialFeatures(SERIES[name]).fit(make(X))
    Z = features.transform(make(X))
    np.testing.assert_allclose(Z @ features.transform(make(Y)).T, SERIES[name](X, Y), rtol=1e-9, atol=1e-11)
    # each component is the monomial that its exponents say
    powers = features.powers_
    assert len(np.unique(powers, axis=0)) == len(powers) == features.n_components_
    monomials = np.prod(X[:, None, :] ** powers, axis=2)
    np.testing.assert_allclose(np.abs(Z[0] * monomials[1]), np.abs(Z[1] * monomials[0]), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(("d", "q"), [(1, 3), (4, 2), (6, 3)])
def test_monomials_are_as_many_as_counted(d, q):
    X = np.ones((2, d))
    assert MonomialFeatures(Polynomial(q, gamma=1.0, coef0=2.0)).fit(X).n_components_ == comb(d + q, q)
    assert MonomialFeatures(Polynomial(q, gamma=1.0, coef0=0.0)).fit(X).n_components_ == comb(d + q - 1, q)
    with pytest.raises(ValueError, match="TensorSketchFeatures"):
        MonomialFeatures(Polynomial(3)).fit(np.ones((2, 500)))
    with pytest.raises(ValueError, match="MonomialFeatures needs a kernel"):
        MonomialFeatures("rbf").fit(X)


def test_published_features_of_a_homogeneous_kernel_are_mostly_zero():
    # one degree in 2^(2+1) draws is the right one
    X = np.random.default_rng(0).normal(size=(3, 4))
    kernel = Polynomial(2, gamma=1.0, coef0=0.0)
    Z = MaclaurinFeatures(kernel, 8000, allocation="geometric", random_state=0).fit_transform(X)
    share = np.mean(np.abs(Z[0]) > 0)
    assert abs(share - 0.125) < 6 * np.sqrt(0.125 * 0.875 / 8000)


def test_optimal_allocation_beats_the_published_one_and_is_exact_where_it_can():
    X = np.random.default_rng(0).uniform(size=(60, 6))
    kernel = ExponentialDot(0.5)
    K = kernel(X)

    def error(**params):
        features = (MaclaurinFeatures(kernel, 100, random_state=s, **params) for s in range(10))
        return np.mean([np.linalg.norm(f.fit_transform(X) @ f.transform(X).T - K) for f in features])

    assert error() < 0.5 * error(allocation="geometric")
    Z = MaclaurinFeatures(Linear(), 9, random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, rtol=1e-12)
    affine = Polynomial(1, gamma=2.0, coef0=3.0)
    Z = MaclaurinFeatures(affine, 7, random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, affine(X), rtol=1e-12)


@pytest.mark.parametrize("allocation", ["optimal", "geometric"])
def test_sparse_rows_and_high_degrees(allocation):
    X = scipy.sparse.random(20, 50, 0.2, random_state=0, format="csr") * 4.0
    features = MaclaurinFeatures(ExponentialDot(1.0), 64, allocation=allocation, random_state=0).fit(X)
    np.testing.assert_allclose(features.transform(X), features.transform(X.toarray()), rtol=1e-10)
    single = features.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert np.isfinite(single).all()


def test_geometric_draws_extend():
    X = points(5, 3)
    few, many = (
        MaclaurinFeatures(Polynomial(2), n, allocation="geometric", random_state=0).fit_transform(X) for n in (20, 80)
    )
    np.testing.assert_allclose(few, 2.0 * many[:, :20], rtol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (np.sin, "Schoenberg"),
        (lambda t: t - t**2, "t\\^2"),
        (np.abs, "not a real power series"),
        (lambda t: 1.0 / (1.0 - t), "Scale the data down"),
        (lambda t: float(t), "NumPy functions"),
        (RBF(1.0), "NystromFeatures"),
        (ExponentialDot(500.0), "Scale the data down"),
    ],
)
def test_bad_kernels_of_products(kernel, message):
    X = np.random.default_rng(0).normal(size=(20, 5))
    with pytest.raises(ValueError, match=message):
        MaclaurinFeatures(kernel, 10).fit(X)


def test_columns_divided_sum_up_and_have_their_minimum():
    rng = np.random.default_rng(0)
    for _ in range(50):
        k = rng.integers(1, 6)
        least = rng.integers(1, 4, k)
        total = least.sum() + rng.integers(0, 100)
        counts = divide(int(total), rng.random(k) ** 3, least)
        assert counts.sum() == total
        assert (counts >= least).all()
    np.testing.assert_array_equal(divide(100, np.array([3.0, 1.0]), np.array([1, 1])), [75, 25])


# Kitchen sinks


def gaussian_units(X):
    s = (X**2).sum(axis=1)
    return 1.0 / np.sqrt(np.outer(1 + s, 1 + s) - (X @ X.T) ** 2)


def sign_units(X):
    K = ArcCosine(0)(X)  # 1 - θ/π
    return np.where(K > 0, 2.0 * K - 1.0, 0.0)


EXPECTED = {
    "cos": RBF(1.0),
    "relu": ArcCosine(1),
    "squared_relu": ArcCosine(2),
    "step": ArcCosine(0),
    "gaussian": gaussian_units,
    "sign": sign_units,
}


@pytest.mark.parametrize("d", [1, 3, 11])
@pytest.mark.parametrize("activation", EXPECTED)
def test_kitchen_sinks_have_their_kernel_in_expectation(activation, d):
    X = points(6, d)
    if activation == "sign":
        X = X[np.linalg.norm(X, axis=1) > 0]
    truth = EXPECTED[activation](X)
    if activation == "sign" and d == 1:
        truth = np.sign(X) @ np.sign(X).T
    for rows in ("iid", "orthogonal"):
        features = (KitchenSinkFeatures(activation, 32, rows=rows, random_state=s).fit(X) for s in range(200))
        assert_unbiased(np.array([f.transform(X) @ f.transform(X).T for f in features]), truth, delta=1e-8)


def test_bias_is_one_more_column():
    X = points(5, 3)
    wide = np.hstack([X, np.full((5, 1), 0.7)])
    features = (KitchenSinkFeatures("relu", 32, rows="iid", bias=0.7, random_state=s).fit(X) for s in range(300))
    assert_unbiased(np.array([f.transform(X) @ f.transform(X).T for f in features]), ArcCosine(1)(wide), delta=1e-8)


def test_a_callable_is_an_activation_and_sparse_rows_are_taken():
    X = scipy.sparse.random(10, 6, 0.5, random_state=0, format="csr")
    features = KitchenSinkFeatures(np.tanh, 8, length_scale=2.0, random_state=0).fit(X)
    A = features.feature_map_.rows(X.toarray())
    np.testing.assert_allclose(features.transform(X), np.tanh(A) / np.sqrt(8), rtol=1e-12)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"activation": "tanh"}, "activation must be one of"),
        ({"bias": -1.0}, "bias"),
        ({"rows": "laplace"}, "rows"),
        ({"length_scale": 0.0}, "length_scale"),
        ({"activation": lambda a: a.sum()}, "keep the shape"),
    ],
)
def test_bad_kitchen_sinks(params, message):
    with pytest.raises(ValueError, match=message):
        KitchenSinkFeatures(**params, n_components=5).fit_transform(np.ones((3, 2)))


def exact_mean(kernel, X, y, X_test, noise):
    return kernel(X_test, X) @ np.linalg.solve(kernel(X) + noise * np.eye(len(X)), y)


def test_kitchen_sinks_in_one_call_tend_to_the_exact_posterior_mean():
    rng = np.random.default_rng(0)
    X, X_test = rng.uniform(-2, 2, (60, 2)), rng.uniform(-2, 2, (30, 2))
    y = np.sin(2 * X[:, 0]) * X[:, 1]
    exact = exact_mean(RBF(1.0), X, y, X_test, 0.1)

    def error(n):
        fits = [kitchen_sinks(X, y, X_test, n, 0.1, kernel=RBF(1.0), random_state=s) for s in range(5)]
        return np.sqrt(np.mean([(fit - exact) ** 2 for fit in fits]))

    assert error(600) < 0.1
    # the noise means the same for any number of columns: no drift as they grow
    assert error(600) < 0.6 * error(50)
    two = kitchen_sinks(X, np.column_stack([y, -y]), X_test, 100, 0.1, random_state=0)
    np.testing.assert_allclose(two[:, 0], -two[:, 1], atol=1e-9)
    assert (
        kitchen_sinks(X.astype(np.float32), y, X_test.astype(np.float32), 50, 0.1, random_state=0).dtype == np.float32
    )


def test_kitchen_sinks_without_noise_interpolate():
    X = np.linspace(0, 3, 12)[:, None]
    y = np.cos(3 * X[:, 0])
    np.testing.assert_allclose(kitchen_sinks(X, y, X, 400, 0.0, kernel=RBF(0.3), random_state=0), y, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": -1.0}, "noise"),
        ({"noise": "small"}, "noise"),
        ({"n_components": 0}, "n_components"),
        ({"X_test": np.ones((2, 5))}, "features"),
        ({"y": np.ones(3)}, "inconsistent"),
        ({"kernel": Linear()}, "NystromFeatures"),
    ],
)
def test_bad_calls_of_kitchen_sinks(change, message):
    args = {"X": np.random.default_rng(0).normal(size=(10, 2)), "y": np.ones(10), "X_test": np.ones((2, 2))}
    with pytest.raises(ValueError, match=message):
        kitchen_sinks(**(args | change))


@pytest.mark.parametrize("method", ["omp", "jones", "frank_wolfe"])
@pytest.mark.parametrize("n_targets", [None, 1, 3])
def test_the_greedy_error_never_grows_and_is_below_that_of_the_theorem(method, n_targets):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (200, 2))
    W = rng.normal(size=(6, 2))
    weights = rng.normal(size=(6, n_targets or 1))
    y = np.cos(X @ W.T) @ weights
    # y lies in C times the convex hull of unit cosines; the search is not exhaustive, hence the 2
    C = np.linalg.norm(weights, axis=1).sum()
    radius = C if method == "frank_wolfe" else None
    y = y[:, 0] if n_targets is None else y
    fit = greedy_kitchen_sinks(X, y, 40, method=method, radius=radius, kernel=RBF(1.0), random_state=0)
    assert (np.diff(fit.errors) <= 1e-9).all()
    assert fit.weights.shape == (80, *y.shape[1:])
    assert (fit.errors <= 2.0 * C / np.sqrt(np.arange(1, 41) * (n_targets or 1))).all()
    assert fit.errors[-1] < 0.5 * np.sqrt(np.mean(y**2))  # and not because y is small
    np.testing.assert_allclose(np.sqrt(np.mean((fit.predict(X) - y) ** 2)), fit.errors[-1], rtol=1e-6, atol=1e-9)


def test_frank_wolfe_stays_in_its_ball():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 2))
    y = 5.0 * np.cos(X @ [1.0, 2.0]) + rng.normal(size=150)
    for radius in (0.5, 3.0, 50.0):
        fit = greedy_kitchen_sinks(X, y, 30, method="frank_wolfe", radius=radius, kernel=RBF(1.0), random_state=0)
        sizes = np.hypot(*fit.weights.reshape(-1, 2).T)
        assert sizes.sum() <= radius * (1 + 1e-12)
    assert sizes.sum() > 5.0
    for options in (
        {"method": "frank_wolfe"},
        {"method": "omp", "radius": 1.0},
        {"method": "frank_wolfe", "radius": -1},
    ):
        with pytest.raises(ValueError, match="radius"):
            greedy_kitchen_sinks(X, y, 2, **options)


@pytest.mark.parametrize("score", [_explained, _correlated])
@pytest.mark.parametrize("k", [1, 3])
def test_scores_of_frequencies_have_the_derivatives_they_say(score, k):
    rng = np.random.default_rng(2)
    phases, residual = rng.normal(size=(12, 2)), rng.normal(size=(12, k))
    slopes = score(phases, residual)[1]
    for i, j in ((0, 0), (5, 1)):
        step = np.zeros_like(phases)
        step[i, j] = 1e-6
        numeric = (score(phases + step, residual)[0] - score(phases - step, residual)[0])[j] / 2e-6
        np.testing.assert_allclose(slopes[i, j], numeric, rtol=1e-5, atol=1e-6)


# Binning


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("n_components", [7, 5000])
def test_random_binning_is_unbiased(d, n_components):
    X = points(6, d)
    features = (RandomBinningFeatures(n_components, n_grids=30, length_scale=2.0, random_state=s) for s in range(300))
    samples = np.array([(Z @ Z.T).toarray() for Z in (f.fit_transform(X) for f in features)])
    assert_unbiased(samples, Laplacian(2.0)(X), delta=1e-8)


def test_random_binning_is_sparse_and_takes_sparse_and_scales():
    X = np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 10.0, 0.1]
    features = RandomBinningFeatures(1000, n_grids=20, length_scale=[1.0, 10.0, 0.1], random_state=0).fit(X)
    Z = features.transform(X)
    assert scipy.sparse.isspmatrix_csr(Z)
    assert Z.getnnz(axis=1).max() <= 20
    np.testing.assert_array_equal(features.transform(scipy.sparse.csr_matrix(X)).toarray(), Z.toarray())
    features.dense_output = True
    np.testing.assert_array_equal(features.transform(X), Z.toarray())
    huge = features.transform(X * 1e30)
    assert np.isfinite(huge).all()


# χ²


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_additive_chi2_is_scikit_learns(steps, sparse, dtype):
    X = scipy.sparse.random(20, 7, 0.6, random_state=0, format="csr", dtype=dtype)
    X = X if sparse else X.toarray()
    ours = AdditiveChi2Features(steps).fit_transform(X)
    theirs = AdditiveChi2Sampler(sample_steps=steps).fit_transform(X)
    assert ours.dtype == dtype
    assert scipy.sparse.issparse(ours) == sparse
    ours, theirs = (Z.toarray() if sparse else Z for Z in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-7)


@pytest.mark.parametrize("n_components", [1, 9, 24])
def test_random_chi2_features_are_unbiased(n_components):
    X = np.abs(points(6, 3))
    features = (AdditiveChi2Features(n_components=n_components, random_state=s).fit(X) for s in range(600))
    assert_unbiased(np.array([f.transform(X) @ f.transform(X).T for f in features]), AdditiveChi2()(X), delta=1e-8)


def test_bad_chi2():
    X = np.ones((3, 2))
    with pytest.raises(ValueError, match="Negative"):
        AdditiveChi2Features().fit(-X)
    with pytest.raises(ValueError, match="Negative"):
        AdditiveChi2Features(n_components=4).fit(X).transform(-X)
    with pytest.raises(ValueError, match="sample_interval must be a positive number"):
        AdditiveChi2Features(5, sample_interval=-1.0).fit(X)
    assert AdditiveChi2Features(5, sample_interval=0.3).fit_transform(X).shape == (3, 18)


# Compact


@pytest.mark.parametrize("projection", ["srht", "gaussian", "sparse_sign", "count_sketch"])
def test_compact_features_are_unbiased(projection):
    X = points(5, 4, scale=0.7)
    inner = FourierFeatures(RBF(1.0), rows="iid")
    samples = []
    for s in range(300):
        Z = CompactFeatures(inner, 16, projection=projection, random_state=s).fit_transform(X)
        assert Z.shape == (5, 16)
        samples.append(Z @ Z.T)
    assert_unbiased(np.array(samples), RBF(1.0)(X), delta=1e-8)


def test_compact_features_go_around_any_transformer():
    X = np.random.default_rng(0).normal(size=(30, 4))
    foreign = RBFSampler(n_components=10, random_state=0)
    compact = CompactFeatures(foreign, 8, random_state=0).fit(X)
    assert compact.features_.n_components == 32
    assert foreign.n_components == 10
    assert compact.transform(X).shape == (30, 8)
    kept = CompactFeatures(foreign, 8, expansion=None, random_state=0).fit(X)
    assert kept.features_.n_components == 10
    sparse = CompactFeatures(RandomBinningFeatures(n_grids=8), 8, random_state=0)
    assert sparse.fit_transform(X).shape == (30, 8)
    with pytest.raises(ValueError, match="nothing to project"):
        CompactFeatures(foreign, 11, expansion=None).fit(X)
    with pytest.raises(ValueError, match="law must be"):
        CompactFeatures(foreign, 8, projection="pca").fit(X)


def test_compact_helps_the_published_algorithm():
    X = np.random.default_rng(0).uniform(size=(50, 10))
    kernel = Polynomial(2, gamma=1.0, coef0=0.0)
    K = kernel(X)
    published = MaclaurinFeatures(kernel, 64, allocation="geometric")

    def error(make):
        Z = [make(s).fit_transform(X) for s in range(20)]
        return np.sqrt(np.mean([np.mean((z @ z.T - K) ** 2) for z in Z]))

    alone = error(lambda s: MaclaurinFeatures(kernel, 64, allocation="geometric", random_state=s))
    assert error(lambda s: CompactFeatures(published, 64, random_state=s)) < 0.85 * alone


# Learned


def learned_objective(kind, circulant, n_components, sparse=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(23, 4))
    key = Key(1)
    law = ROW_LAWS["circulant" if circulant else "iid"]
    drawn = law.sample(4, -(-n_components // 2), key)
    frequencies = CirculantFrequencies.of(drawn) if circulant else DenseFrequencies.of(drawn)
    classes = np.eye(3)[rng.integers(0, 3, 23)]
    Y = rng.normal(size=(23, 2)) if kind is SquaredObjective else classes
    return kind(frequencies, scipy.sparse.csr_matrix(X) if sparse else X, Y, n_components, 0.3, 0.5)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_components", [1, 6, 13])
@pytest.mark.parametrize("circulant", [False, True])
@pytest.mark.parametrize("kind", [SquaredObjective, LogObjective])
def test_gradients_are_exact(kind, circulant, n_components, sparse):
    objective = learned_objective(kind, circulant, n_components, sparse)
    theta = objective.start() + 0.1 * np.random.default_rng(1).normal(size=len(objective.start()))
    gradient = objective(theta)[1]
    numeric = scipy.optimize.approx_fprime(theta, lambda t: objective(t)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-6)


def test_the_squared_loss_is_that_of_ridge_on_the_features():
    objective = learned_objective(SquaredObjective, False, 7)
    rng = np.random.default_rng(0)
    features = LearnedFeatures(RBF(1.0), 7, max_iter=3, alpha=0.5, random_state=0)
    X, y = objective.X, rng.normal(size=len(objective.X))
    Z = features.fit(X, y).transform(X)
    centred = y - y.mean()
    a = np.linalg.solve(Z.T @ Z + 0.5 * np.eye(7), Z.T @ centred)
    loss = ((Z @ a - centred) ** 2).sum() + 0.5 * (a**2).sum()
    np.testing.assert_allclose(features.loss_curve_[-1], loss / (centred**2).sum(), rtol=1e-8)
    assert (np.diff(features.loss_curve_) <= 1e-12).all()


@pytest.mark.parametrize("alpha", [0.5, "loo"])
def test_models_take_features_that_are_sparse(alpha):
    """Block by block, as if they were dense; 8 bits or not, since equal entries are rounded up or down at random."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)).astype(np.float32)
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=2000)
    features = RandomBinningFeatures(128, n_grids=32, random_state=0)
    model = KernelRidge(features=features, alpha=alpha).fit(X, y)
    Z = features.fit_transform(X).toarray().astype(float)
    moved = model.predict(X) - Ridge(model.alpha_).fit(Z, y).predict(Z)
    assert np.linalg.norm(moved) <= 1e-3 + np.sqrt(rounding_squares(model.statistics_, model.alpha_).sum())


@pytest.mark.parametrize("sparse", [False, True])
def test_chosen_frequencies_are_those_that_go_best_with_the_targets(sparse):
    rng = np.random.default_rng(0)
    X, Y, W = rng.normal(size=(300, 5)), rng.normal(size=(300, 2)) + 9.0, rng.normal(size=(40, 5))
    X[rng.random(X.shape) < 0.5] = 0.0
    chosen = frequencies_for_targets(Dense(W), scipy.sparse.csr_matrix(X) if sparse else X, Y, 7)
    sizes = (np.abs(np.exp(-1j * W @ X.T) @ (Y - Y.mean(axis=0))) ** 2).sum(axis=1)
    np.testing.assert_array_equal(chosen.to_dense(), W[np.sort(np.argsort(sizes)[-7:])])


def test_chosen_frequencies_do_with_fewer_columns():
    """A model asks for the targets where features want them; half the columns do what random ones do, and better."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = np.sin(1.5 * X[:, 0] + X[:, 1]) + 0.05 * rng.normal(size=3000)

    def error(features, seed):
        model = KernelRidge(RBF(1.5), features=features, alpha=0.1, random_state=seed).fit(X[:2000], y[:2000])
        return np.mean((model.predict(X[2000:]) - y[2000:]) ** 2)

    kinds = (
        lambda seed: FourierFeatures(RBF(1.5), 128, random_state=seed),
        lambda seed: LearnedFeatures(RBF(1.5), 64, n_candidates=8, max_iter=0, random_state=seed),
    )
    drawn, chosen = (np.array([error(kind(seed), seed) for seed in range(12)]) for kind in kinds)
    labels = np.digitize(y, [-0.5, 0.5])
    for loss in ("squared", "log_loss"):  # of three classes, of which features see one column or three
        classifier = KernelClassifier(RBF(1.5), features=kinds[1](0), loss=loss).fit(X[:2000], labels[:2000])
        assert classifier.score(X[2000:], labels[2000:]) > 0.6  # by chance: 0.38
    with pytest.raises(ValueError, match="requires y"):
        KernelPCA(2, features=kinds[1](0)).fit(X)
    assert (drawn - chosen).mean() > 3.0 * (drawn - chosen).std(ddof=1) / np.sqrt(12)


def test_units_of_targets_do_not_choose():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(500, 3)), rng.normal(size=(500, 2))
    features = LearnedFeatures(RBF(1.0), 20, n_candidates=4, max_iter=0, loss="squared", random_state=0)
    first, second = (clone(features).fit(X, Y * units).feature_map_ for units in ([1.0, 1.0], [1e-200, 1e200]))
    np.testing.assert_array_equal(first.frequencies.to_dense(), second.frequencies.to_dense())
    assert features.fit(X, Y).n_iter_ == 0
    assert features.loss_curve_.shape == (0,)


@pytest.mark.parametrize("circulant", [False, True])
def test_learned_features_beat_random_ones_on_new_data(circulant):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 8))
    y = np.sin(1.5 * X[:, 0] + X[:, 1]) + 0.05 * rng.normal(size=1500)
    train, test = slice(0, 1000), slice(1000, None)

    def error(features):
        Z = features.fit(X[train], y[train]).transform(X[train])
        a = np.linalg.solve(Z.T @ Z + 0.1 * np.eye(16), Z.T @ y[train])
        return np.mean((features.transform(X[test]) @ a - y[test]) ** 2)

    learned = error(LearnedFeatures(n_components=16, circulant=circulant, random_state=0))
    assert learned < 0.7 * error(FourierFeatures(n_components=16, random_state=0))


def test_learned_features_for_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.where(np.sin(3 * X[:, 0]) > 0, "in", "out")
    features = LearnedFeatures(n_components=12, alpha=0.01, random_state=0).fit(X, y)
    assert features.loss_curve_[-1] < 0.6 * features.loss_curve_[0]


@pytest.mark.parametrize(
    ("params", "y", "message"),
    [
        ({"alpha": 0.0}, np.arange(6) / 7, "alpha"),
        ({"loss": "hinge"}, np.arange(6) / 7, "loss"),
        ({"kernel": Linear()}, np.arange(6) / 7, "stationary"),
        ({}, np.zeros(6, int), "one class"),
        ({}, None, "requires y"),
        ({"loss": "squared"}, np.array(list("ababab")), "numbers"),
        ({"n_candidates": 0}, np.arange(6) / 7, "n_candidates"),
        ({"max_iter": -1}, np.arange(6) / 7, "max_iter"),
        ({"circulant": True, "n_candidates": 2}, np.arange(6) / 7, "n_candidates=1"),
        ({"circulant": True, "kernel": RBF(1.0) + Matern(1.0)}, np.arange(6) / 7, "circulant"),
        ({"circulant": True, "kernel": Laplacian(1.0)}, np.arange(6) / 7, "rotation-invariant"),
    ],
)
def test_bad_learned_features(params, y, message):
    X = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(ValueError, match=message):
        LearnedFeatures(n_components=4, **params).fit(X, y)


# What the benchmarks and examples say


@pytest.mark.parametrize("name", ["usps", "letter"])
def test_the_order_of_the_methods_on_real_data(name):
    if datasets.folder() is None:
        pytest.skip("needs BOCHNER_DATA")
    X = datasets.load(name).X
    X = X[np.random.default_rng(0).choice(len(X), 400, replace=False)].astype(float)
    span = np.ptp(X, axis=0)
    X = (X - X.min(axis=0)) / np.where(span > 0, span, 1.0)
    kernel, D = Polynomial(2, gamma=1.0, coef0=0.0), 128
    K = kernel(X)

    def error(make):
        Z = [make(s).fit_transform(X) for s in range(20)]
        return np.mean([np.linalg.norm(z @ z.T - K) for z in Z])

    def published(s):
        return MaclaurinFeatures(kernel, D, allocation="geometric", random_state=s)

    errors = [
        error(published),
        error(lambda s: CompactFeatures(published(s), D, random_state=s)),
        error(lambda s: PolynomialCountSketch(degree=2, n_components=D, random_state=s)),
    ]
    assert errors[0] > errors[1] > errors[2]
    assert error(lambda s: TensorSketchFeatures(kernel, D, direction="ones", random_state=s)) < 0.85 * errors[2]
    assert error(lambda s: MaclaurinFeatures(kernel, D, random_state=s)) < 0.7 * errors[2]
