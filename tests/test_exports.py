"""ONNX graphs give what the models give, up to the rounding of float32, for everything in the registries."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA

import bochner
from bochner import RBF, FourierFeatures, Matern, NystromFeatures
from bochner.sampling import ROW_LAWS
from bochner.sketches import SKETCH_LAWS
from laws import ESTIMATORS, KERNELS, OTHER_KERNELS, STATIONARY_KERNELS, TABLES

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
METHODS = {
    "features": lambda m, X: m.transform(X),
    "prediction": lambda m, X: m.predict(X),
    "std": lambda m, X: m.predict(X, return_std=True)[1],
    "label": lambda m, X: m.predict(X),
    "scores": lambda m, X: m.decision_function(X),
    "probabilities": lambda m, X: m.predict_proba(X),
    "components": lambda m, X: m.transform(X),
    "distances": lambda m, X: m.transform(X),
}


def rows(n=60, d=5, seed=0):
    return np.random.default_rng(seed).uniform(0.05, 1.0, size=(n, d))


def run(model, X, folder):
    path = folder / "model.onnx"
    bochner.export_onnx(model, path)
    nodes = onnx.load(path).graph.node
    assert len({node.name for node in nodes if node.name}) == len(
        nodes
    )  # older runtimes name what they fuse after them
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X.astype(np.float32)}), strict=True))


def check(model, X, folder, tolerance=3e-6):
    """Every output against the model in float64 on the same float32 rows."""
    X = X.astype(np.float32)
    found = run(model, X, folder)
    assert found
    for name, value in found.items():
        expected = METHODS[name](model, X.astype(np.float64))
        expected = expected.toarray() if hasattr(expected, "toarray") else np.asarray(expected)
        if np.iscomplexobj(expected):
            expected = np.stack([expected.real, expected.imag], axis=-1)
        assert value.shape == expected.shape, name
        if expected.dtype.kind == "f":
            size = max(1.0, np.abs(expected).max())
            assert value.dtype == np.float32
            np.testing.assert_allclose(value / size, expected / size, atol=tolerance, err_msg=name)
        else:
            assert value.tolist() == expected.tolist(), name


def targets(estimator, X):
    if isinstance(estimator, (bochner.KernelClassifier, bochner.TabularClassifier)):
        return np.where(X[:, 0] > 0.6, "high", np.where(X[:, 1] > 0.5, "middle", "low"))
    return X[:, 0] + np.sin(5.0 * X[:, 1])


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *TABLES], ids=repr)
def test_every_estimator(estimator, tmp_path):
    X = rows()
    check(clone(estimator).fit(X, targets(estimator, X)), rows(17, seed=1), tmp_path)


def as_floats(value):
    value = value.toarray() if hasattr(value, "toarray") else np.asarray(value)
    return np.stack([value.real, value.imag], axis=-1) if np.iscomplexobj(value) else value


def check_magnitudes(model, folder, tolerance=1e-5):
    """Every output, of rows of any size; but for rows whose last digits decide over their features."""
    path = folder / "model.onnx"
    bochner.export_onnx(model, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    compared = 0
    for exponent in (-30, -12, -5, 0, 3, 5, 8, 12, 18, 30):
        X = (rows(9, model.n_features_in_, seed=1) * 10.0**exponent).astype(np.float32)
        steps = 1.0 + np.finfo(np.float64).eps * np.arange(-2.0, 3.0)
        try:
            with np.errstate(all="ignore"):
                Zs = [as_floats(model.feature_map_(X * step)).reshape(len(X), -1) for step in steps]
                outputs = {name: [as_floats(METHODS[name](model, X * step)) for step in steps] for name in names}
        except ValueError as refusal:
            assert "overflow" in str(refusal) or "finite" in str(refusal)  # noqa: PT017
            continue
        meant = np.max(np.ptp(Zs, axis=0), axis=1) < 0.1 * np.max(np.abs(Zs[2]), axis=1, initial=1.0)
        for name, value in zip(names, session.run(names, {"X": X}), strict=True):
            if value.dtype.kind != "f":
                continue
            what = f"{name} at 1e{exponent}"
            expected = outputs[name][2]
            beyond = np.abs(expected) > np.finfo(np.float32).max
            assert not np.isnan(value).any(), what
            assert np.isinf(value[beyond]).all(), what
            there = meant & ~beyond.reshape(len(X), -1).any(axis=1)
            size = max(1.0, np.abs(expected[there]).max(initial=0.0))
            change = 20.0 * np.ptp(outputs[name], axis=0)[there].max(initial=0.0)
            apart = np.abs(value[there].astype(np.float64) - expected[there]).max(initial=0.0)
            assert apart <= tolerance * size + change, what
            compared += np.count_nonzero(there) * (change < 0.01 * size)
    assert compared >= 9


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_rows_of_any_magnitude(estimator, scale, tmp_path):
    X = rows() * scale
    try:
        model = clone(estimator).fit(X, targets(estimator, rows()))
    except ValueError as refusal:
        assert scale == 1e30
        assert "overflow" in str(refusal) or "reaches" in str(refusal)  # noqa: PT017
        return
    check_magnitudes(model, tmp_path)


@pytest.mark.parametrize("form", ["pairs", "offset", "complex"])
@pytest.mark.parametrize("law", sorted(ROW_LAWS))
def test_waves_of_rows_of_any_magnitude(law, form, tmp_path):
    model = FourierFeatures(RBF(2.0), 21, rows=law, form=form, random_state=0).fit(rows(20, 6))
    check_magnitudes(model, tmp_path)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_kernel_columns_of_rows_of_any_magnitude(name, tmp_path):
    model = NystromFeatures(KERNELS[name], 6, landmarks="uniform", random_state=0).fit(rows(40, 4))
    if name != "separable":  # a function of the user's
        check_magnitudes(model, tmp_path, 1e-5 + 2e-8 * np.abs(model.feature_map_.root).sum(axis=0).max())


@pytest.mark.parametrize("form", ["pairs", "offset", "complex"])
@pytest.mark.parametrize("law", sorted(ROW_LAWS))
@pytest.mark.parametrize("d", [1, 6, 80])
def test_fourier_features_of_every_law_and_form(law, form, d, tmp_path):
    X = rows(20, d)
    model = FourierFeatures(RBF(np.sqrt(d)), 2 * d + 5, rows=law, form=form, random_state=0).fit(X)
    check(model, X, tmp_path, 1e-5)


@pytest.mark.parametrize("law", sorted(SKETCH_LAWS))
def test_projections_of_every_law(law, tmp_path):
    X = rows(30, 70)
    check(bochner.RandomProjection(20, law=law, random_state=0).fit(X), X, tmp_path, 1e-5)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_nystrom_features_of_every_kernel(name, tmp_path):
    X = rows(40, 4)
    model = NystromFeatures(KERNELS[name], 12, landmarks="uniform", random_state=0).fit(X)
    if name == "separable":
        with pytest.raises(ValueError, match="function"):
            bochner.export_onnx(model, tmp_path / "model.onnx")
        return
    # rounding of the rows' kernel values is magnified by the root
    root = np.abs(model.feature_map_.root).sum(axis=0).max()
    K = KERNELS[name](X)
    size = np.abs(K).max() / max(1.0, np.abs(model.transform(X)).max())
    check(model, rows(9, 4, seed=1), tmp_path, 3e-6 + 2e-8 * root * size)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 3.5, 0.8, 2.0, 40.0])
def test_matern_kernels_with_and_without_a_formula(nu, tmp_path):
    X = rows(40, 2)
    check(NystromFeatures(Matern(1.0, nu=nu), 6, landmarks="uniform", random_state=0).fit(X), X, tmp_path, 1e-5)


@pytest.mark.parametrize("name", sorted(STATIONARY_KERNELS | OTHER_KERNELS))
def test_kernel_features_of_every_kernel(name, tmp_path):
    X = rows(40, 4)
    check(bochner.KernelFeatures(KERNELS[name], n_components=24, random_state=0).fit(X), X, tmp_path, 1e-5)


@pytest.mark.parametrize("variant", ["projection", "ensemble", "modified", "shifted", "sketched", "meka"])
def test_nystrom_variants(variant, tmp_path):
    X = rows(80, 3)
    check(NystromFeatures("matern32", 12, variant=variant, random_state=0).fit(X), X, tmp_path, 1e-4)


def test_precomputed_kernels_and_sparse_landmarks(tmp_path):
    import scipy.sparse

    X = rows(40, 3)
    K = RBF(1.0)(X)
    model = NystromFeatures("precomputed", 6, landmarks="uniform", random_state=0).fit(K)
    check(model, K, tmp_path, 1e-4)
    S = scipy.sparse.csr_matrix(np.where(X > 0.5, X, 0.0))
    check(NystromFeatures("rbf", 6, landmarks="uniform", random_state=0).fit(S), S.toarray(), tmp_path, 1e-4)


@pytest.mark.parametrize("factors", ["count_sketch", "rademacher", "srht", "complex_rademacher", "complex_srht"])
@pytest.mark.parametrize("direction", ["mean", None])
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_tensor_sketches(factors, direction, degree, tmp_path):
    X = rows(20, 7)
    kernel = bochner.Polynomial(degree, gamma=0.3, coef0=0.5)
    model = bochner.TensorSketchFeatures(kernel, 33, factors=factors, direction=direction, random_state=0)
    check(model.fit(X), X, tmp_path, 1e-5)


@pytest.mark.parametrize("activation", ["cos", "relu", "squared_relu", "step", "sign", "gaussian", np.tanh])
def test_kitchen_sinks(activation, tmp_path):
    X = rows(30, 4)
    check(bochner.KitchenSinkFeatures(activation, 21, bias=0.5, random_state=0).fit(X), X, tmp_path)


@pytest.mark.parametrize("y", ["two", "numbers", "bools"])
def test_classes_of_every_kind(y, tmp_path):
    X = rows()
    labels = {"two": np.where(X[:, 0] > 0.5, "a", "b"), "numbers": (3 * X[:, 0]).astype(int), "bools": X[:, 0] > 0.5}[y]
    check(bochner.KernelClassifier(RBF(1.0), 20, alpha=0.1, random_state=0).fit(X, labels), X, tmp_path, 1e-5)


def test_several_targets(tmp_path):
    X = rows()
    Y = np.column_stack([X[:, 0], np.sin(X[:, 1])])
    check(bochner.KernelRidge(RBF(1.0), 20, random_state=0).fit(X, Y), X, tmp_path, 1e-4)
    check(bochner.GaussianProcessRegressor(RBF(1.0), 20, random_state=0).fit(X, Y), X, tmp_path, 1e-4)


def test_structured_maps_stay_small(tmp_path):
    X = rows(2, 1000)
    model = FourierFeatures(RBF(20.0), 2 * 8192, rows="structured", random_state=0).fit(X)
    check(model, X, tmp_path, 1e-5)
    assert (tmp_path / "model.onnx").stat().st_size < 8192 * (4 + 3) + 30_000  # a length and three signs a row


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (bochner.KernelRidge(features=PCA(2), alpha=1.0), "PCA"),
        (bochner.KitchenSinkFeatures(lambda a: a * a, 5), "activation"),
        (NystromFeatures(lambda X, Y: X @ Y.T, 3), "kernel"),
        (PCA(2), "PCA"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_written_is_named(model, message, tmp_path):
    X = rows()
    model.fit(X, X[:, 0])
    with pytest.raises(ValueError, match=message):
        bochner.export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_unfitted_models_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        bochner.export_onnx(bochner.KernelRidge(), tmp_path / "model.onnx")


def test_without_onnx_the_error_says_what_to_install(tmp_path, monkeypatch):
    import sys

    for name in [n for n in sys.modules if n == "onnx" or n.startswith(("onnx.", "bochner.exports."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"bochner\[onnx\]"):
        bochner.export_onnx(FourierFeatures().fit(rows()), tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("kernel", "classifies"),
    [("laplacian", False), ("exponential", True), ("matern32", False), ("matern52", False), ("rbf", False)],
)
def test_tables_with_gaps_ranks_directions_and_leaves(kernel, classifies, tmp_path):
    """Routing, interpolation and filling are the model's: rows of `fit`, which are the knots and cuts, and new ones."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(250, 4)), 1)  # many ties
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = 2.0
    y = np.nan_to_num(X[:, 0]) + np.sin(np.nan_to_num(X[:, 1]))
    kind = bochner.TabularClassifier if classifies else bochner.TabularRegressor
    metric = "diagonal" if kernel == "laplacian" else "full"
    model = kind([kernel], leaf_size=40, metric=metric, max_seconds=0.5, random_state=0)
    model.fit(X.astype(np.float32).astype(float), (y > 0) + 0 if classifies else y)
    assert any(member.model.tree.n_leaves > 4 for member in model._members)
    for rows_ in (X, rng.normal(size=(3, 4)), np.full((1, 4), np.nan), 1e6 * rng.normal(size=(5, 4))):
        check(model, rows_, tmp_path, tolerance=1e-5)


def test_tables_with_other_columns_than_numbers_are_refused_by_name(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": np.arange(30.0), "colour": ["red", "green", "blue"] * 10})
    model = bochner.TabularRegressor(max_seconds=0.5, random_state=0).fit(frame, np.arange(30.0))
    with pytest.raises(ValueError, match=r"'colour' \(category\).*bochner.save"):
        bochner.export_onnx(model, tmp_path / "model.onnx")
