"""Registries of everything that obeys a law, and the statistics the laws are tested with.

A new kernel, row law, map or estimator adds one line here and inherits every test that walks its registry.
"""

from __future__ import annotations

import numpy as np
from scipy.special import j0
from scipy.stats import norm

from bochner import (
    RBF,
    AdditiveChi2,
    AdditiveChi2Features,
    ArcCosine,
    Cauchy,
    CompactFeatures,
    CyclicInvariant,
    DotProduct,
    Exponential,
    ExponentialDot,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelFeatures,
    KernelKMeans,
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
    NystromFeatures,
    Polynomial,
    ProjectedMixture,
    Radial,
    RandomBinningFeatures,
    RandomProjection,
    RationalQuadratic,
    Separable,
    Sobolev,
    TabularClassifier,
    TabularRegressor,
    TensorSketchFeatures,
)
from bochner.draws.compositions import Chained, Scaled, Selected, Stacked, Summed
from bochner.draws.linear_maps import Dense
from bochner.sampling import ROW_LAWS
from bochner.sketches import SKETCH_LAWS


def slowly_decaying(r):
    return 1.0 / np.sqrt(1.0 + r * r)


def triangle(r):
    return np.maximum(0.0, 1.0 - r)


def wendland(degree):
    """(1 - r)₊^(degree + 1) ((degree + 1) r + 1), positive definite up to 2 degree - 3 dimensions."""
    return lambda r: np.maximum(0.0, 1.0 - r) ** (degree + 1) * ((degree + 1) * r + 1.0)


# Profiles, and the largest dimension in which they are positive definite.
EVERY = 10**9
PROFILES = {
    "gaussian": (lambda r: np.exp(-0.5 * r * r), EVERY),
    "exponential": (lambda r: np.exp(-r), EVERY),
    "matern32": (lambda r: (1.0 + r) * np.exp(-r), EVERY),
    "square root": (lambda r: np.exp(-np.sqrt(r)), EVERY),
    "rational": (lambda r: 1.0 / (1.0 + r * r), EVERY),
    "rational quadratic": (lambda r: (1.0 + r * r / 3.0) ** -1.5, EVERY),
    "slowly decaying": (slowly_decaying, EVERY),
    "hyperbolic": (lambda r: 2.0 / (np.exp(r) + np.exp(-r)), EVERY),
    "two scales": (lambda r: 0.5 * np.exp(-r) + 0.5 * np.exp(-1e6 * r), EVERY),
    "constant": (np.ones_like, EVERY),
    "not to zero": (lambda r: 0.3 + 0.7 * np.exp(-r), EVERY),
    "wendland 4": (wendland(4), 5),
    "wendland 3": (wendland(3), 3),
    "spherical": (lambda r: np.where(r < 1.0, 1.0 - 1.5 * r + 0.5 * r**3, 0.0), 3),
    "askey": (lambda r: np.maximum(0.0, 1.0 - r) ** 2, 3),
    "sine over r": (lambda r: np.sinc(r / np.pi), 3),
    "bessel": (j0, 2),
    "damped bessel": (lambda r: j0(3.0 * r) * np.exp(-r), 2),
    "hat": (lambda r: (1.0 - 0.4 * r * r) * np.exp(-0.5 * r * r), 2),
    "triangle": (triangle, 1),
    "raised triangle": (lambda r: 0.5 + 0.5 * triangle(r), 1),
    "cosine": (np.cos, 1),
    "damped cosine": (lambda r: np.cos(3.0 * r) * np.exp(-0.5 * r * r), 1),
    "quartic": (lambda r: np.exp(-(r**4)), 0),
    "a little over two": (lambda r: np.exp(-(r**2.001)), 0),
    "indicator": (lambda r: (r < 1.0).astype(float), 0),
    "parabola": (lambda r: np.maximum(0.0, 1.0 - r * r), 0),
    "negative mean": (lambda r: 1.2 * np.exp(-r) - 0.2, 0),
    "beyond one": (lambda r: (1.0 + r) * np.exp(-0.5 * r), 0),
}
# profile, dimension: oscillations that decay too slowly for numbers to decide
UNDECIDED = {("bessel", 1), ("sine over r", 2)}

# Stationary kernels with a spectral law, positive definite in every dimension.
RADIAL_KERNELS = {
    "rbf": RBF(1.2),
    "matern32": Matern(1.5),
    "matern_0.8": Matern(1.1, nu=0.8),
    "exponential": Exponential(2.0),
    "rational_quadratic": RationalQuadratic(1.0, alpha=0.7),
    "radial": Radial(slowly_decaying, 0.9),
}
SEPARABLE_KERNELS = {
    "laplacian": Laplacian(3.0),
    "cauchy": Cauchy(2.0),
    "separable": Separable(triangle, 4.0),
}
COMPOSITE_KERNELS = {
    "sum": 2.0 * RBF(1.0) + Matern(2.0, nu=2.5),
    "product": RBF(1.5) * RationalQuadratic(2.0),
    "power": Matern(2.0) ** 2,
    "restricted": RBF(1.0).on([0]) + 0.5 * Exponential(1.0),
    # of the first and the last column, however many there are
    "projected": Matern(1.5).along([[1.0, 0.4], [-0.6, 0.8]]).on([0, -1]),
}
STATIONARY_KERNELS = RADIAL_KERNELS | SEPARABLE_KERNELS | COMPOSITE_KERNELS
OTHER_KERNELS = {
    "linear": Linear(),
    "polynomial": Polynomial(3, gamma=0.5, coef0=1.0),
    "exponential_dot": ExponentialDot(0.3),
    "maclaurin": MaclaurinSeries([0.5, 0.0, 1.0, 0.25]),
    "dot_product": DotProduct(np.cosh),
    "cyclic": CyclicInvariant(RBF(1.5)),
    "arc_cosine_0": ArcCosine(0),
    "arc_cosine_1": ArcCosine(1),
    "arc_cosine_2": ArcCosine(2),
    "mixed": Polynomial(2, gamma=1.0, coef0=0.0) * RBF(2.0) + Linear(),
}
# needs non-negative data
HISTOGRAM_KERNELS = {"additive_chi2": AdditiveChi2(), "sobolev": Sobolev()}
KERNELS = STATIONARY_KERNELS | OTHER_KERNELS | HISTOGRAM_KERNELS

# Linear maps of n_features columns, as factories (n_features, key) -> LinearMap.
LINEAR_MAPS = {
    **{name: (lambda d, key, law=law: law.sample(d, 2 * d + 3, key)) for name, law in ROW_LAWS.items()},
    "scaled": lambda d, key: Scaled(ROW_LAWS["structured"].sample(d, 9, key), np.linspace(0.5, 2.0, d)),
    "selected": lambda d, key: Selected(ROW_LAWS["fastfood"].sample(2, 5, key), np.array([d - 1, 0]), d),
    "stacked": lambda d, key: Stacked(
        (ROW_LAWS["structured"].sample(d, 3, key), ROW_LAWS["iid"].sample(d, 4, key.child(1)))
    ),
    "summed": lambda d, key: Summed(
        (ROW_LAWS["circulant"].sample(d, 6, key), ROW_LAWS["fastfood"].sample(d, 6, key.child(1)))
    ),
    **{
        f"{name} sketch": (lambda d, key, law=law: law.resolve(points(d, 2), key).sample(d, d + 3, key))
        for name, law in SKETCH_LAWS.items()
    },
    "chained": lambda d, key: Chained(
        ROW_LAWS["structured"].sample(7, 4, key), ROW_LAWS["fastfood"].sample(d, 7, key.child(1))
    ),
    "dense": lambda d, key: Dense(key.generator().standard_normal((5, d))),
}

# Every public estimator, small enough for scikit-learn's common checks.
ESTIMATORS = [
    FourierFeatures(n_components=20, random_state=0),
    FourierFeatures("matern32", n_components=7, rows="structured", random_state=0),
    KernelRidge(RBF(8.0), n_components=50, alpha=0.001, random_state=0),
    KernelRidge(n_components=30, random_state=0),
    KernelClassifier(RBF(3.0), n_components=30, alpha=0.1, solver_tol=1e-14, random_state=0),
    KernelClassifier(RBF(3.0), n_components=30, alpha=0.1, solver_tol=1e-14, loss="squared_hinge", random_state=0),
    KernelClassifier(RBF(3.0), n_components=30, alpha=0.1, loss="squared", random_state=0),
    KernelClassifier(n_components=30, random_state=0),
    GaussianProcessRegressor(RBF(8.0), n_components=50, features="fourier", random_state=0),
    GaussianProcessRegressor(n_components=30, n_restarts=0, random_state=0),
    KernelRidge("auto", n_components=30, alpha=0.1, metric="diagonal", random_state=0),
    KernelClassifier(n_components=30, metric="diagonal", random_state=0),
    GaussianProcessRegressor("matern32", n_components=30, metric="full", random_state=0),
    KernelPCA(2, n_feature_components=20, random_state=0),
    KernelPCA(2, kernel=RBF(3.0), n_feature_components=20, features="fourier", random_state=0),
    KernelKMeans(3, n_components=20, random_state=0),
    NystromFeatures(n_components=10, random_state=0),
    NystromFeatures("laplacian", n_components=7, landmarks="rpcholesky", random_state=0),
    NystromFeatures(n_components=8, variant="meka", random_state=0),
    MaclaurinFeatures(n_components=20, random_state=0),
    MaclaurinFeatures(Polynomial(2), n_components=20, allocation="geometric", random_state=0),
    MonomialFeatures(Polynomial(2)),
    KitchenSinkFeatures(n_components=20, random_state=0),
    KitchenSinkFeatures("cos", n_components=7, rows="structured", length_scale="median", random_state=0),
    KernelFeatures(RBF("median") * Linear() + Matern(1.0), n_components=20, random_state=0),
    CompactFeatures(n_components=5, random_state=0),
    RandomBinningFeatures(64, n_grids=20, random_state=0),
    AdditiveChi2Features(),
    AdditiveChi2Features(n_components=15, random_state=0),
    LearnedFeatures(n_components=6, max_iter=5, random_state=0),
    LearnedFeatures(n_components=7, n_candidates=3, max_iter=0, random_state=0),
    LearnedFeatures(n_components=5, max_iter=5, loss="squared", circulant=True, random_state=0),
    RandomProjection(2, random_state=0),
    RandomProjection(2, law="srht", random_state=0),
    TensorSketchFeatures(n_components=20, random_state=0),
    TensorSketchFeatures(n_components=9, factors="complex_srht", direction=None, random_state=0),
]

# Mixtures of Gaussians: of rows as they are, without a kernel, a stream or an ONNX graph.
MIXTURES = [ProjectedMixture(3, random_state=0)]

# Models of tables: of frames rather than of rows, so that they have no streams.
TABLES = [
    TabularClassifier("exponential", "standard", n_members=1, max_seconds=1.0, random_state=0),
    TabularRegressor(leaf_size=40, max_seconds=1.0, random_state=0),
]

# class name, or repr of one estimator -> {check name: the reason why it cannot hold}
_LANDMARKS = "landmarks and the median distance are taken from the rows as they come, and repeated rows are other rows"
_LEFT_OUT = "kernels, scales and penalties are chosen by leaving a row out with all its weight, not one of its copies"
# estimators that choose a penalty, a scale or a noise
CHOOSING = [
    estimator
    for estimator in ESTIMATORS
    if isinstance(estimator, (KernelRidge, KernelClassifier, GaussianProcessRegressor))
    and (isinstance(estimator.kernel, str) or isinstance(estimator, GaussianProcessRegressor))
]
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    repr(LearnedFeatures(n_components=7, n_candidates=3, max_iter=0, random_state=0)): {
        "check_transformer_n_iter": "no iteration is asked for"
    },
    **{
        repr(estimator): {
            "check_sample_weight_equivalence_on_dense_data": _LEFT_OUT,
            "check_sample_weight_equivalence_on_sparse_data": _LEFT_OUT,
        }
        for estimator in (*CHOOSING, *TABLES)
    },
    **{
        repr(estimator): {
            "check_sample_weight_equivalence_on_dense_data": _LANDMARKS,
            "check_sample_weight_equivalence_on_sparse_data": _LANDMARKS,
        }
        for estimator in (KernelKMeans(3, n_components=20, random_state=0),)
    },
}


def points(n, d, seed=0, scale=1.0):
    """Rows off the axes, then rows on the first axis, one of them doubled and one of them the origin."""
    X = scale * np.random.default_rng(seed).normal(size=(n, d))
    X[n // 2 :] = 0.0
    X[n // 2 :, 0] = scale * np.arange(n - n // 2) / 2.0
    X[-1] = X[0]
    return X


def rounding_squares(statistics, alpha, fit_intercept=True):
    """Σ w (change of a prediction)², (k,), of rows whose features were rounded: what theory expects at most.

    Errors of variance v with v n = s alpha change the coefficients w by (G + alpha)⁻¹ (Eᵀr - ZᵀEw) and by what a
    further penalty of s alpha does. With residuals r and effective dimension d, Zδw has squares of at most
    s d (‖r‖² + alpha ‖w‖²)/n for the first on average, and s² alpha ‖w‖²/4 for the second. A sum of some d squares of
    normal variables, none much larger than the others, is within six standard deviations.
    """
    share, spectrum = statistics.rounding_noise / alpha, statistics.spectrum(fit_intercept)
    sizes = alpha * (spectrum.coefficients(alpha) ** 2).sum(axis=0)
    d = spectrum.effective_dimension([alpha])[0]
    moved = share * d * (spectrum.residual_squares([alpha])[0] + sizes) / statistics.n_samples
    return (1.0 + 6.0 * np.sqrt(2.0 / d)) * moved + share**2 * sizes / 4.0


def z_bound(n_comparisons, delta=1e-6):
    """The |z| that one of n_comparisons standard normal variables exceeds with probability at most delta."""
    return norm.isf(delta / (2.0 * n_comparisons))


def assert_unbiased(samples, truth, *, floor=1e-12, delta=1e-6):
    """The mean of independent draws (first axis) is the truth, entry by entry.

    Student's t with as few as 100 draws has heavier tails than the normal law: hence the factor 1.15.
    """
    n = len(samples)
    standard_error = samples.std(axis=0, ddof=1) / np.sqrt(n)
    bias = np.abs(samples.mean(axis=0) - truth)
    bound = 1.15 * z_bound(np.size(truth), delta) * standard_error + floor
    worst = np.argmax(bias - bound)
    assert (bias <= bound).all(), (
        f"bias {bias.flat[worst]:.3g} with standard error {standard_error.flat[worst]:.3g} over {n} draws"
    )
