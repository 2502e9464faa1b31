"""One law for all functions of bochner.linalg: any input has a right answer or a clear error.

Zeros, one row, one column, low rank, NaN, scales of 1e±150, every dtype, byte order, layout and sparse format.
"""

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

from bochner import linalg
from linalg_calls import CALLS

ALPHA = 0.25


def integers(kind, n=24, d=4, seed=0):
    """A matrix of small integers of the given kind."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-4, 5, (n, d)).astype(float)
    if kind in ("any", "tall"):
        return A
    A = rng.integers(-4, 5, (n, n)).astype(float)
    if kind == "square":
        return A
    return A + A.T if kind == "symmetric" else np.round(A @ A.T / 16.0) + 16.0 * n * np.eye(n) / 8.0


def targets(n, seed=1):
    return np.random.default_rng(seed).integers(-5, 6, n).astype(float)


def strided(A):
    wide = np.zeros((2 * A.shape[0], 3 * A.shape[1]), A.dtype)
    wide[::2, ::3] = A
    return wide[::2, ::3]


def reversed_(A):
    return np.ascontiguousarray(A[::-1, ::-1])[::-1, ::-1]


def read_only(A):
    A = A.copy()
    A.flags.writeable = False
    return A


def with_duplicates(A):
    """CSR whose entries are the sums of two, which are stored apart."""
    B = scipy.sparse.csr_array(A)
    order = np.concatenate([np.repeat(np.arange(s, e), 2) for s, e in zip(B.indptr[:-1], B.indptr[1:], strict=True)])
    return scipy.sparse.csr_array((B.data[order] / 2.0, B.indices[order], 2 * B.indptr), shape=A.shape)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "strided": strided,
    "reversed": reversed_,
    "read-only": read_only,
    "big endian": lambda A: A.astype(">f8"),
    "integers": lambda A: A.astype(np.int64),
    "big-endian integers": lambda A: A.astype(">i4"),
    "list": lambda A: A.tolist(),
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
    "coo": scipy.sparse.coo_array,
    "csr with duplicates": with_duplicates,
    "operator": aslinearoperator,
}


@pytest.fixture(params=CALLS)
def name(request):
    return request.param


@pytest.fixture
def call(name):
    return CALLS[name]


def answered(call, A, b, alpha=ALPHA, seed=0):
    """The result, of which nothing is NaN: neither the answer nor anything that the report says."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = call.run(A, b, alpha, seed)
    parts = list(result) if isinstance(result, linalg.Result) else [result.values, result.vectors]
    for part in parts:
        assert isinstance(part, linalg.Report) or np.isfinite(part).all()
    assert np.isfinite(result.report.residual)
    for estimate in result.report.estimates.values():
        assert np.isfinite([estimate.value, estimate.standard_error]).all()
        assert estimate.low <= estimate.value <= estimate.high
    return result


def test_every_public_function_is_under_the_law():
    public = {name for name in linalg.__all__ if inspect.isfunction(getattr(linalg, name))} - {"as_loss"}
    assert {name.split()[0] for name in CALLS} == public


def same(answer, expected, tolerance=1e-8):
    np.testing.assert_allclose(answer, expected, rtol=100 * tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_byte_order_and_format_change_nothing(name, call, layout):
    A = integers(call.kind)
    b = targets(len(A))
    form = LAYOUTS[layout](A)
    vector = b.astype(">f8") if "big" in layout else np.repeat(b, 2)[::2]
    answer = call.answer(answered(call, form, vector), 0.0, len(A))
    if layout == "operator" and name.endswith("tol"):
        return  # the norm of an operator is estimated, and with it the rank that a tolerance needs
    same(answer, call.answer(answered(call, A, b), 0.0, len(A)))
    if isinstance(form, np.ndarray):
        np.testing.assert_array_equal(form, A)


def test_float32_of_either_byte_order(call):
    A = integers(call.kind)
    b = targets(len(A))
    ours, theirs = (
        call.answer(answered(call, A.astype(dtype), b.astype(dtype)), 0.0, len(A)) for dtype in ("<f4", ">f4")
    )
    np.testing.assert_array_equal(ours, theirs)
    assert np.asarray(ours).dtype == np.asarray(theirs).dtype
    if call.exact is not None:  # others use other random numbers in the other precision
        same(ours, call.answer(answered(call, A, b), 0.0, len(A)), 1e-5)


@pytest.mark.parametrize("exponent", [-498, -60, 60, 498])  # 1e-150, 1e-18, 1e18, 1e150
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, aslinearoperator])
def test_the_scale_of_the_matrix_does_not_matter(call, exponent, form):
    A = integers(call.kind)
    b = targets(len(A))
    result = answered(call, form(A), b)
    if form is aslinearoperator and abs(exponent) > 100:
        # the units of an operator are not known before it is used, and powers of its products overflow
        for power in (0.6, 1.0, 1.5):
            with pytest.raises(ValueError, match="divide it by its scale"):
                call.run(form(2.0 ** (power * exponent) * A), b, ALPHA, 0)
        return
    scaled = answered(call, form(2.0**exponent * A), b, ALPHA * 2.0 ** (exponent * call.penalty))
    expected = call.answer(result, 0.0, len(A))
    same(np.ldexp(call.answer(scaled, exponent, len(A)), -exponent * call.grows), expected)
    assert scaled.report.converged == result.report.converged
    for key, estimate in result.report.estimates.items():
        other = scaled.report.estimates[key]
        if key in ("error", "trace", "trace_error"):
            other = other.times(2.0**-exponent)
        if key == "log_determinant":
            other = other.plus(-len(A) * exponent * np.log(2.0))
        ends = [[e.value, e.low, e.high] for e in (other, estimate)]
        np.testing.assert_allclose(*ends, rtol=1e-6, atol=1e-9 * np.abs(A).max())


@pytest.mark.parametrize("exponent", [-600, -60, 60, 600])
@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call.targets])
def test_the_scale_of_the_targets_does_not_matter(name, exponent):
    call = CALLS[name]
    A = integers(call.kind)
    b = targets(len(A))
    B = np.column_stack([b, np.ldexp(b, exponent)])  # side by side with others
    result = answered(call, A, B)
    expected = call.answer(answered(call, A, b), 0.0, len(A))
    same(result.x[:, 0], expected)
    same(np.ldexp(result.x[:, 1], -exponent), expected)


def degenerate(kind):
    """Small matrices of low rank, and zeros."""
    square = [np.zeros((1, 1)), np.array([[3.0]]), np.zeros((9, 9)), np.ones((9, 9)), np.diag([2.0, 0.0, 0.0, 1.0])]
    square += [np.zeros((30, 30))]
    square += [np.kron(np.diag([1.0, 0.0, 2.0]), np.ones((8, 8)))]
    if kind in ("symmetric", "definite", "square"):
        return square
    tall = [np.arange(1.0, 6.0)[:, None], np.zeros((7, 2)), np.outer(np.arange(9.0), [1.0, -1.0, 0.0])]
    wide = [np.arange(1.0, 6.0)[None], np.zeros((2, 7)), np.outer([1.0, 2.0], np.arange(8.0))]
    return square + tall + (wide if kind == "any" else [])


def test_zeros_single_rows_and_low_rank(name, call):
    for A in degenerate(call.kind):
        n = len(A)
        b = targets(n) if A.any() else np.ones(n)
        for matrix in (A, scipy.sparse.csr_array(A), aslinearoperator(A), A.astype(np.float32)):
            result = answered(call, matrix, b)
            single = getattr(matrix, "dtype", None) == np.float32
            answer = np.asarray(call.answer(result, 0.0, n))
            if call.exact is not None:
                same(answer, call.exact(A, b, ALPHA), 1e-4 if single else 1e-7)
            if isinstance(result, linalg.LowRank) and np.linalg.matrix_rank(A) <= 3:
                tolerance = 0.1 if name.endswith("tol") else 1e-4 if single else 1e-9
                np.testing.assert_allclose(answer, A, atol=tolerance * np.linalg.norm(A))
            for key, truth in call.truths.items():
                if key in result.report.estimates and not A.any() and key != "excess":
                    assert abs(result.report.estimates[key].value - truth(A, b, ALPHA, result)) <= 1e-12


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_matrices_and_targets_that_are_not_finite_are_refused(call, poison):
    A = integers(call.kind)
    b = targets(len(A))
    A[0, 0] = poison
    for form in (np.asarray, scipy.sparse.csr_array, aslinearoperator):
        with pytest.raises(ValueError, match=r"NaN|infinit"), np.errstate(invalid="ignore"):
            call.run(form(A), b, ALPHA, 0)
    if call.targets:
        b[3] = poison
        with pytest.raises(ValueError, match=r"NaN|infinit"):
            call.run(integers(call.kind), b, ALPHA, 0)


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call.kind in ("symmetric", "definite")])
def test_matrices_that_are_not_symmetric_are_refused_under_every_seed(name):
    call, skew = CALLS[name], np.array([[0.0, 1.0], [-1.0, 0.0]])
    for A in (2.0 * np.eye(2) + skew, 2.0 * np.eye(2) + 1e-3 * skew, np.kron(np.eye(10), 2.0 * np.eye(2) + skew)):
        if name == "trace xnystrace" and len(A) == 2:
            continue  # two products make an exact trace
        for form in (np.asarray, scipy.sparse.csr_array, aslinearoperator):
            if form is aslinearoperator and abs(A[0, 1]) < 0.1:
                continue  # an operator is told by three digits of its products
            for seed in range(12):
                with pytest.raises(ValueError, match="not symmetric"):
                    call.run(form(A), np.ones(len(A)), ALPHA, seed)
    rounded = np.eye(20) + 1e-7 * np.triu(np.ones((20, 20)))  # what float32 does
    call.run(rounded, np.ones(20), ALPHA, 0)


def test_results_beyond_the_range_are_refused():
    A = integers("any")
    for scale, b in ((2.0**-1000, 2.0**100), (2.0**-300, 2.0**1000)):
        for solve in (linalg.lstsq, lambda A, b, **kw: linalg.ridge(A, b, 0.0, **kw)):
            with pytest.raises(ValueError, match="beyond the range of float64"):
                solve(scale * A, b * targets(len(A)), random_state=0)
    with pytest.raises(ValueError, match="divide y by its scale"):
        linalg.newton_sketch("squared", A, 1e200 * targets(len(A)), 1.0)
    largest = np.full((6, 2), np.finfo(np.float32).max)
    np.testing.assert_allclose(linalg.cx(largest, 1, random_state=0).to_dense() / largest, 1.0, rtol=1e-5)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, aslinearoperator])
@pytest.mark.parametrize("scale", [1.0, 1e-70])
def test_penalties_that_leave_nothing_of_the_matrix(form, scale):
    A = integers("any")
    b, alpha = targets(len(A)), 1e200
    expected = (A.T @ b) * (scale / alpha)
    x = linalg.ridge(form(scale * A), b, alpha, random_state=0).x
    np.testing.assert_allclose(x, expected, rtol=1e-9)
    x = linalg.ridge(form(scale * A), b, alpha, method="partial_sketch", random_state=0).x
    assert 0.1 * np.abs(expected).max() < np.abs(x).max() < 10.0 * np.abs(expected).max()
    x = linalg.ridge(form(scale * A), b, alpha, method="full_sketch", random_state=0).x
    assert np.linalg.norm(1e100 * x) < np.linalg.norm(b)  # the excess is a part of ‖b‖²
    K = scale * integers("definite")
    a = linalg.sketched_kernel_ridge(form(K), targets(len(K)), alpha, side="left", random_state=0).x
    assert np.abs(a).max() < 1e-195
    log_determinant = linalg.log_determinant(form(K), alpha=alpha, random_state=0).value
    np.testing.assert_allclose(log_determinant, len(K) * np.log(alpha), rtol=1e-12)
    for method in ("exact", "sketch", "stochastic"):
        d_e = linalg.effective_dimension(form(K), alpha, method=method, kind="kernel", random_state=0).value
        if method == "exact":
            np.testing.assert_allclose(d_e, np.trace(K) / alpha, rtol=1e-9)
        assert abs(d_e) < 1e-6
    assert not linalg.ridge(A.astype(np.float32), b, 1e60, random_state=0).x.any()  # rounded to zero
