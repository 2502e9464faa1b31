"""Any input: a right answer or a clear error, never a crash, a hang or silent nonsense.

Small hostile matrices (scales from 1e-30 to 1e30, constants, duplicates, NaN, every layout, dtype and sparse format)
through every public estimator and function. `make test` draws the same few examples each time; `make fuzz` draws
many new ones.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.linalg import LinAlgWarning
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import has_fit_parameter

from bochner import KernelRidge, certificates, diagnostics, linalg, mmd_test
from bochner.sketches import SKETCH_LAWS
from hostile import FUZZING, N_EXAMPLES, answer
from laws import ESTIMATORS, KERNELS

FUZZ = settings(
    max_examples=N_EXAMPLES,
    deadline=None,
    derandomize=not FUZZING,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@st.composite
def matrices(draw, min_rows=1, max_rows=12, max_columns=5, poison=True):
    """A matrix, and whether every entry is finite."""
    n, d = draw(st.integers(min_rows, max_rows)), draw(st.integers(1, max_columns))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    X = {
        "normal": lambda: rng.normal(size=(n, d)),
        "constant": lambda: np.full((n, d), rng.normal()),
        "zero": lambda: np.zeros((n, d)),
        "duplicates": lambda: rng.normal(size=(2, d))[rng.integers(0, 2, n)],
        "one hot": lambda: np.eye(d)[rng.integers(0, d, n)],
        "columns apart": lambda: rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-12, 12, d),
        "far away": lambda: 1e6 + 1e-3 * rng.normal(size=(n, d)),
    }[draw(st.sampled_from(["normal", "constant", "zero", "duplicates", "one hot", "columns apart", "far away"]))]()
    X = X * 10.0 ** draw(st.sampled_from([0, 0, 0, -30, -8, 8, 30, -280, -150, 150, 280]))
    with np.errstate(over="ignore", invalid="ignore"):
        X = X.astype(draw(st.sampled_from([np.float64, np.float64, np.float32, ">f8", ">f4"])))
        if draw(st.sampled_from([False, False, False, True])):
            X = X.astype(draw(st.sampled_from([np.int64, np.int32, np.bool_, np.float16, object])))
    if poison and X.dtype.kind == "f" and draw(st.integers(0, 5)) == 0:
        X.flat[draw(st.integers(0, X.size - 1))] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    layout = draw(st.sampled_from(["C", "C", "F", "strided", "reversed", "read-only", "csr", "csc", "coo"]))
    if layout == "F":
        X = np.asfortranarray(X)
    elif layout == "strided":
        wide = np.zeros((2 * n, 2 * d), X.dtype)
        wide[::2, ::2] = X
        X = wide[::2, ::2]
    elif layout == "reversed":
        X = X[::-1, ::-1]
    elif layout == "read-only":
        X.flags.writeable = False
    elif layout in ("csr", "csc", "coo") and X.dtype in (np.float32, np.float64):  # native: SciPy has no others
        X = scipy.sparse.coo_array(X).asformat(layout)
    return X


def usable(X):
    """A finite float32 or float64 array, dense: what functions that check nothing may be given."""
    floats = not scipy.sparse.issparse(X) and X.dtype.newbyteorder("=") in (np.float32, np.float64)
    return floats and bool(np.isfinite(X).all())


def entries(X):
    return X.data if scipy.sparse.issparse(X) else np.asarray(X, dtype=float)


def targets(estimator, n, seed):
    rng = np.random.default_rng(seed)
    if is_classifier(estimator):
        return np.arange(n) % 2
    return rng.normal(size=n) * 10.0 ** rng.choice([-20, 0, 20])


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@FUZZ
@given(X=matrices(), seed=st.integers(0, 99))
def test_an_estimator_answers_or_refuses(estimator, X, seed):
    finite = bool(np.isfinite(entries(X)).all())
    y = targets(estimator, X.shape[0], seed)
    model = answer(clone(estimator).fit, X, y)
    if model is None:
        return
    assert finite, "NaN and infinity must be refused"
    for name in ("transform", "predict", "predict_proba", "decision_function"):
        if not hasattr(model, name):
            continue
        Z = answer(getattr(model, name), X)
        if Z is None:
            continue
        assert Z.shape[0] == X.shape[0]
        values = Z.data if scipy.sparse.issparse(Z) else Z
        if values.dtype.kind == "f":
            assert np.isfinite(values).all(), f"{name} of finite rows is not finite"
        if name == "predict_proba":
            np.testing.assert_allclose(Z.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@FUZZ
@given(X=matrices(min_rows=6, poison=False), seed=st.integers(0, 99))
def test_layout_and_byte_order_change_nothing(estimator, X, seed):
    """Strided, reversed, Fortran, read-only, the other byte order: the same bits; and the input is not written to."""
    if not usable(X):
        return
    y = targets(estimator, X.shape[0], seed)
    before = X.copy()
    model = answer(clone(estimator).fit, X, y)
    np.testing.assert_array_equal(X, before)
    before = np.ascontiguousarray(before, before.dtype.newbyteorder("="))
    plain = answer(clone(estimator).fit, before, y)
    assert (model is None) == (plain is None)
    if model is None:
        return
    name = "transform" if hasattr(model, "transform") else "predict"
    ours, theirs = answer(getattr(model, name), X), answer(getattr(plain, name), before)
    assert (ours is None) == (theirs is None)
    if ours is not None:
        ours, theirs = (Z.toarray() if scipy.sparse.issparse(Z) else Z for Z in (ours, theirs))
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@FUZZ
@given(X=matrices(min_rows=6, poison=False), seed=st.integers(0, 99))
def test_rows_do_not_depend_on_their_company(estimator, X, seed):
    """What is said of a row does not depend on the rows it comes with, but for rounding, which roots may enlarge."""
    if getattr(estimator, "variant", "") == "meka":
        return  # of two centres at one distance rounding chooses
    model = answer(clone(estimator).fit, X, targets(estimator, X.shape[0], seed))
    method = next((m for m in ("transform", "decision_function", "predict") if hasattr(model, m)), "")
    together = None if model is None else answer(getattr(model, method), X)
    if together is None:
        return
    rows = X.tocsr() if scipy.sparse.issparse(X) else X
    alone = [answer(getattr(model, method), rows[i : i + 1]) for i in range(X.shape[0])]
    assert not any(row is None for row in alone)
    found, expected = (
        np.vstack([Z.toarray() if scipy.sparse.issparse(Z) else np.reshape(Z, (Z.shape[0], -1)) for Z in parts])
        for parts in (alone, [together])
    )
    # columns of features may be large where coefficients are small
    coefficients = np.abs(np.asarray(getattr(model, "component_weights_", 0.0))).sum()
    size = max(np.abs(expected).max(), coefficients, np.finfo(expected.dtype).tiny)
    rounding = 1e-2 if X.dtype.itemsize == 4 else 1e-6
    np.testing.assert_allclose(found, expected, rtol=0, atol=rounding * size)


WEIGHTED = [estimator for estimator in ESTIMATORS if has_fit_parameter(estimator, "sample_weight")]


@pytest.mark.parametrize("estimator", WEIGHTED, ids=repr)
@FUZZ
@given(X=matrices(min_rows=6, poison=False), seed=st.integers(0, 99), huge=st.booleans())
def test_rows_of_weight_zero_change_nothing(estimator, X, seed, huge):
    """As if they were not there, whatever their values; `huge`: targets that no other row has."""
    n = X.shape[0]
    kept = np.sort(np.random.default_rng(seed).permutation(n)[: max(4, n // 2)])
    weight, y = np.zeros(n), targets(estimator, n, seed)
    weight[kept] = 1.0
    others = weight == 0
    y[others] = 7 if is_classifier(estimator) else y[others] * (1e6 if huge else 1.0)
    rows = (X.tocsr() if scipy.sparse.issparse(X) else X)[kept]
    weighted, plain = (
        answer(clone(estimator).fit, X, y, sample_weight=weight),
        answer(clone(estimator).fit, rows, y[kept]),
    )
    assert (weighted is None) == (plain is None)
    method = next((m for m in ("transform", "decision_function", "predict") if hasattr(plain, m)), "")
    found, expected = (None if m is None else answer(getattr(m, method), rows) for m in (weighted, plain))
    assert (found is None) == (expected is None)
    if found is None:
        return
    found, expected = (Z.toarray() if scipy.sparse.issparse(Z) else Z for Z in (found, expected))
    size = max(np.abs(expected).max(), np.abs(np.asarray(getattr(plain, "component_weights_", 0.0))).sum())
    np.testing.assert_allclose(found, expected, rtol=0, atol=(1e-2 if X.dtype.itemsize == 4 else 1e-6) * size)


@pytest.mark.parametrize("name", KERNELS)
@FUZZ
@given(X=matrices(poison=False))
def test_a_kernel_answers_or_refuses(name, X):
    if not usable(X):
        return
    kernel = KERNELS[name]
    K = answer(lambda: kernel.resolve(X)(X))
    if K is None:
        return
    assert K.shape == (X.shape[0],) * 2
    assert np.isfinite(K).all()
    np.testing.assert_allclose(K, K.T, rtol=1e-4, atol=1e-6 * np.abs(K).max())


MATRIX_FUNCTIONS = {
    "randomized_svd": lambda A: linalg.randomized_svd(A, 1, random_state=0),
    "range_finder": lambda A: linalg.range_finder(A, 1, random_state=0),
    "generalized_nystrom": lambda A: linalg.generalized_nystrom(A, 1, random_state=0),
    "cx": lambda A: linalg.cx(A, 1, random_state=0),
    "cur": lambda A: linalg.cur(A, 1, random_state=0),
    "lstsq sketch": lambda A: linalg.lstsq(A, np.ones(A.shape[0]), method="sketch", random_state=0),
    "lstsq precondition": lambda A: linalg.lstsq(A, np.ones(A.shape[0]), method="precondition", random_state=0),
    "lstsq iterative": lambda A: linalg.lstsq(A, np.ones(A.shape[0]), method="iterative", random_state=0),
    "ridge": lambda A: linalg.ridge(A, np.ones(A.shape[0]), 1.0, random_state=0),
    "effective_dimension": lambda A: linalg.effective_dimension(A, 1.0),
    "newton_sketch": lambda A: linalg.newton_sketch("log_loss", A, np.arange(A.shape[0]) % 2, 1.0, random_state=0),
    "mmd_test": lambda A: mmd_test(A, A[::-1], random_state=0),
    "leverage_coherence": lambda A: diagnostics.leverage_coherence(A, alpha=1.0),
    "distance_concentration": lambda A: diagnostics.distance_concentration(A),
}


def numbers_in(value):
    """Every float in a result, whatever it is made of."""
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.dtype.kind == "f" else []
    if isinstance(value, (float, np.floating)):
        return [float(value)]
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in numbers_in(item)]
    if hasattr(value, "__dataclass_fields__"):
        # reports may say inf: of a condition number, say
        return [
            x for field in value.__dataclass_fields__ if field != "report" for x in numbers_in(getattr(value, field))
        ]
    return []


@pytest.mark.parametrize("name", MATRIX_FUNCTIONS)
@FUZZ
@given(A=matrices(min_rows=2))
def test_a_function_of_a_matrix_answers_or_refuses(name, A):
    if A.dtype == object or scipy.sparse.issparse(A):
        return
    result = answer(MATRIX_FUNCTIONS[name], A)
    if result is not None:
        assert np.isfinite(entries(A)).all(), "NaN and infinity must be refused"
        assert not np.isnan(numbers_in(result)).any(), f"NaN in {result}"


@pytest.mark.parametrize("name", SKETCH_LAWS)
@FUZZ
@given(A=matrices(poison=False, max_columns=9), seed=st.integers(0, 99))
def test_a_sketch_is_linear_whatever_the_scale(name, A, seed):
    from bochner.draws.keys import Key

    if not usable(A):
        return
    A = np.ascontiguousarray(A, A.dtype.newbyteorder("="))  # a map checks nothing
    key = Key(seed)
    S = answer(lambda: SKETCH_LAWS[name].resolve(A, key).sample(A.shape[1], 4, key))
    if S is None:
        return
    out = answer(S, A)
    if out is not None:
        expected = A.astype(np.float64) @ S.to_dense().T.astype(np.float64)
        scale = np.abs(A.astype(np.float64)).sum(axis=1, keepdims=True) * np.abs(S.to_dense()).max()
        assert (np.abs(out - expected) <= 1e-5 * scale + np.finfo(A.dtype).tiny).all()


@FUZZ
@given(X=matrices(min_rows=4), norm=st.sampled_from(["frobenius", "relative_frobenius", "spectral", "max", "trace"]))
def test_a_certificate_answers_or_refuses(X, norm):
    from bochner import RBF, FourierFeatures

    features = answer(FourierFeatures(RBF("median"), 8, random_state=0).fit, X)
    if features is None:
        return
    certificate = answer(certificates.kernel_error, features, X, norm=norm, random_state=0)
    if certificate is not None:
        low, high = certificate.interval
        assert low <= certificate.value <= high
        assert np.isfinite([low, high]).all()


MANY = 60  # rows


def too_large(dtype):
    """Weights whose sum, squares or products with rows would overflow."""
    most = 1e75 if dtype == np.float64 else 1e30
    return [np.r_[1e300, np.ones(MANY - 1)], np.full(MANY, 1e308), np.full(MANY, 1.01 * most / MANY)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", WEIGHTED, ids=repr)
def test_weights_that_overflow_are_refused_with_a_reason(estimator, dtype):
    X = np.random.default_rng(0).uniform(0.05, 1.0, size=(MANY, 3)).astype(dtype)
    y = X[:, 0] > 0.5 if is_classifier(estimator) else X[:, 0]
    for weight in too_large(dtype):
        with pytest.raises(ValueError, match=r"the weights add up to .* would overflow; divide sample_weight"):
            clone(estimator).fit(X, y, sample_weight=weight)
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, LinAlgWarning):  # beside such weights alpha is nothing
            warnings.simplefilter("ignore", kind)
        model = clone(estimator).fit(X, y, sample_weight=0.98 * weight)
    found = getattr(model, "predict" if hasattr(model, "predict") else "transform")(X)
    assert np.isfinite(found).all()


def test_weights_that_overflow_are_refused_in_streams_and_where_columns_are_counted():
    X = np.random.default_rng(0).uniform(size=(MANY, 3))
    y = np.sin(5.0 * X[:, 0])
    for weight in too_large(np.float64):
        for data in ((X, y, weight), ([(X, y, np.ones(MANY)), (X, y, weight)],)):
            with pytest.raises(ValueError, match="the weights add up to"):
                KernelRidge(max_components=64, random_state=0).fit(*data)
    model = KernelRidge(max_components=64, random_state=0).fit(X, y, 0.98 * weight)
    truth = KernelRidge(max_components=64, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), truth.predict(X), atol=0.05)
