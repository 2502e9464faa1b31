"""Kernel PCA and k-means against their exact counterparts; the two-sample test's size and power."""

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import binom, kstest
from sklearn.cluster import KMeans
from sklearn.decomposition import KernelPCA as ExactPCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

from bochner import RBF, KernelKMeans, KernelPCA, Linear, Matern, NystromFeatures, Polynomial, exact_mmd, mmd_test
from bochner.data.arrow import ArrowSource
from bochner.data.sources import ArraySource


def rings(n=300, seed=0):
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.repeat([0.5, 3.0], n // 2)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + 0.05 * rng.normal(size=X.shape)


# -- components --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_components_are_those_of_exact_kernel_pca(features):
    X = rings()
    X_new = rings(seed=1)[::7]
    exact = ExactPCA(4, kernel="rbf", gamma=0.5 / 1.3**2).fit(X)
    columns = 300 if features == "nystrom" else 1000
    ours = KernelPCA(4, kernel=RBF(1.3), n_feature_components=columns, features=features, random_state=0).fit(X)
    # 500 frequencies approximate entries of the kernel to 1 / sqrt(1,000), and large eigenvalues to some per cent
    np.testing.assert_allclose(ours.eigenvalues_, exact.eigenvalues_, rtol=1e-5 if features == "nystrom" else 0.2)
    if features == "nystrom":
        truth, found = exact.transform(X_new), ours.transform(X_new)
        # near-equal eigenvalues of a ring leave a rotation free: compare the kernels the components span
        np.testing.assert_allclose(found @ found.T, truth @ truth.T, atol=1e-3)
    T = ours.transform(X)
    np.testing.assert_allclose(T.mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(T.T @ T, np.diag(ours.eigenvalues_), atol=1e-6 * ours.eigenvalues_[0])
    assert (np.diff(ours.explained_variance_ratio_) <= 0).all()
    assert ours.explained_variance_ratio_.sum() <= 1.0


def test_components_from_parts_and_sources():
    X = rings()
    options = {"kernel": RBF(1.3), "n_feature_components": 40, "features": "fourier", "random_state": 0}
    whole = KernelPCA(3, **options).fit(X)
    parts = KernelPCA(3, **options).partial_fit(X[:50]).partial_fit(X[50:])
    source = KernelPCA(3, block_size=37, **options).fit(ArraySource(X))
    sparse = KernelPCA(3, **options).fit(scipy.sparse.csr_matrix(X))
    for other in (parts, source, sparse):
        np.testing.assert_allclose(other.eigenvalues_, whole.eigenvalues_, rtol=1e-9)
        np.testing.assert_allclose(np.abs(other.transform(X)), np.abs(whole.transform(X)), atol=1e-6)
    for other in (source, sparse):
        np.testing.assert_allclose(other.transform(X), whole.transform(X), atol=1e-6)
    assert parts.n_samples_seen_ == 300
    with pytest.raises(ValueError, match="expecting 2 features"):
        parts.partial_fit(np.zeros((3, 5)))


def lopsided(n=80):
    """Rows whose leading components have eigenvalues far apart and ends that differ."""
    return np.random.default_rng(0).exponential(size=(n, 3)) * [4.0, 2.0, 1.0]


def grid(n=80):
    """Rows that are symmetric: both ends of most components are as far from zero."""
    return np.linspace(-3.0, 3.0, n)[:, None] * [1.0, 0.4]


@pytest.mark.parametrize("kernel", [RBF(4.0), Linear(), Polynomial(2)], ids=["rbf", "linear", "polynomial"])
@pytest.mark.parametrize("rows", [lopsided, grid])
def test_signs_do_not_depend_on_seed_order_type_or_place(kernel, rows):
    pd = pytest.importorskip("pandas")
    X = rows()
    names = [f"x{j}" for j in range(X.shape[1])]
    order = np.random.default_rng(1).permutation(len(X))
    T = KernelPCA(2, kernel=kernel, random_state=0).fit_transform(X)
    tolerance = {"rtol": 0, "atol": 1e-5 * np.abs(T).max()}
    for seed in range(1, 4):
        other = KernelPCA(2, kernel=kernel, n_feature_components=100 * seed, block_size=30, random_state=seed)
        np.testing.assert_allclose(other.fit_transform(X), T, **tolerance)
        np.testing.assert_allclose(other.fit(X[order]).transform(X), T, **tolerance)
    model = KernelPCA(2, kernel=kernel, random_state=0)
    np.testing.assert_allclose(model.fit_transform(pd.DataFrame(X, columns=names)), T, **tolerance)
    np.testing.assert_allclose(model.fit(scipy.sparse.csr_matrix(X)).transform(X), T, **tolerance)
    single = model.fit_transform(X.astype(np.float32))
    assert np.linalg.norm(single - T) < 1e-2 * np.linalg.norm(T)
    # rows of weight zero are no rows
    far = np.vstack([X, -50.0 * X[:5]])
    weighted = KernelPCA(2, kernel=kernel, n_feature_components=len(far), random_state=0)
    weighted.fit(far, sample_weight=np.repeat([1.0, 0.0], [len(X), 5]))
    assert np.linalg.norm(weighted.transform(X) - T) < 1e-2 * np.linalg.norm(T)


def test_signs_are_those_of_scikit_learn():
    X = lopsided()
    exact = ExactPCA(3, kernel="rbf", gamma=0.5 / 4.0**2).fit(X)
    ours = KernelPCA(3, kernel=RBF(4.0), random_state=0).fit(X)
    np.testing.assert_allclose(ours.transform(X[::3]), exact.transform(X[::3]), atol=1e-5)
    for seed in range(5):
        fourier = KernelPCA(2, kernel=RBF(4.0), features="fourier", random_state=seed).fit_transform(X)
        assert (np.einsum("ij,ij->j", fourier, exact.transform(X)[:, :2]) > 0).all()


def test_signs_stay_when_rows_are_added():
    X = lopsided(600)
    model = KernelPCA(3, kernel=RBF(4.0), n_feature_components=60, random_state=0).partial_fit(X[:60])
    before = model.transform(X)
    for start in range(60, 600, 60):
        after = model.partial_fit(X[start : start + 60]).transform(X)
        assert (np.einsum("ij,ij->j", before, after) > 0).all()
        before = after
    again = KernelPCA(3, kernel=RBF(4.0), n_feature_components=60, random_state=0).fit(X)
    np.testing.assert_allclose(np.abs(again.eigenvalues_), model.eigenvalues_, rtol=0.1)


def test_the_way_back():
    X = rings()
    model = KernelPCA(8, kernel=RBF(1.3), n_feature_components=150, fit_inverse_transform=True, random_state=0).fit(X)
    back = model.inverse_transform(model.transform(X))
    assert back.shape == X.shape
    assert ((back - X) ** 2).sum() < 0.02 * ((X - X.mean(axis=0)) ** 2).sum()
    with pytest.raises(NotFittedError, match="fit_inverse_transform=True"):
        KernelPCA(2, n_feature_components=20, random_state=0).fit(X).inverse_transform(np.zeros((1, 2)))
    precomputed = KernelPCA(2, features=NystromFeatures("precomputed", 20), fit_inverse_transform=True)
    with pytest.raises(ValueError, match="Cannot fit_inverse_transform with a precomputed kernel"):
        precomputed.fit(RBF(1.3)(X))


def test_more_components_than_directions_are_zero():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    model = KernelPCA(5, n_feature_components=6, random_state=0).fit(X)
    T = model.transform(X)
    assert T.shape == (20, 5)
    np.testing.assert_allclose(T[:, 1:], 0.0, atol=1e-6)
    assert model.eigenvalues_[0] > 0
    np.testing.assert_allclose(KernelPCA(2, random_state=0).fit(X[:10]).transform(X[:10]), 0.0, atol=1e-6)
    with pytest.raises(NotFittedError):
        KernelPCA().transform(X)
    with pytest.raises(ValueError, match="n_feature_components must be"):
        KernelPCA(n_feature_components=0).fit(X)


# -- clusters ----------------------------------------------------------------------------------------------------


def test_rings_come_apart_where_linear_clusters_do_not():
    X = rings(400)
    truth = np.repeat([0, 1], 200)
    linear = KMeans(2, n_init=5, random_state=0).fit_predict(X)
    model = KernelKMeans(2, kernel=RBF(1.2), n_components=100, random_state=0).fit(X)
    assert adjusted_rand_score(truth, model.labels_) == 1.0
    assert adjusted_rand_score(truth, linear) < 0.5
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.transform(X).argmin(axis=1), model.labels_)
    np.testing.assert_allclose((model.transform(X).min(axis=1) ** 2).sum(), model.inertia_, rtol=1e-9)


def test_clusters_are_a_fixed_point_of_the_exact_algorithm():
    """With all rows as landmarks, every row is nearest to the mean of its own cluster in the exact kernel."""
    X = np.random.default_rng(0).normal(size=(150, 3))
    kernel = Matern(1.5)
    model = KernelKMeans(4, kernel=kernel, n_components=150, solver_tol=0.0, block_size=64, random_state=0).fit(X)
    K = kernel(X)
    members = (model.labels_[:, None] == np.arange(4)) / np.bincount(model.labels_, minlength=4)
    squares = K.diagonal()[:, None] - 2.0 * K @ members + np.einsum("ij,ij->j", members, K @ members)
    np.testing.assert_array_equal(squares.argmin(axis=1), model.labels_)
    np.testing.assert_allclose(squares.min(axis=1).sum(), model.inertia_, rtol=1e-6)


def test_frames_have_names_and_frames_come_back():
    """Warnings are errors here."""
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rings(100), columns=["a", "b"])
    model = KernelKMeans(2, kernel=RBF(1.2), n_components=50, random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert isinstance(model.transform(X), np.ndarray)
    model.set_output(transform="pandas")
    assert list(model.transform(X).columns) == ["kernelkmeans0", "kernelkmeans1"]
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.predict(X).dtype == np.int32
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"a": "c"}))


@pytest.mark.parametrize("model", [KernelPCA(1, n_feature_components=5), KernelKMeans(2, n_components=5)])
def test_a_source_names_the_columns(model):
    arrow = pytest.importorskip("pyarrow")
    X = np.random.default_rng(0).normal(size=(30, 2))
    model.set_params(kernel=RBF(1.0), random_state=0).fit(ArrowSource(arrow.table({"a": X[:, 0], "b": X[:, 1]})))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(model.fit(ArraySource(X)), "feature_names_in_")


def test_bad_clusters():
    X = rings()
    with pytest.raises(ValueError, match="at least n_clusters"):
        KernelKMeans(20).fit(X[:5])
    with pytest.raises(ValueError, match="n_clusters must be"):
        KernelKMeans(0).fit(X)
    assert len(set(KernelKMeans(2, n_components=10, random_state=0).fit(np.zeros((10, 2)) + X[:10]).labels_)) == 2
    none = np.where(np.arange(len(X)) % 3, 1.0, 0.0)  # a third of the rows are no rows, and have labels all the same
    weighted = KernelKMeans(2, kernel=RBF(2.0), n_components=50, random_state=0).fit(X, sample_weight=none)
    np.testing.assert_array_equal(weighted.labels_, weighted.predict(X))
    weighted = KernelKMeans(2, kernel=RBF(2.0), n_components=50, random_state=0).fit(X, sample_weight=np.ones(len(X)))
    assert weighted.inertia_ > 0


# -- two samples -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["permutation", "asymptotic"])
def test_the_test_has_its_size(method):
    """Under one law p-values are uniform: their share below 0.1 and their law, within bounds that fail once in 1e6."""
    rng = np.random.default_rng(0)
    options = {"kernel": RBF(2.0), "n_components": 16, "method": method, "n_permutations": 99}
    p = np.array(
        [
            mmd_test(rng.normal(size=(60, 2)), rng.normal(size=(90, 2)), random_state=seed, **options).p_value
            for seed in range(200)
        ]
    )
    assert binom.ppf(5e-7, 200, 0.1) - 1 <= (p <= 0.1).sum() <= binom.isf(5e-7, 200, 0.1) + 1
    assert kstest(p, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("method", ["permutation", "asymptotic"])
@pytest.mark.parametrize("features", ["fourier", "nystrom"])
def test_the_test_has_power(method, features):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(400, 3)), rng.normal(size=(300, 3)) * [1.0, 1.0, 1.8]
    found = mmd_test(X, Y, n_components=100, features=features, method=method, random_state=0)
    assert found.method == method
    assert found.p_value < 0.01
    assert found.kernel.length_scale > 0
    sparse = mmd_test(scipy.sparse.csr_matrix(X), Y, n_components=100, features=features, method=method, random_state=0)
    assert sparse.p_value < 0.01


def test_the_statistic_is_the_discrepancy():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(80, 2)), rng.normal(size=(50, 2)) + 0.5
    truth = exact_mmd(RBF(1.0), X, Y)
    for method in ("permutation", "asymptotic"):
        found = mmd_test(X, Y, RBF(1.0), 130, features="nystrom", method=method, random_state=0)
        np.testing.assert_allclose(found.statistic, truth, rtol=1e-4)
    assert mmd_test(X, X, RBF(1.0), 64, random_state=0).statistic == pytest.approx(0.0, abs=1e-12)
    assert mmd_test(np.zeros((5, 2)), np.zeros((6, 2)), RBF(1.0), 16, random_state=0).p_value == 1.0


def test_bad_samples():
    X = np.zeros((5, 2))
    with pytest.raises(ValueError, match="same columns"):
        mmd_test(X, np.zeros((5, 3)))
    with pytest.raises(ValueError, match="method must be"):
        mmd_test(X, X, method="guess")
    with pytest.raises(ValueError, match="minimum of 2"):
        mmd_test(X[:1], X)
    with pytest.raises(ValueError, match="NaN"):
        mmd_test(X, X + np.nan)
