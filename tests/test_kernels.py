import numpy as np
import pytest
import scipy.sparse
import sklearn.gaussian_process.kernels as gp
from scipy.spatial.distance import cdist
from scipy.special import comb
from sklearn.base import clone
from sklearn.metrics import pairwise
from sklearn.preprocessing import PolynomialFeatures

import bochner
import laws
from bochner import (
    RBF,
    AdditiveChi2,
    ArcCosine,
    Cauchy,
    Custom,
    CyclicInvariant,
    Exponential,
    Kernel,
    Laplacian,
    Linear,
    MaclaurinSeries,
    Matern,
    Polynomial,
    RationalQuadratic,
    Sobolev,
    as_kernel,
)
from bochner.kernels import squared_distances
from laws import HISTOGRAM_KERNELS, KERNELS, STATIONARY_KERNELS, points


def data_for(name, n, d, dtype=np.float64):
    X = points(n, d).astype(dtype)
    return np.abs(X) if name in HISTOGRAM_KERNELS else X


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_positive_definite_symmetric_and_right_on_the_diagonal(name, d):
    X = data_for(name, 30, d)
    K = KERNELS[name](X)
    np.testing.assert_allclose(K, K.T, atol=1e-12 * K.max())
    np.testing.assert_allclose(KERNELS[name].diagonal(X), np.diag(K), rtol=1e-10, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-10 * len(K) * K.max()


PUBLIC = [cls for cls in Kernel.__subclasses__() if cls.__module__.startswith("bochner.kernels")]


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda c: c.__name__)
def test_registry_covers_every_class(cls):
    def leaves(c):
        return {c} if not c.__subclasses__() else {c}.union(*(leaves(s) for s in c.__subclasses__()))

    def parts(kernel):
        yield type(kernel)
        for value in kernel.get_params(deep=False).values():
            if isinstance(value, Kernel):
                yield from parts(value)

    covered = {part for kernel in KERNELS.values() for part in parts(kernel)} | {Custom}
    final = {c for c in leaves(cls) if not c.__abstractmethods__ and c.__module__.startswith("bochner")}
    assert final <= covered


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("form", ["csr", "csc", "explicit zeros"])
def test_sparse_data_gives_the_same_values(name, form):
    X = data_for(name, 12, 6)
    X[np.abs(X) < 0.5] = 0.0
    S = scipy.sparse.csr_matrix(X)
    if form == "csc":
        S = S.tocsc()
    elif form == "explicit zeros":
        S = S.tolil()
        S = scipy.sparse.csr_matrix(S)
        S.data[:3] = 0.0
        X = S.toarray()
    np.testing.assert_allclose(KERNELS[name](S), KERNELS[name](X), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(KERNELS[name].diagonal(S), KERNELS[name].diagonal(X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_float32_is_kept_and_close(name):
    X = data_for(name, 20, 4)
    K64, K32 = KERNELS[name](X), KERNELS[name](X.astype(np.float32))
    assert K32.dtype == np.float32
    assert KERNELS[name].diagonal(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(K32, K64, atol=3e-5 * np.abs(K64).max())


@pytest.mark.parametrize("name", STATIONARY_KERNELS)
def test_blocks_and_integers_and_lists(name):
    kernel = STATIONARY_KERNELS[name]
    X = [[1, 2], [3, 4], [5, 6]]
    K = kernel(X, X[:2])
    assert K.shape == (3, 2)
    assert K.dtype == np.float64
    np.testing.assert_allclose(K, kernel(np.array(X, float))[:, :2])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_close_points_far_from_the_origin_do_not_cancel(dtype, sparse):
    """Two points 1e-3 apart at distance 1e3: ‖x‖² + ‖y‖² - 2xy has no correct digit in float32."""
    x = np.full((1, 4), 1000.0, dtype)
    y = x.copy()
    y[0, 0] = np.nextafter(y[0, 0], np.inf, dtype=dtype) if dtype == np.float32 else 1000.001
    r = float(abs(y[0, 0] - x[0, 0]))
    args = (scipy.sparse.csr_matrix(x), scipy.sparse.csr_matrix(y)) if sparse else (x, y)
    assert Exponential(r)(*args)[0, 0] == pytest.approx(np.exp(-1.0), rel=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 16, 784])
def test_distances_of_close_points_among_many_keep_their_digits(d, dtype):
    """Rows far from the origin and close to each other: relative errors stay at rounding, whatever the shapes."""
    rng = np.random.default_rng(d)
    X = (1000.0 + 1e-2 * rng.normal(size=(83, d))).astype(dtype)
    squares = squared_distances(X, X[:70])
    exact = cdist(X, X[:70], "sqeuclidean")  # in float64, from the differences
    np.testing.assert_allclose(squares, exact, rtol=2 * (d + 3) * np.finfo(dtype).eps)
    np.testing.assert_allclose(RBF(np.sqrt(d))(X), np.exp(-0.5 * cdist(X, X, "sqeuclidean") / d), atol=1e-5)


def test_scikit_learn_values():
    X, Y = points(9, 3), points(7, 3, seed=1)
    for ours, theirs in (
        (as_kernel("rbf", gamma=0.3), pairwise.rbf_kernel(X, Y, gamma=0.3)),
        (as_kernel("laplacian", gamma=0.3), pairwise.laplacian_kernel(X, Y, gamma=0.3)),
        (Polynomial(3, coef0=1.0), pairwise.polynomial_kernel(X, Y)),
        (Polynomial(2, gamma=0.7, coef0=0.5), pairwise.polynomial_kernel(X, Y, degree=2, gamma=0.7, coef0=0.5)),
        (Linear(), pairwise.linear_kernel(X, Y)),
    ):
        np.testing.assert_allclose(ours(X, Y), theirs, rtol=1e-10)


SKLEARN = [
    gp.RBF(1.3),
    gp.RBF([1.0, 2.0, 3.0]),
    gp.Matern(0.9, nu=0.5),
    gp.Matern(0.9, nu=1.5),
    gp.Matern(0.9, nu=2.5),
    gp.Matern(0.9, nu=0.7),
    gp.Matern(0.9, nu=np.inf),
    gp.RationalQuadratic(1.1, alpha=0.4),
    gp.DotProduct(0.6),
    gp.ExpSineSquared(1.1, periodicity=2.0),
    2.5 * gp.RBF(1.0) + gp.Matern(2.0) * gp.RationalQuadratic(),
    gp.RBF(2.0) ** 2,
    gp.ConstantKernel(0.3) + gp.RBF(1.0),
]


@pytest.mark.parametrize("kernel", SKLEARN, ids=str)
def test_scikit_learn_kernels_convert(kernel):
    X, Y = points(9, 3), points(7, 3, seed=1)
    np.testing.assert_allclose(as_kernel(kernel)(X, Y), kernel(X, Y), rtol=1e-9, atol=1e-12)


def test_white_noise_does_not_convert():
    with pytest.raises(ValueError, match="noise_variance"):
        as_kernel(gp.RBF() + gp.WhiteKernel())


def test_matern_is_continuous_in_nu():
    r = np.array([0.0, 1e-11, 1e-6, 0.1, 1.0, 5.0, 50.0, 2000.0])
    for nu in (0.5, 1.5, 2.5):
        np.testing.assert_allclose(Matern(nu=nu * (1 + 1e-9)).profile(r), Matern(nu=nu).profile(r), atol=1e-7)
    np.testing.assert_allclose(Matern(nu=300.0).profile(r), RBF().profile(r), atol=2e-3)
    np.testing.assert_allclose(Matern(nu=30.0).profile(r), Matern(nu=30.0 + 1e-9).profile(r), rtol=1e-7, atol=1e-300)


def test_length_scales_per_feature():
    X, scales = points(6, 3), np.array([0.5, 1.0, 4.0])
    np.testing.assert_allclose(Matern(scales)(X), Matern()(X / scales), rtol=1e-12)
    np.testing.assert_allclose(Laplacian(scales)(X), np.exp(-cdist(X / scales, X / scales, "cityblock")), rtol=1e-12)


def test_directions():
    X, U = points(6, 3), np.array([[1.0, 0.5], [0.0, 2.0], [-1.0, 0.3]])
    np.testing.assert_allclose(Matern(2.0).along(U)(X), Matern(2.0)(X @ U), rtol=1e-12)
    np.testing.assert_allclose(Linear().along(U)(X), X @ U @ U.T @ X.T, atol=1e-12)
    assert not Linear().along(U).stationary
    assert RBF("median").along(U).resolve(X).kernel.length_scale == RBF("median").resolve(X @ U).length_scale


@pytest.mark.parametrize("directions", [[1.0, 2.0], [[1.0, np.nan]], np.empty((3, 0)), "all", [[1.0], [2.0]]])
def test_directions_that_are_none(directions):
    with pytest.raises(ValueError, match="directions"):
        RBF(1.0).along(directions)(points(6, 3))


def test_algebra_means_what_it_says():
    X = points(6, 3)
    a, b = RBF(1.0), Matern(2.0)
    np.testing.assert_allclose((a + b)(X), a(X) + b(X))
    np.testing.assert_allclose((a * b)(X), a(X) * b(X))
    np.testing.assert_allclose((2 * a)(X), 2 * a(X))
    np.testing.assert_allclose((np.float64(2) * a)(X), (a * 2.0)(X))
    np.testing.assert_allclose((a**3)(X), a(X) ** 3)
    np.testing.assert_allclose(a.on([2, 0])(X), a(X[:, [2, 0]]))
    np.testing.assert_allclose(a.on([-1])(X), a(X[:, 2:]))


def test_kernels_are_parameter_objects():
    kernel = 2.0 * RBF(1.0) + Matern(2.0)
    params = kernel.get_params()
    assert params["left__kernel__length_scale"] == 1.0
    changed = clone(kernel).set_params(left__kernel__length_scale=3.0)
    assert changed.left.kernel.length_scale == 3.0
    assert kernel.left.kernel.length_scale == 1.0


def test_length_scale_from_data():
    X = points(200, 3)
    assert RBF("median").resolve(X).length_scale == pytest.approx(np.median(cdist(X, X)[np.triu_indices(200, 1)]), 0.02)
    centre = np.linalg.norm(X - X.mean(axis=0), axis=1).mean()
    assert RBF("mean").resolve(X).length_scale == pytest.approx(centre)
    assert Laplacian("median").resolve(X).length_scale > RBF("median").resolve(X).length_scale
    kernel = (2.0 * RBF("median").on([0])) * Cauchy("mean")
    resolved = kernel.resolve(X)
    assert isinstance(resolved.left.kernel.kernel.length_scale, float)
    assert kernel.left.kernel.kernel.length_scale == "median"  # what the user gave is never changed
    assert RBF("median").resolve(scipy.sparse.csr_matrix(X)).length_scale == pytest.approx(
        RBF("median").resolve(X).length_scale
    )


@pytest.mark.parametrize("rows", [np.ones((5, 2)), np.zeros((1, 3))])
def test_length_scale_of_constant_or_single_rows_is_one(rows):
    for name in ("median", "mean"):
        assert RBF(name).resolve(rows).length_scale == 1.0


def test_explicit_polynomial_map():
    """(x·y + c)^q is the inner product of all monomials with multinomial weights; C(d+q, q) of them."""
    d, q, c = 3, 3, 0.7
    X = points(6, d)
    monomials = PolynomialFeatures(q)
    Phi = monomials.fit_transform(X)
    assert Phi.shape[1] == comb(d + q, q, exact=True)
    powers = monomials.powers_
    degree = powers.sum(axis=1)
    factorial = np.array([1.0, 1.0, 2.0, 6.0])
    weights = factorial[q] / (factorial[powers].prod(axis=1) * factorial[q - degree]) * c ** (q - degree)
    np.testing.assert_allclose((Phi * weights) @ Phi.T, Polynomial(q, gamma=1.0, coef0=c)(X), rtol=1e-10)


def test_dot_product_kernels_are_their_series():
    t = np.linspace(-1.0, 1.0, 7)
    for name in ("linear", "polynomial", "exponential_dot", "maclaurin"):
        kernel = KERNELS[name]
        series = np.polynomial.polynomial.polyval(t, kernel.coefficients(30, 4))
        np.testing.assert_allclose(kernel.profile(t, 4), series, rtol=1e-10)
    assert Polynomial(2).coefficients(2, 4).shape == (2,)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine_is_the_expectation_it_stands_for(order):
    """Quadrature over the plane of x and y: E over a 2-D Gaussian, by angle."""
    x, y = np.array([1.0, 0.0]), 1.5 * np.array([np.cos(0.8), np.sin(0.8)])
    angle = (np.arange(200_000) + 0.5) * 2 * np.pi / 200_000
    directions = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    a, b = directions @ x, directions @ y
    moment = {0: 1.0, 1: 2.0, 2: 8.0}[order]  # E r^(2 order) of a 2-D Gaussian
    value = 2.0 * moment * np.mean((a > 0) * (b > 0) * a**order * b**order)
    assert ArcCosine(order)(x[None], y[None])[0, 0] == pytest.approx(value, rel=1e-4)


def test_sobolev():
    x, y = np.random.default_rng(0).uniform(size=(2, 40))
    np.testing.assert_allclose(Sobolev()(x[:, None], y[:, None]), 1.0 + np.minimum(x[:, None], y))
    # reproducing: <k(x, ·), f> = f(0) + ∫₀ˣ f' = f(x), by a sum over a fine grid
    t = np.linspace(0.0, 1.0, 100_001)
    section = Sobolev()([[0.3]], t[:, None])[0]
    inner = section[0] * np.cos(0.0) + np.sum(np.diff(section) * np.diff(np.cos(3.0 * t))) / (t[1] - t[0])
    np.testing.assert_allclose(inner, np.cos(0.9), atol=1e-4)
    with pytest.raises(ValueError, match="non-negative"):
        Sobolev()(-x[:, None])


def test_additive_chi2():
    X = np.abs(points(5, 3))
    direct = np.array(
        [[sum(2 * a * b / (a + b) if a + b else 0.0 for a, b in zip(x, y, strict=True)) for y in X] for x in X]
    )
    np.testing.assert_allclose(AdditiveChi2()(X), direct, rtol=1e-12)
    with pytest.raises(ValueError, match="non-negative"):
        AdditiveChi2()(-X)
    with pytest.raises(ValueError, match="non-negative"):
        AdditiveChi2().diagonal(scipy.sparse.csr_matrix(-X))


def test_functions_of_rows_and_of_blocks():
    X, Y = points(5, 3), points(5, 3, seed=2)
    expected = np.exp(-0.5 * cdist(X, Y, "sqeuclidean"))
    by_rows = as_kernel(lambda x, y: np.exp(-0.5 * np.sum((x - y) ** 2)))
    by_blocks = as_kernel(lambda A, B: np.exp(-0.5 * cdist(A, B, "sqeuclidean")))
    for kernel in (by_rows, by_blocks):
        np.testing.assert_allclose(kernel(X, Y), expected)
        np.testing.assert_allclose(kernel.diagonal(X), np.ones(5))


@pytest.mark.parametrize("alpha", [1e-3, 0.5])
def test_primal_and_dual_ridge_are_one(alpha):
    """Ridge on explicit features and kernel ridge on their products: w = Φᵀa, and the representer identity."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    Phi = PolynomialFeatures(2).fit_transform(X)
    a = np.linalg.solve(Phi @ Phi.T + alpha * np.eye(30), y)
    w = np.linalg.solve(Phi.T @ Phi + alpha * np.eye(Phi.shape[1]), Phi.T @ y)
    np.testing.assert_allclose(Phi.T @ a, w, atol=1e-10 / alpha)
    residual = np.linalg.norm(Phi @ np.linalg.lstsq(Phi, y, rcond=None)[0] - y)
    K = Phi @ Phi.T
    assert np.linalg.norm(K @ np.linalg.lstsq(K, y, rcond=1e-12)[0] - y) == pytest.approx(residual, abs=1e-8)


BAD = [
    (lambda: RBF(-1.0), "length_scale must be positive"),
    (lambda: RBF(0.0), "length_scale must be positive"),
    (lambda: RBF(np.nan), "length_scale must be positive"),
    (lambda: RBF([1.0, 2.0])([[0.0]]), "has 2 values but the data has 1 features"),
    (lambda: RBF("median")([[0.0]]), "call kernel.resolve"),
    (lambda: RBF("scott"), "or 'auto'; got 'scott'"),
    (lambda: RBF().set_params(length_scale=0), "length_scale must be positive"),
    (lambda: Matern(nu=1e9), "at most 1e\\+06"),
    (lambda: CyclicInvariant("rbf"), "kernel must be a kernel of bochner"),
    (lambda: Matern(nu=-1), "nu must be a positive number"),
    (lambda: RationalQuadratic(alpha=0), "alpha must be a positive number"),
    (lambda: Polynomial(2.5), "degree must be a positive integer"),
    (lambda: Polynomial(2, coef0=-1), "coef0 must be a positive number or 0"),
    (lambda: Polynomial(2, gamma=-1), "gamma must be a positive number"),
    (lambda: MaclaurinSeries([1.0, -1.0]), "A negative one makes"),
    (lambda: ArcCosine(3), "order must be 0, 1 or 2"),
    (lambda: -1.0 * RBF(), "the factor of a kernel must be a positive number"),
    (lambda: RBF() ** 1.5, "the power of a kernel must be a positive"),
    (lambda: RBF().on([3])([[0.0]]), "do not exist in data with 1 features"),
    (lambda: RBF().on([]), "non-empty list of integers"),
    (lambda: RBF()([0.0, 1.0]), "expected a 2-D array"),
    (lambda: RBF()([[0.0]], [[0.0, 1.0]]), "X has 1 features and Y has 2"),
    (lambda: as_kernel("gauss"), "unknown kernel 'gauss'; the names are"),
    (lambda: as_kernel("rbf", gamma=1.0, length_scale=1.0), "not both"),
    (lambda: as_kernel("matern32", gamma=1.0), "no agreed meaning"),
    (lambda: as_kernel("rbf", gamma=-1.0), "gamma must be a positive number"),
    (lambda: as_kernel(RBF(), gamma=1.0), "go with a kernel given by name"),
    (lambda: as_kernel(3), "kernel must be a name"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[m for _, m in BAD])
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "many"])
def test_invalid_hyperparameters_are_refused_at_construction(name, value):
    parameters = KERNELS[name].get_params(deep=False)
    for parameter in parameters:
        if value != 0 or parameter not in ("coef0", "order"):  # which may be zero
            with pytest.raises(ValueError, match=rf"(be|least) .*got {value!r}"):
                type(KERNELS[name])(**{**parameters, parameter: value})


def test_adding_a_number_is_a_type_error():
    with pytest.raises(TypeError):
        RBF() + 1.0


def test_products_want_matching_rows_and_take_integers():
    X, Y = np.arange(8.0).reshape(4, 2), np.arange(6.0).reshape(3, 2)
    kernel = RBF(2.0)
    V = np.array([[1], [2], [3]])
    np.testing.assert_allclose(kernel.product(X, Y, V), kernel(X, Y) @ V)
    for wrong in (V[:, 0], V[:2]):
        with pytest.raises(ValueError, match="row for each of the 3 rows of Y"):
            kernel.product(X, Y, wrong)
    with pytest.raises(ValueError, match="rows of equal length"):
        kernel.product(X, Y[:, :1], V)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_print_as_they_are_written(name):
    kernel, X = KERNELS[name], np.abs(points(5, 4))
    again = eval(repr(kernel), {**vars(laws), **{n: getattr(bochner, n) for n in dir(bochner)}, "cosh": np.cosh})
    assert repr(again) == repr(kernel)
    np.testing.assert_array_equal(again(X), kernel(X))


@pytest.mark.parametrize(
    "text",
    [
        "RBF(3.0) + 0.5 * Matern(1.0)",
        "Matern(2.0, nu=2.5) + (RBF(1.0) + Linear())",
        "2.0 * (RBF(1.0) + Linear()) * Laplacian('median')",
        "RBF([1.0, 2.0]) * (0.5 * Polynomial(degree=2))",
        "((RBF(1.0) * Linear()) ** 2) ** 3",
        "(RBF(1.0) + Linear()).on([0, 1])",
        "CyclicInvariant(RBF(2.0), shape=[2, 2])",
        "0.5 * (2.0 * RBF(1.0))",
    ],
)
def test_brackets_stand_where_they_are_needed(text):
    assert repr(eval(text, vars(bochner) | {n: getattr(bochner, n) for n in dir(bochner)})) == text


def test_long_parameters_are_cut():
    assert repr(RBF(np.arange(1.0, 40.0))) == "RBF([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, … 39 in all])"
    assert repr(RBF(1.0).along(np.ones((5, 2)))) == "RBF(1.0).along(5 × 2 matrix)"
