import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from bochner import RBF, FourierFeatures, Laplacian, Linear, Matern
from bochner.backends import limit_threads, n_cores, n_threads
from bochner.sampling import ROW_LAWS
from laws import COMPOSITE_KERNELS, RADIAL_KERNELS, points


@pytest.mark.parametrize("n_components", [1, 2, 3, 7, 64, 101])
@pytest.mark.parametrize("form", ["pairs", "offset", "complex"])
def test_columns_are_honoured_exactly(n_components, form):
    X = points(5, 3)
    Z = FourierFeatures(RBF(1.0), n_components, form=form, random_state=0).fit_transform(X)
    assert Z.shape == (5, n_components)
    assert np.iscomplexobj(Z) == (form == "complex")


@pytest.mark.parametrize("rows", ROW_LAWS)
@pytest.mark.parametrize("d", [2, 11, 70])
def test_features_are_the_formula(rows, d):
    """cos and sin of the frequencies that `frequencies()` shows, times sqrt(2 / n_components)."""
    X = points(6, d)
    features = FourierFeatures(RBF(1.5), 26, rows=rows, random_state=1).fit(X)
    A = X @ features.frequencies().T
    Z = np.empty((6, 26))
    Z[:, 0::2], Z[:, 1::2] = np.cos(A), np.sin(A)
    np.testing.assert_allclose(features.transform(X), Z * np.sqrt(2 / 26), atol=1e-6)


@pytest.mark.parametrize("kernel", RADIAL_KERNELS | COMPOSITE_KERNELS)
def test_pairs_have_unit_rows_times_the_amplitude(kernel):
    kernel = (RADIAL_KERNELS | COMPOSITE_KERNELS)[kernel]
    X = points(5, 3)
    Z = FourierFeatures(kernel, 40, random_state=0).fit_transform(X)
    np.testing.assert_allclose((Z**2).sum(axis=1), kernel.diagonal(X), rtol=1e-6)


def test_more_components_extend_the_same_draw():
    X = points(5, 3)
    few, many = (FourierFeatures(RBF(1.0), n, rows="structured", random_state=3).fit(X) for n in (10, 50))
    np.testing.assert_allclose(
        few.transform(X) / np.sqrt(2 / 10), many.transform(X)[:, :10] / np.sqrt(2 / 50), atol=1e-12
    )


@pytest.mark.parametrize("rows", ROW_LAWS)
def test_same_features_for_any_batch_dtype_and_layout(rows):
    X = points(40, 9)
    features = FourierFeatures(Matern(2.0), 33, rows=rows, random_state=0).fit(X)
    Z = features.transform(X)
    np.testing.assert_allclose(np.vstack([features.transform(x[None]) for x in X]), Z, atol=1e-7)
    np.testing.assert_allclose(features.transform(np.asfortranarray(X)), Z, atol=1e-12)
    np.testing.assert_allclose(features.transform(scipy.sparse.csr_matrix(X)), Z, atol=1e-12)
    np.testing.assert_allclose(features.transform(X[::-1]), Z[::-1], atol=1e-12)
    np.testing.assert_allclose(clone(features).fit(X.astype(np.float32)).transform(X), Z, atol=2e-4)
    Z32 = features.transform(X.astype(np.float32))
    assert Z32.dtype == np.float32
    np.testing.assert_allclose(Z32, Z, atol=2e-4)  # Matérn phases reach the hundreds: float32 keeps 1e-7 of them


def test_the_map_itself_needs_no_validation():
    X = points(8, 4)
    features = FourierFeatures(random_state=0).fit(X)
    np.testing.assert_array_equal(features.feature_map_(X), features.transform(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(features.feature_map_))(X), features.transform(X))


def test_rows_auto_says_what_it_chose():
    for d, n_components, expected in (
        (2, 256, "quasi"),
        (20, 256, "orthogonal"),
        (40, 256, "structured"),
        (500, 256, "structured"),
    ):
        X = points(6, d)
        assert FourierFeatures(RBF(1.0), n_components, random_state=0).fit(X).rows_ == expected
    assert FourierFeatures(Laplacian(1.0), random_state=0).fit(points(4, 100)).rows_ == "iid"


def test_kernel_by_name_takes_the_median_and_leaves_parameters_alone():
    X = points(50, 3)
    features = FourierFeatures("matern52", random_state=0).fit(X)
    assert features.kernel == "matern52"
    assert features.kernel_.length_scale == Matern("median").resolve(X).length_scale


def test_storage_of_structured_maps():
    """Published: the map is d/4 times smaller than the dense float32 matrix."""
    d, T = 1024, 16384
    features = FourierFeatures(RBF(1.0), 2 * T, rows="structured", random_state=0).fit(np.zeros((2, d), np.float32))
    assert len(pickle.dumps(features.feature_map_)) <= 4 * d * T / (d / 4)
    features = FourierFeatures(RBF(1.0), 2 * T, rows="fastfood", random_state=0).fit(np.zeros((2, d), np.float32))
    assert len(pickle.dumps(features.feature_map_)) <= 4 * d * T / (d / 4)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_in_and_out(library):
    frames = pytest.importorskip(library)
    X = frames.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.5, 0.0]})
    features = FourierFeatures(n_components=4, random_state=0).set_output(transform=library)
    Z = features.fit_transform(X)
    assert isinstance(Z, frames.DataFrame)
    assert list(Z.columns) == ["fourierfeatures0", "fourierfeatures1", "fourierfeatures2", "fourierfeatures3"]
    assert list(features.feature_names_in_) == ["a", "b"]


def test_pipelines_and_grid_search_reach_the_kernel():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(200, 1))
    y = np.sin(2 * X[:, 0])
    model = make_pipeline(FourierFeatures(RBF(1.0), 100, random_state=0), Ridge(1e-3))
    grid = {"fourierfeatures__kernel__length_scale": [0.01, 0.5], "fourierfeatures__rows": ["iid", "orthogonal"]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_params_["fourierfeatures__kernel__length_scale"] == 0.5
    assert search.best_score_ > 0.99


def test_read_only_memmap(tmp_path):
    X = points(20, 3)
    X.tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", mode="r", dtype=float, shape=(20, 3))
    features = FourierFeatures(n_components=6, random_state=0)
    np.testing.assert_array_equal(features.fit_transform(mapped), clone(features).fit_transform(X))


def test_integers_and_explicit_zeros():
    X = np.array([[0, 1], [2, 3], [4, 0]])
    features = FourierFeatures(RBF(2.0), 8, random_state=0)
    Z = features.fit_transform(X)
    assert Z.dtype == np.float64
    S = scipy.sparse.csr_matrix((X.ravel().astype(float), np.tile([0, 1], 3), [0, 2, 4, 6]), shape=(3, 2))
    assert S.nnz == 6
    np.testing.assert_allclose(features.transform(S), Z, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", ["auto", "structured", "fastfood", "iid"])
def test_huge_and_tiny_scales_change_nothing(scale, dtype, rows):
    """The median length scale scales with the data, and so features do not."""
    X = points(30, 4).astype(dtype)
    Z = FourierFeatures(RBF(1.0), 20, rows=rows, random_state=0).fit_transform(X)
    scaled = FourierFeatures(RBF(scale), 20, rows=rows, random_state=0).fit_transform((X * dtype(scale)).astype(dtype))
    np.testing.assert_allclose(scaled, Z, atol=200 * np.finfo(dtype).eps)
    by_median = FourierFeatures(n_components=20, rows=rows, random_state=0).fit_transform(X * dtype(scale))
    same = FourierFeatures(n_components=20, rows=rows, random_state=0).fit_transform(X)
    np.testing.assert_allclose(by_median, same, atol=200 * np.finfo(dtype).eps)


def test_heavy_tails_stay_finite():
    """Exponential kernels have frequencies without a mean: huge phases must still give sines and cosines."""
    X = (1e4 * points(20, 3)).astype(np.float32)
    Z = FourierFeatures("exponential", 4096, rows="structured", random_state=0).fit_transform(X)
    assert np.isfinite(Z).all()
    Z = FourierFeatures(Matern(1e-6, nu=0.3), 4096, random_state=0).fit_transform(X)
    assert np.isfinite(Z).all()


def test_duplicate_and_constant_rows():
    X = np.ones((10, 3))
    Z = FourierFeatures(n_components=9, random_state=0).fit_transform(X)
    assert np.isfinite(Z).all()
    np.testing.assert_array_equal(Z, Z[:1].repeat(10, axis=0))


def test_one_row_and_many_components():
    Z = FourierFeatures(n_components=500, random_state=0).fit_transform([[1.0, 2.0]])
    assert Z.shape == (1, 500)


def test_threads():
    X = points(3000, 20)
    features = FourierFeatures(n_components=128, rows="structured", random_state=0).fit(X)
    results = [clone(features).set_params(n_jobs=jobs).fit(X).transform(X) for jobs in (1, 2, 7, -1, None)]
    for Z in results[1:]:
        np.testing.assert_array_equal(Z, results[0])
    with limit_threads(3):
        assert n_threads() == 3
        with limit_threads(-1):
            assert n_threads() == n_cores()
        assert n_threads() == 3
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        features.set_params(n_jobs=0).transform(X)


def bad_value(value):
    X = points(5, 2)
    X[1, 1] = value
    return X


BAD = [
    (lambda: FourierFeatures(n_components=0).fit(points(4, 2)), "n_components must be a positive integer, got 0"),
    (lambda: FourierFeatures(n_components=2.5).fit(points(4, 2)), "n_components must be a positive integer, got 2.5"),
    (lambda: FourierFeatures(n_components=True).fit(points(4, 2)), "n_components must be a positive integer, got True"),
    (lambda: FourierFeatures(form="sine").fit(points(4, 2)), "form must be one of 'pairs', 'offset', 'complex'"),
    (lambda: FourierFeatures(rows="sorf").fit(points(4, 2)), "rows must be 'auto', a RowLaw or one of"),
    (lambda: FourierFeatures(RBF(-1.0)).fit(points(4, 2)), "length_scale must be positive"),
    (lambda: FourierFeatures(RBF([1.0, 2.0, 3.0])).fit(points(4, 2)), "3 values but the data has 2 features"),
    (lambda: FourierFeatures(Linear()).fit(points(4, 2)), "need a stationary kernel"),
    (lambda: FourierFeatures(lambda x, y: 1.0).fit(points(4, 2)), "need a stationary kernel"),
    (lambda: FourierFeatures(Laplacian(1.0), rows="structured").fit(points(4, 2)), "Use rows='iid' or rows='quasi'"),
    (lambda: FourierFeatures(random_state=-3).fit(points(4, 2)), "random_state must be"),
    (lambda: FourierFeatures().fit(bad_value(np.nan)), "NaN"),
    (lambda: FourierFeatures().fit(bad_value(np.inf)), "infinity"),
    (lambda: FourierFeatures().fit(np.empty((0, 2))), "0 sample"),
    (lambda: FourierFeatures().fit(np.empty((3, 0))), "0 feature"),
    (lambda: FourierFeatures().fit([["a", "b"]]), "holds text, such as"),
    (lambda: FourierFeatures().fit([1.0, 2.0]), "Expected 2D array"),
    (lambda: FourierFeatures().fit(points(4, 2)).transform(points(4, 3)), "X has 3 features, but FourierFeatures"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[m for _, m in BAD])
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_unfitted():
    for call in (lambda f: f.transform([[0.0]]), lambda f: f.frequencies()):
        with pytest.raises(NotFittedError):
            call(FourierFeatures())
