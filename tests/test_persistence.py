"""Files give back what was saved, to the last bit, for everything in the registries."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.decomposition import PCA

import bochner
from bochner.draws.keys import Key
from bochner.draws.linear_maps import LinearMap
from bochner.features.fourier import fourier_map
from bochner.persistence import containers
from bochner.persistence.codecs import classes
from bochner.persistence.containers import read
from bochner.ridge.statistics import pack_upper, unpack_upper
from bochner.sampling import ROW_LAWS
from laws import ESTIMATORS, KERNELS, LINEAR_MAPS, MIXTURES, TABLES

OUTPUTS = ("transform", "predict", "predict_proba", "decision_function")


def rows(n=80, d=5, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).uniform(0.05, 1.0, size=(n, d)).astype(dtype)


def labels(X):
    return np.where(X[:, 0] > 0.6, "high", np.where(X[:, 1] > 0.5, "middle", "low"))


def targets(estimator, X):
    if type(estimator).__name__ == "KernelClassifier":
        return labels(X)
    return X[:, 0] + np.sin(5.0 * X[:, 1])


def outputs(estimator, X):
    found = {name: getattr(estimator, name)(X) for name in OUTPUTS if hasattr(estimator, name)}
    if isinstance(estimator, bochner.GaussianProcessRegressor):
        found["std"] = estimator.predict(X, return_std=True)[1]
    return found


def assert_same(a, b):
    a, b = (A.toarray() if scipy.sparse.issparse(A) else np.asarray(A) for A in (a, b))
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


def round_trip(model, folder, **options):
    path = folder / "model.safetensors"
    bochner.save(model, path, **options)
    return bochner.load(path)


@pytest.mark.filterwarnings("ignore:Newton's method")
@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_every_estimator_round_trips(estimator, dtype, sums, tmp_path):
    X = rows(dtype=dtype)
    y = targets(estimator, X)
    model = clone(estimator).fit(X, y)
    again = round_trip(model, tmp_path, sums=sums)
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    new = rows(20, seed=1, dtype=dtype)
    before, after = outputs(model, new), outputs(again, new)
    assert before
    for name, value in before.items():
        assert_same(value, after[name])
    for name in ("component_weights_", "intercept_", "alpha_", "noise_variance_", "report_"):
        if hasattr(model, name):
            assert pickle.dumps(getattr(again, name)) == pickle.dumps(getattr(model, name)), name
    deployed = again if sums else round_trip(model, tmp_path, predict_only=True)
    for name, value in outputs(deployed, new).items():
        assert_same(value, before[name])
    if not hasattr(model, "partial_fit"):
        return
    more = rows(30, seed=2, dtype=dtype)
    if not sums:
        with pytest.raises(ValueError, match=r"keeps no sums to add to.*sums=True"):
            deployed.partial_fit(more, targets(estimator, more))
        with pytest.raises(ValueError, match=r"keeps no sums to add to.*sums=True"):
            again.partial_fit(more, targets(estimator, more))
        return
    model.partial_fit(more, targets(estimator, more))  # learning goes on as if nothing had happened
    again.partial_fit(more, targets(estimator, more))
    for name, value in outputs(model, new).items():
        assert_same(value, outputs(again, new)[name])


@pytest.mark.parametrize(
    "model",
    [
        bochner.KernelRidge(bochner.RBF(1.0), 40, alpha=0.1, random_state=0),
        bochner.KernelRidge(bochner.RBF(1.0), 40, random_state=0),
        bochner.GaussianProcessRegressor(bochner.RBF(1.0), 40, random_state=0),
        bochner.KernelClassifier(bochner.RBF(1.0), 40, loss="squared", alpha=0.1, random_state=0),
        bochner.KernelPCA(
            3, kernel=bochner.RBF(1.0), n_feature_components=30, fit_inverse_transform=True, random_state=0
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_learned_block_by_block_predicts_from_a_file_without_sums(model, tmp_path):
    X = rows()
    for part in (slice(0, 40), slice(40, 80)):
        model.partial_fit(X[part], targets(model, X)[part])
    before = {name: np.copy(value) for name, value in outputs(clone_of(model), X).items()}
    again = round_trip(model, tmp_path)  # before anyone has asked for its coefficients
    for name, value in before.items():
        assert_same(value, outputs(again, X)[name])


def clone_of(model):
    return pickle.loads(pickle.dumps(model))


def test_files_are_small_without_the_sums(tmp_path):
    X = rows(300, 64)
    features = bochner.FourierFeatures(bochner.RBF(2.0), 4096, rows="fastfood", random_state=0)
    model = bochner.KernelRidge(features=features, alpha=0.1).fit(X, X[:, 0])
    small, large = tmp_path / "small", tmp_path / "large"
    bochner.save(model, small)
    bochner.save(model, large, sums=True)
    assert small.stat().st_size < 200_000  # columns of coefficients and sums, and the map
    assert large.stat().st_size > 4096**2 / 2 * 8
    assert_same(bochner.load(small).predict(X), model.predict(X))
    assert bochner.load(small).n_samples_seen_ == 300
    assert model.statistics_.gram is not None  # the model itself has lost nothing


@pytest.mark.parametrize("kind", ["regression", "two targets", "log loss", "squared loss"])
@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_a_file_to_deploy_has_landmarks_and_a_weight_for_each(features, kind, tmp_path):
    X = rows(400, 6)
    y = {"regression": X[:, 0], "two targets": X[:, :2]}.get(kind, labels(X))
    options = {"features": features, "alpha": 0.1, "random_state": 0}
    losses = {"log loss": "log_loss", "squared loss": "squared"}
    if kind in losses:
        model = bochner.KernelClassifier(bochner.RBF(1.0), 128, loss=losses[kind], **options)
    else:
        model = bochner.KernelRidge(bochner.RBF(1.0), 128, **options)
    model.fit(X, y)
    path = tmp_path / "model"
    bochner.save(model, path, predict_only=True)
    again = bochner.load(path)
    for name, value in outputs(model, X).items():
        assert_same(value, outputs(again, X)[name])
    assert_same(again.predict_gradient(X[:5]), model.predict_gradient(X[:5]))
    numbers = sum(tensor.size for tensor in read(path)[1].values())
    scores = {"regression": 1, "two targets": 2}.get(kind, 3)
    assert numbers < 128 * (6 + scores) + 50
    bochner.save(again, path)  # and it can be saved again
    assert_same(bochner.load(path).predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore:Newton's method")
@pytest.mark.parametrize("estimator", [*ESTIMATORS, *MIXTURES], ids=repr)
def test_a_file_to_deploy_does_not_grow_with_the_rows(estimator, tmp_path):
    """Nothing in it is as long as the data, and twice the rows change only digits in its header and what was chosen."""
    path, sizes = tmp_path / "model", []
    for n in (300, 600):
        X = rows(n)
        bochner.save(clone(estimator).fit(X, targets(estimator, X)), path, predict_only=True)
        assert not [array.shape for array in read(path)[1].values() if n in array.shape]
        sizes.append(path.stat().st_size)
    assert sizes[1] < sizes[0] + 300


@pytest.mark.parametrize("weights", ["float32", "float16"])
@pytest.mark.parametrize("estimator", TABLES, ids=repr)
def test_weights_of_kernel_values_keep_all_digits(estimator, weights, tmp_path):
    X = rows(300)
    y = labels(X) if "Classifier" in type(estimator).__name__ else targets(estimator, X)
    model = clone(estimator).fit(X, y)
    again = round_trip(model, tmp_path, weights=weights)
    for name, value in outputs(model, X).items():
        assert_same(value, outputs(again, X)[name])


@pytest.mark.parametrize("kind", ["regression", "log_loss", "squared"])
def test_a_deployed_model_with_landmarks_keeps_all_digits_when_saved_again(kind, tmp_path):
    X = rows(300)
    options = {"features": "nystrom", "alpha": 1e-6, "random_state": 0}
    model = (
        bochner.KernelRidge(bochner.RBF(1.0), 64, **options)
        if kind == "regression"
        else bochner.KernelClassifier(bochner.RBF(1.0), 64, loss=kind, **options)
    )
    model.fit(X, targets(model, X))
    deployed = round_trip(model, tmp_path, predict_only=True)
    again = round_trip(deployed, tmp_path, predict_only=True, weights="float16")
    for name, value in outputs(model, X).items():
        assert_same(value, outputs(again, X)[name])


def test_a_file_to_deploy_has_no_sums(tmp_path):
    with pytest.raises(ValueError, match="predict_only and sums"):
        bochner.save(bochner.KernelRidge(), tmp_path / "model", sums=True, predict_only=True)


def test_what_needs_the_sums_says_so_after_loading_a_file_without_them(tmp_path):
    X = rows()
    model = bochner.KernelRidge(bochner.RBF(1.0), 40, features="fourier", alpha=0.1, random_state=0).fit(X, X[:, 0])
    again = round_trip(model, tmp_path)
    for one, other in ((again, model), (model, again)):
        with pytest.raises(ValueError, match=r"keeps no sums to add to.*sums=True"):
            one.merge(other)
    with pytest.raises(AttributeError, match="sums=True"):
        _ = again.effective_dimension_
    with pytest.raises(ValueError, match="sums=True"):
        bochner.certificates.prediction_error(again, X)
    known = model.effective_dimension_
    assert round_trip(model, tmp_path).effective_dimension_ == known
    assert round_trip(model, tmp_path, sums=True).merge(model).n_samples_seen_ == 160
    again.fit(X, X[:, 0])
    again.partial_fit(X, X[:, 0])
    assert again.n_samples_seen_ == 160


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_unfitted_estimators_round_trip(estimator, tmp_path):
    assert repr(round_trip(estimator, tmp_path)) == repr(estimator)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_every_kernel_round_trips_or_says_why_not(name, tmp_path):
    kernel = KERNELS[name]
    functions = [v for v in kernel.get_params().values() if callable(v) and not hasattr(v, "get_params")]
    if any(not isinstance(f, np.ufunc) for f in functions):
        with pytest.raises(TypeError, match="function"):
            round_trip(kernel, tmp_path)
        return
    X = rows(12)
    assert_same(round_trip(kernel, tmp_path)(X), kernel(X))


@pytest.mark.parametrize("name", sorted(LINEAR_MAPS))
def test_every_linear_map_round_trips(name, tmp_path):
    X = rows(7, 13)
    drawn = LINEAR_MAPS[name](13, Key(3))
    again = round_trip(drawn, tmp_path)
    assert isinstance(again, LinearMap)
    assert_same(again(X), drawn(X))
    assert_same(again(X.astype(np.float32)), drawn(X.astype(np.float32)))


@pytest.mark.parametrize("form", ["pairs", "offset", "complex"])
@pytest.mark.parametrize("law", sorted(ROW_LAWS))
def test_fourier_maps_of_every_law_and_form(law, form, tmp_path):
    X = rows(6, 9)
    drawn = fourier_map(bochner.RBF(2.0), ROW_LAWS[law], 9, 21, form, Key(0), np.float64)
    assert_same(round_trip(drawn, tmp_path)(X), drawn(X))


def test_values_of_every_kind(tmp_path):
    values = {
        "alpha": [1, 2.5, float("inf"), float("-inf"), -0.0, 1e-310],
        "b": (None, True, "ünï\ud800", {"x": (1,), 2: "two", (1, 2): []}),
        "c": np.float32(1.5),
        "d": np.dtype("float32"),
        "e": np.float64,
        "f": [np.arange(100, dtype=np.int64), np.array(["a", "bcd"]), np.array(["x", None, 3], object)],
        "g": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "h": np.array([1 + 2j, 3]),
        "i": np.array([1 + 2j, 3], np.complex64),
        "j": np.zeros((0, 3), np.float32),
        "k": np.array(7, np.uint64),
        "l": scipy.sparse.random(5, 6, 0.4, "csr", random_state=0),
        "m": scipy.sparse.csc_array(np.eye(3, dtype=np.float32)),
        "n": np.where(np.arange(200).reshape(2, 100) % 3, 1, -1).astype(np.int8),
        "o": np.array([True, False]),
        "p": np.arange(6, dtype=">f8").reshape(2, 3)[:, ::2],
        "q": np.array([["ab", "c"], ["", "defg"]]).T,
        "r": np.cosh,
        "s": np.arange(70) - 2**40,
        "t": np.triu(np.arange(100.0, dtype=np.float32).reshape(10, 10)),
        "u": np.asfortranarray(np.tril(np.arange(100.0).reshape(10, 10))),
    }
    again = round_trip(bochner.KernelRidge(alpha=values), tmp_path).alpha
    assert list(again) == list(values)
    for name, value in values.items():
        got = again[name]
        if scipy.sparse.issparse(value):
            assert type(got) is type(value)
            assert (got != value).nnz == 0
        elif isinstance(value, np.ndarray):
            assert got.shape == value.shape
            assert got.dtype == value.dtype.newbyteorder("=")
            assert got.flags.f_contiguous == value.flags.f_contiguous
            assert (got == value).all()
        elif name == "f":
            assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(value, got, strict=True))
        else:
            assert repr(got) == repr(value)
            assert type(got) is type(value)
    nan = round_trip(bochner.KernelRidge(alpha=float("nan")), tmp_path).alpha
    assert np.isnan(nan)


def test_sparse_landmarks_and_names_of_columns(tmp_path):
    X = scipy.sparse.random(60, 8, 0.5, "csr", random_state=0)
    model = bochner.NystromFeatures("rbf", 10, landmarks="uniform", random_state=0).fit(X)
    assert_same(round_trip(model, tmp_path).transform(X), model.transform(X))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows(), columns=list("abcde"))
    named = bochner.KernelRidge("rbf", 16, random_state=0).fit(frame, frame["a"])
    again = round_trip(named, tmp_path)
    assert again.feature_names_in_.tolist() == list("abcde")
    assert_same(again.predict(frame), named.predict(frame))


def test_several_targets_and_features_of_ours(tmp_path):
    X = rows()
    features = bochner.MaclaurinFeatures(bochner.Polynomial(2), n_components=30, random_state=0)
    model = bochner.KernelRidge(features=features, alpha=[0.1, 1.0]).fit(X, X[:, :2])
    assert_same(round_trip(model, tmp_path).predict(X), model.predict(X))
    pca = bochner.KernelPCA(3, fit_inverse_transform=True, n_feature_components=20, random_state=0).fit(X)
    assert_same(round_trip(pca, tmp_path).inverse_transform(pca.transform(X)), pca.inverse_transform(pca.transform(X)))


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (bochner.KernelRidge(features=PCA(2)), ["KernelRidge.features", "PCA"]),
        (bochner.KernelRidge(bochner.Radial(lambda r: np.exp(-r))), ["KernelRidge.kernel.function", "function"]),
        (bochner.KitchenSinkFeatures(lambda a: a), ["KitchenSinkFeatures.activation", "function"]),
        (bochner.FourierFeatures(random_state=np.random.RandomState(0)), ["random_state", "set_params"]),
        (bochner.FourierFeatures(n_jobs=np.zeros(2, "datetime64[s]")), ["FourierFeatures.n_jobs", "datetime64"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_foreign_objects_are_refused_by_name(model, names, tmp_path):
    path = tmp_path / "model"
    with pytest.raises(TypeError) as caught:
        bochner.save(model, path)
    assert all(name in str(caught.value) for name in names), caught.value
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("thing", [None, 3, [bochner.RBF()], PCA(2)], ids=repr)
def test_only_objects_of_ours_are_saved(thing, tmp_path):
    with pytest.raises(TypeError, match="bochner"):
        bochner.save(thing, tmp_path / "model")


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    model = bochner.FourierFeatures(n_components=4, random_state=0).fit(rows())
    model.n_features_in_ = 7
    with pytest.raises(TypeError, match="loaded again: FourierFeatures with a map of 5 features for data with 7"):
        bochner.save(model, tmp_path / "model")


def test_a_structured_map_of_65536_frequencies_is_small(tmp_path):
    path = tmp_path / "map"
    X = rows(1, 8192)
    model = bochner.FourierFeatures(bochner.RBF(90.0), 2 * 65536, rows="structured", random_state=0).fit(X)
    bochner.save(model, path)
    assert path.stat().st_size < 300_000  # 4 bytes a length, 3 bits a row of signs
    assert_same(bochner.load(path).transform(X), model.transform(X))


def test_equal_arrays_are_stored_once(tmp_path):
    X = rows(500)
    model = bochner.KernelClassifier("rbf", 64, features="nystrom", loss="squared", alpha=0.1, random_state=0).fit(
        X, labels(X)
    )
    path = tmp_path / "model"
    bochner.save(model, path)
    _, tensors = read(path)
    seen = [(t.dtype.str, t.shape, t.tobytes()) for t in tensors.values()]
    assert len(set(seen)) == len(seen)


def test_the_safetensors_package_reads_our_files(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    path = tmp_path / "model.safetensors"
    X = rows()
    bochner.save(bochner.KernelClassifier("rbf", 40, random_state=0).fit(X, labels(X)), path)
    _, tensors = read(path)
    with safetensors.safe_open(path, framework="np") as file:
        about = json.loads(file.metadata()["bochner"])
        assert about["format"] == 1
        assert about["model"]["class"] == "KernelClassifier"
        assert set(about["versions"]) == {"bochner", "numpy", "scipy", "scikit-learn"}
        assert set(file.keys()) == set(tensors)
        for name, tensor in tensors.items():
            assert_same(file.get_tensor(name), tensor)


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model"
    bochner.save(bochner.RBF(1.0), path)
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        bochner.save(bochner.RBF(2.0), path)
    monkeypatch.undo()
    assert bochner.load(path).length_scale == 1.0
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_loading_needs_no_optional_package_and_no_pickle(tmp_path):
    path = tmp_path / "model"
    X = rows()
    model = bochner.KernelRidge("rbf", 20, random_state=0).fit(X, X[:, 0])
    bochner.save(model, path)
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *args):\n"
        "        if name.split('.')[0] in "
        "('torch', 'dask', 'pyarrow', 'safetensors', 'onnx', 'pandas', 'matplotlib', 'rich'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import bochner, numpy, pickle\n"
        "def refuse(*args, **kwargs): raise AssertionError('unpickled')\n"
        "pickle.load = pickle.loads = pickle.Unpickler = refuse\n"
        f"print(repr(bochner.load({str(path)!r}).predict(numpy.full((1, 5), 0.5))[0]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr(model.predict(np.full((1, 5), 0.5))[0])


def test_the_registry_is_closed():
    known = classes()
    assert {"KernelRidge", "Fourier", "HadamardBlocks", "Key"} <= set(known)
    assert all(cls.__module__.startswith("bochner.") for cls in known.values())
    assert not any("Source" in name or "Backend" in name for name in known)


MODELS = {
    "ridge": bochner.KernelRidge(
        features=bochner.FourierFeatures(bochner.RBF(2.0), 512, rows="fastfood", random_state=0), alpha=0.1
    ),
    "classifier": bochner.KernelClassifier(bochner.RBF(2.0), 512, features="fourier", alpha=0.1, random_state=0),
    "process": bochner.GaussianProcessRegressor(bochner.RBF(2.0), 64, n_restarts=0, random_state=0),
}


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("weights", "digits"), [("float32", 2.0**-24), ("float16", 2.0**-11)])
@pytest.mark.parametrize("name", MODELS)
def test_weights_may_be_stored_in_fewer_bytes(name, weights, digits, scale, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    y = (X[:, 0] > 0) if name == "classifier" else scale * np.sin(X[:, 0])
    model = clone(MODELS[name]).fit(X, y)
    method = "decision_function" if name == "classifier" else "predict"
    full, small = tmp_path / "full", tmp_path / "small"
    bochner.save(model, full)
    bochner.save(model, small, weights=weights)
    again = bochner.load(small)
    expected, found = getattr(model, method)(X), getattr(again, method)(X)
    # every coefficient moves by at most the digits of the largest, and features have at most size one
    Z = np.abs(model.feature_map_(X)).sum(axis=1)
    coefficients = model._found.solution if name == "ridge" else model._posterior if name == "process" else model
    largest = np.abs(getattr(coefficients, "coefficients", getattr(coefficients, "_coefficients", None))).max()
    assert (np.abs(found - expected) <= digits * largest * Z + 1e-12 * np.abs(expected).max()).all()
    assert found.dtype == expected.dtype
    assert (found != expected).any()
    saved = full.stat().st_size - small.stat().st_size
    m = len(model.feature_map_(X[:1])[0])
    assert saved >= (6 if weights == "float16" else 4) * m - 200  # two words more in the header


def test_weights_that_cannot_be_stored(tmp_path):
    for options in ({"weights": "int8"}, {"weights": "float32", "sums": True}):
        with pytest.raises(ValueError, match="weights"):
            bochner.save(bochner.KernelRidge(), tmp_path / "model", **options)


def test_the_checksum_is_checked(tmp_path):
    model, tensors = "{}", {"a": np.arange(1000.0)}
    containers.write(tmp_path / "file", model, tensors)
    found, arrays = containers.read(tmp_path / "file")
    assert (found, arrays["a"].tolist()) == (model, tensors["a"].tolist())
    content = bytearray((tmp_path / "file").read_bytes())
    for place in (-1, -4000, -7999):
        content[place] ^= 1
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(containers.ModelFileError, match="checksum"):
            containers.read(tmp_path / "file")


def _flipped(words, place):
    words.view(np.uint8)[place] ^= 1


def _exchanged(words, i, j):
    words[i], words[j] = words[j].copy(), words[i].copy()


@pytest.mark.parametrize(
    "damage",
    [
        lambda words: _flipped(words, 5_000),
        lambda words: _flipped(words, -1),
        lambda words: _exchanged(words, 700, 701),
        lambda words: _exchanged(words, 700, 700 + 512),
        lambda words: _exchanged(words, slice(512, 1024), slice(1024, 1536)),
        lambda words: words.__setitem__(slice(512, 1024), 0),
        lambda words: words.__setitem__(slice(1, None), words[:-1].copy()),
    ],
    ids=["a bit", "the last bit", "words of a row", "words of a column", "blocks", "zeros", "a shift"],
)
def test_the_checksum_notices_what_goes_wrong_on_disks(damage):
    words = np.random.default_rng(0).integers(0, 1 << 63, size=3_000, dtype=np.uint64)
    before = containers.digest("{}", [("a", words)])
    damage(words)
    assert containers.digest("{}", [("a", words)]) != before


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.complex64])
@pytest.mark.parametrize("m", [0, 1, 2, 9, 40])
def test_triangles_are_stored_without_their_zeros(m, dtype):
    U = np.triu(np.random.default_rng(m).integers(-99, 99, size=(m, m))).astype(dtype)
    packed = pack_upper(U)
    again = unpack_upper(packed, m)
    assert packed.size == m * (m + 1) // 2
    assert again.dtype == packed.dtype == dtype
    assert np.array_equal(again, U)
    assert again.flags.c_contiguous
