"""The same numbers give the same answer, whatever type, byte order and place in memory they have.

Floats of 32 bits stay what they are; every other number is computed with as float64. Answers are equal to the last bit.
"""

import inspect

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

from bochner import (
    RBF,
    KernelPCA,
    KernelRidge,
    Laplacian,
    NystromFeatures,
    RandomProjection,
    certificates,
    diagnostics,
    exact_gaussian_process,
    exact_kernel_classifier,
    exact_kernel_ridge,
    exact_mmd,
    greedy_kitchen_sinks,
    kitchen_sinks,
    linalg,
    mmd_test,
)
from bochner.data.arrow import ArrowSource
from bochner.data.sources import ArraySource, BlockSource, MappedSource
from laws import ESTIMATORS, KERNELS, TABLES

pytestmark = pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
FLOATS = ("f4", ">f4", "f8", ">f8")
TYPES = (
    *FLOATS,
    *("f2", ">f2", "g", "O"),
    *("i1", "i2", "i4", "i8", ">i2", ">i4", ">i8"),
    *("u1", "u2", "u4", "u8", ">u2", ">u4", ">u8"),
)


def strided(X, folder):
    wide = np.zeros((2 * X.shape[0], 2 * X.shape[1]), X.dtype)
    wide[::2, ::2] = X
    return wide[::2, ::2]


def of_a_larger_array(X, folder):
    wide = np.zeros((X.shape[0], X.shape[1] + 3), X.dtype)
    wide[:, 1:-2] = X
    return wide[:, 1:-2]


def read_only(X, folder):
    X = X.copy()
    X.flags.writeable = False
    return X


def in_a_file(X, folder):
    file = np.memmap(folder / f"{X.dtype.kind}{X.dtype.itemsize}{X.dtype.isnative}", X.dtype, "w+", shape=X.shape)
    file[...] = X
    return file


def in_records(X, folder):
    """Not aligned, and rows are no whole number of entries apart."""
    records = np.zeros(len(X), [("name", "S1"), ("row", X.dtype, X.shape[1])])
    records["row"] = X
    return records["row"]


LAYOUTS = {
    "Fortran": lambda X, folder: np.asfortranarray(X),
    "strided": strided,
    "of a larger array": of_a_larger_array,
    "backwards": lambda X, folder: X[::-1, ::-1].copy()[::-1, ::-1],
    "rows backwards": lambda X, folder: X[::-1].copy()[::-1],
    "read-only": read_only,
    "in a file": in_a_file,
    "in records": in_records,
}


def numbers(n=40, d=4, seed=0):
    """Small integers, which every type holds."""
    return np.random.default_rng(seed).integers(0, 7, size=(n, d)).astype(float)


def plain(X):
    """What X is computed with as: float32, or float64, in this machine's order, row after row."""
    return np.ascontiguousarray(X, np.float32 if X.dtype.newbyteorder("=") == np.float32 else np.float64)


def representations(X, folder):
    """The numbers of X, float64, in every type, and in every layout of every float."""
    for name in TYPES:
        yield name, X.astype(name)
    yield "bool", X.astype(bool)
    for name in FLOATS:
        for layout, made in LAYOUTS.items():
            yield f"{name} {layout}", made(X.astype(name), folder)


def dense(Z):
    return Z.toarray() if scipy.sparse.issparse(Z) else np.asarray(Z)


def assert_same(found, expected, name):
    assert set(found) == set(expected)
    for part, value in expected.items():
        assert found[part].dtype == value.dtype, f"{part} of {name}"
        np.testing.assert_array_equal(found[part], value, err_msg=f"{part} of {name}")


def targets(estimator, n):
    t = np.arange(n)
    return t % 2 if is_classifier(estimator) else np.sin(t)


def answers(model, X):
    """Whatever a fitted model says about rows, by name."""
    found = {}
    for method in ("transform", "predict", "predict_proba", "predict_log_proba", "decision_function"):
        if hasattr(model, method):
            found[method] = dense(getattr(model, method)(X))
    if "return_std" in inspect.signature(getattr(model, "predict", len)).parameters:
        found["std"] = model.predict(X, return_std=True)[1]
        found["cov"] = model.predict(X, return_cov=True)[1]
        found["draws"] = model.sample_y(X, n_samples=2, random_state=0)
    if isinstance(model, RandomProjection):
        Z = found["transform"]
        found["inverse_transform"] = model.inverse_transform(np.asfortranarray(Z.astype(Z.dtype.newbyteorder())))
        np.testing.assert_array_equal(found["inverse_transform"], model.inverse_transform(Z))
    return found


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *TABLES], ids=repr)
def test_of_every_estimator(estimator, tmp_path):
    expected, y = {}, targets(estimator, 40)
    for name, X in representations(numbers(), tmp_path):
        same = plain(X)
        key = (same.dtype, same.tobytes())
        if key not in expected:
            expected[key] = answers(clone(estimator).fit(same, y), same)
        before = np.array(X)
        assert_same(answers(clone(estimator).fit(X, y), X), expected[key], name)
        np.testing.assert_array_equal(X, before, err_msg=f"{name} was written to")


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *TABLES], ids=repr)
def test_sparse_matrices_of_every_estimator(estimator):
    S = scipy.sparse.csr_array(np.where(numbers(40, 6) > 3, numbers(40, 6), 0.0))
    y = targets(estimator, 40)
    try:
        expected = {dtype: answers(clone(estimator).fit(S.astype(dtype), y), S.astype(dtype)) for dtype in ("f4", "f8")}
    except (ValueError, TypeError) as refusal:
        assert "sparse" in str(refusal).lower()  # noqa: PT017
        return
    for name in FLOATS:
        A = S.copy()
        A.data = A.data.astype(name)  # SciPy makes no such matrix by itself, files do
        assert_same(answers(clone(estimator).fit(A, y), A), expected[plain(A.data).dtype.str[1:]], name)
    for index in (np.int32, np.int64, ">i4", ">i8"):
        A = S.copy()
        A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
        assert_same(answers(clone(estimator).fit(A, y), A), expected["f8"], f"indices {index}")


def weighted(estimator):
    return "sample_weight" in inspect.signature(estimator.fit).parameters


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if weighted(e)], ids=repr)
@pytest.mark.parametrize("dtype", [">f8", ">f4", "f2", "i8", ">i4", "u1", "O"])
def test_targets_weights_and_further_rows(estimator, dtype):
    X, y, w = numbers(), targets(estimator, 40).round(), 1.0 + np.arange(40.0) % 3
    rows, more = slice(0, 30), slice(30, 40)

    def learned(X, y, w):
        model = clone(estimator).fit(X[rows], y[rows], sample_weight=w[rows])
        if hasattr(model, "partial_fit"):
            model.partial_fit(X[more], y[more], sample_weight=w[more])
        return answers(model, X)

    kinds = [np.abs(y) if dtype == "u1" else y, w]
    plain_answers = learned(X, kinds[0].astype(float if not is_classifier(estimator) else np.int64), w)
    found = learned(X, *(kind.astype(dtype if dtype != "O" or kind is w else float) for kind in kinds))
    if is_classifier(estimator):  # labels are returned as they came
        assert found["predict"].dtype.isnative
        found["predict"] = found["predict"].astype(np.int64)
    assert_same(found, plain_answers, dtype)


@pytest.mark.parametrize("name", KERNELS)
def test_of_every_kernel(name, tmp_path):
    kernel, V = KERNELS[name], numbers(40, 2, seed=1)

    def values(X):
        other = X[:5]
        found = {"K": kernel(X), "cross": kernel(X, other), "diagonal": kernel.diagonal(X)}
        return found | {"product": kernel.product(X, X, V)}

    for kind, X in representations(numbers() % 3, tmp_path):
        assert_same(values(X), values(plain(X)), kind)


@pytest.mark.parametrize("layout", ["as it is", *LAYOUTS])
@pytest.mark.parametrize("dtype", FLOATS)
def test_of_every_source(layout, dtype, tmp_path):
    X = numbers().astype(dtype)
    y, same = np.sin(np.arange(40.0)), plain(X)
    X = X if layout == "as it is" else LAYOUTS[layout](X, tmp_path)
    model = KernelRidge(RBF(3.0), 20, alpha=0.1, block_size=16, random_state=0)
    sources = {
        "array": lambda X: ArraySource(X, y),
        "blocks": lambda X: BlockSource([(X[i : i + 16], y[i : i + 16].astype(">f8")) for i in (0, 16, 32)]),
        "a list of blocks": lambda X: [(X[i : i + 16], y[i : i + 16]) for i in (0, 16, 32)],
        "mapped": lambda X: MappedSource(ArraySource(X, y), lambda block: block),
    }
    for name, source in sources.items():
        found = {"predict": clone(model).fit(source(X)).predict(X)}
        assert_same(found, {"predict": clone(model).fit(source(same)).predict(same)}, name)


@pytest.mark.parametrize("frame", ["pandas", "arrow"])
def test_of_columns(frame):
    X, y = numbers(), np.sin(np.arange(40.0))
    names = list("abcd")
    if frame == "pandas":
        pandas = pytest.importorskip("pandas")
        swapped = pandas.DataFrame({c: X[:, j].astype(">f8") for j, c in enumerate(names)})
        same = pandas.DataFrame({c: X[:, j] for j, c in enumerate(names)})
        fitted = [KernelRidge(RBF(3.0), 20, random_state=0).fit(A, y) for A in (swapped, same)]
        found, expected = (answers(model, A) for model, A in zip(fitted, (swapped, same), strict=True))
    else:
        pa = pytest.importorskip("pyarrow")
        table = pa.table({c: X[:, j] for j, c in enumerate(names)} | {"y": y})
        source = MappedSource(ArrowSource(table, target="y"), lambda block: block)
        source.feature_names = None
        found = answers(KernelRidge(RBF(3.0), 20, random_state=0).fit(source), X.astype(">f8"))
        expected = answers(KernelRidge(RBF(3.0), 20, random_state=0).fit(X, y), X)
    assert_same(found, expected, frame)


@pytest.mark.parametrize("name", TYPES)
def test_of_landmarks(name, tmp_path):
    X = numbers()
    model = NystromFeatures(Laplacian(2.0), 6, landmarks=X[:6]).fit(X)
    for given in (X[:6].astype(name), np.asfortranarray(X[:6].astype(name)), strided(X[:6].astype(name), tmp_path)):
        if given.dtype == object:
            continue  # names of laws are objects too: refused by name
        assert_same(answers(NystromFeatures(Laplacian(2.0), 6, landmarks=given).fit(X), X), answers(model, X), name)
    if np.dtype(name).kind in "iu":
        by_row = NystromFeatures(Laplacian(2.0), 6, landmarks=np.arange(6).astype(name)).fit(X)
        assert_same(answers(by_row, X), answers(model, X), name)


def test_of_an_inverse_transform(tmp_path):
    X = numbers()
    model = KernelPCA(2, n_feature_components=20, fit_inverse_transform=True, random_state=0).fit(X)
    T = model.transform(X)
    for name in (">f8", "f8"):
        for layout, made in LAYOUTS.items():
            same = {"inverse": model.inverse_transform(T)}
            assert_same({"inverse": model.inverse_transform(made(T.astype(name), tmp_path))}, same, layout)


_features = NystromFeatures(RBF(3.0), 6, random_state=0).fit(numbers())
_y, _labels = np.sin(np.arange(40.0)), np.arange(40) % 2
FUNCTIONS = {
    "kitchen_sinks": lambda X: kitchen_sinks(X, _y, X, 16, random_state=0),
    "greedy_kitchen_sinks": lambda X: greedy_kitchen_sinks(X, _y, 2, random_state=0).predict(X),
    "mmd_test": lambda X: mmd_test(X[:20], X[20:], n_permutations=19, random_state=0).statistic,
    "exact_mmd": lambda X: exact_mmd(RBF(1.0), X[:20], X[20:]),
    "exact_kernel_ridge": lambda X: exact_kernel_ridge("rbf", X, _y, X, 1.0),
    "exact_gaussian_process": lambda X: exact_gaussian_process("rbf", X, _y, X, 1.0)[0],
    "exact_kernel_classifier": lambda X: exact_kernel_classifier("rbf", X, _labels, X, 1.0),
    "kernel_error": lambda X: certificates.kernel_error(_features, X, random_state=0).value,
    "distance_error": lambda X: certificates.distance_error(_features, X, random_state=0).value,
    "distance_concentration": lambda X: diagnostics.distance_concentration(X).mean,
    "gram_spectrum": lambda X: diagnostics.gram_spectrum(X, random_state=0).eigenvalues,
    "leverage_coherence": lambda X: diagnostics.leverage_coherence(X, alpha=1.0).coherence,
    "effective_dimension": lambda X: linalg.effective_dimension(RBF(1.0)(X), 1.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_every_function_of_rows(name, tmp_path):
    function = FUNCTIONS[name]
    for kind, X in representations(numbers(), tmp_path):
        assert_same({name: np.asarray(function(X))}, {name: np.asarray(function(plain(X)))}, kind)
