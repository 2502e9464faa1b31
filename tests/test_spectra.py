"""Laws of frequencies: closed forms against SciPy, laws found from a profile alone against closed forms."""

import numpy as np
import pytest
from scipy.special import hyp0f1, sici
from scipy.stats import cauchy, chi, chi2, gamma, kstest, laplace
from scipy.stats import f as fisher

from bochner import RBF, Cauchy, Exponential, FourierFeatures, Laplacian, Matern, Radial, RationalQuadratic, Separable
from bochner.draws.keys import Key
from bochner.draws.mixtures import (
    TOLERANCE,
    cauchy_quantile,
    laplace_quantile,
    matern_mixing,
    numeric_mixing,
    profile_scale,
    rational_quadratic_mixing,
)
from bochner.draws.radii import RadialSpectrum, find_radii
from bochner.features.fourier import draw_frequencies, fourier_map
from bochner.sampling import ROW_LAWS
from laws import PROFILES, RADIAL_KERNELS, SEPARABLE_KERNELS, UNDECIDED, assert_unbiased, points

U = (np.arange(100_000) + 0.5) / 100_000  # midpoints: integrates smooth functions of u to about 1e-5
DIMENSIONS = [1, 2, 3, 5]
SCALES = [1e-6, 300.0, 1e6]


@pytest.mark.parametrize("name", RADIAL_KERNELS)
def test_profile_is_the_gaussian_mixture_of_its_mixing_law(name):
    kernel = RADIAL_KERNELS[name]
    s = kernel.mixing(U)
    assert (s > 0).all()
    for r in (0.0, 0.3, 1.0, 2.5, 6.0):
        mixture = np.exp(-0.5 * (s * r) ** 2).mean()
        # 1e-3: what numeric laws promise; the closed forms are limited by the midpoint rule in the tails
        assert abs(mixture - kernel.profile(np.array([r]))[0]) < 1.1e-3


@pytest.mark.parametrize("name", SEPARABLE_KERNELS)
def test_coordinate_law_is_the_spectrum_of_one_coordinate(name):
    kernel = SEPARABLE_KERNELS[name]
    w = kernel.quantile(U)
    scale = float(kernel.length_scale)
    for x in (0.0, 0.5, 1.0, 3.0):
        exact = kernel([[0.0]], [[x * scale]])[0, 0]
        assert abs(np.cos(w * x).mean() - exact) < 2e-3


def test_quantiles_agree_with_scipy():
    u = np.linspace(0.001, 0.999, 97)
    np.testing.assert_allclose(cauchy_quantile(u), cauchy.ppf(u), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(laplace_quantile(u), laplace.ppf(u), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(matern_mixing(u, 1.5), np.sqrt(3.0 / chi2.isf(u, 3)), rtol=1e-9)
    np.testing.assert_allclose(rational_quadratic_mixing(u, 0.7), np.sqrt(gamma.ppf(u, 0.7, scale=1 / 0.7)), rtol=1e-9)


@pytest.mark.parametrize("nu", [0.1, 0.3, 0.8, 7.3, 40.0])
def test_matern_profiles_are_smooth_down_to_zero(nu):
    """1 - k goes with r^(2 min(nu, 1)), however small: a jump at 0 would be white noise."""
    kernel = Matern(1.0, nu=nu)
    r = np.geomspace(1e-40, 1e-3, 60)
    mixture = np.exp(-0.5 * (matern_mixing(U, nu) * r[:, None]) ** 2).mean(axis=1)
    np.testing.assert_allclose(kernel.profile(r), mixture, atol=2e-4)


# -- a profile and nothing else ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-25, 1e-6, 1.0, 1e6, 1e25])
def test_the_scale_of_a_profile_is_found_over_fifty_decades(scale):
    assert profile_scale(lambda r: np.exp(-r / scale))[0] == pytest.approx(scale * np.log(2.0), rel=1e-9)
    # all that a cosine falls by is seen at some radii only
    assert profile_scale(lambda r: np.cos(r / scale))[0] == pytest.approx(scale * np.pi / 2.0, rel=1e-2)


@pytest.mark.parametrize(
    "bad", [lambda r: 2.0 * np.exp(-r), lambda r: r * np.nan, lambda r: 1.0, lambda r: 1.0 * (r == 0)]
)
def test_numeric_laws_check_the_profile(bad):
    for find in (numeric_mixing, lambda profile: find_radii(profile, 1)):
        with pytest.raises(ValueError, match="profile must"):
            find(bad)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
def test_transforms_are_within_their_stated_errors(d):
    """Against χ and Fisher's laws, the lengths of Gaussian and Student vectors."""
    w = np.geomspace(1e-2, 300.0, 150)
    found = {"gaussian": (chi(d).cdf(w), w * chi(d).pdf(w))}
    for name, nu in (("exponential", 0.5), ("matern32", 1.5)):
        square = 2.0 * nu * w**2 / d
        found[name] = fisher.cdf(square, d, 2.0 * nu), 2.0 * square * fisher.pdf(square, d, 2.0 * nu)
    for name, (mass, density) in found.items():
        spectrum = RadialSpectrum(PROFILES[name][0], d)
        for (value, error), right in ((spectrum.cumulative(w), mass), (spectrum.density(w), density)):
            assert (np.abs(value - right) <= error + 1e-15).all()
            assert error[w < 10.0].max() < 1e-9 * 10.0 ** max(0, d - 5)  # and they are small


@pytest.mark.parametrize("d", [*DIMENSIONS, 11])
@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_found_positive_definite_up_to_its_dimension(name, d):
    profile, most = PROFILES[name]
    found = find_radii(profile, d)
    if (name, d) in UNDECIDED:
        assert found.law is None
        assert found.witness is None
        return
    assert (found.law is not None) == (d <= most)
    assert (found.witness is not None) == (d > most)
    if found.law is not None:
        assert found.law.error <= TOLERANCE
        # E of the mean of exp(i w·x) over directions, Ω_d(|w| r); midpoints of heavy tails are good for 2e-3
        r = profile_scale(profile)[0] * np.array([0.0, 0.3, 1.0, 3.0, 10.0])
        waves = hyp0f1(0.5 * d, -0.25 * np.outer(r, found.law(U)) ** 2).mean(axis=1)
        np.testing.assert_allclose(waves, profile(r), atol=found.law.error + 2e-3)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("name", [name for name, (_, most) in PROFILES.items() if most])
def test_tables_have_the_profile_as_their_kernel_to_the_stated_error(name, d):
    """Frequencies uniform between the entries of the table: in one and three dimensions an integral by formula."""
    profile, most = PROFILES[name]
    if d > most or (name, d) in UNDECIDED:
        return
    law = find_radii(profile, d).law
    left, right, mass = law.lengths[:-1], law.lengths[1:], np.diff(law.cumulative)
    for r in profile_scale(profile)[0] * np.append(np.geomspace(1e-3, 30.0, 40), [1.0, 1.5, 2.0, 2.5]):
        integral = np.sin if d == 1 else lambda x: sici(x)[0]
        with np.errstate(invalid="ignore", divide="ignore"):
            waves = (integral(right * r) - integral(left * r)) / ((right - left) * r)
        atoms = right - left <= 1e-12 * right
        waves[atoms] = hyp0f1(0.5 * d, -0.25 * (left[atoms] * r) ** 2)
        assert abs(mass @ waves - profile(np.array([r]))[0]) <= law.error + 1e-12


STRETCHED = {
    "gaussian": (RBF, lambda s: s),
    "exponential": (Exponential, lambda s: s),
    "matern32": (Matern, lambda s: np.sqrt(3.0) * s),
    "rational quadratic": (lambda s: RationalQuadratic(s, alpha=1.5), lambda s: s),
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", STRETCHED)
def test_radial_has_the_law_of_the_built_in_kernel_at_every_scale(name, scale):
    make, length = STRETCHED[name]
    profile = PROFILES[name][0]
    ours, theirs = (
        draw_frequencies(kernel, ROW_LAWS["iid"], 2, 4000, Key(seed)).to_dense()[:, 0] * scale
        for seed, kernel in enumerate([Radial(lambda r: profile(r / scale)), make(length(scale))])
    )
    assert kstest(ours, theirs).pvalue > 1e-6


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("name", "kernel"), [("gaussian", RBF), ("exponential", Laplacian), ("rational", Cauchy)], ids=lambda v: str(v)[:12]
)
def test_separable_has_the_law_of_the_built_in_kernel_at_every_scale(name, kernel, scale):
    profile = PROFILES[name][0]
    ours = Separable(lambda r: profile(r / scale))
    if kernel is RBF:
        theirs = draw_frequencies(RBF(scale), ROW_LAWS["iid"], 1, 4000, Key(1)).to_dense().ravel()
    else:
        theirs = kernel(scale).quantile(np.random.default_rng(1).random(4000)) / scale
    assert kstest(ours.quantile(np.random.default_rng(0).random(4000)) * scale, theirs * scale).pvalue > 1e-6


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", [name for name, (_, most) in PROFILES.items() if most])
def test_features_of_a_profile_have_its_kernel_at_every_scale(name, scale):
    """In as many dimensions as the profile allows, up to three; and coordinate by coordinate."""
    profile, most = PROFILES[name]
    d = min(most, 3)
    X = profile_scale(profile)[0] * scale * points(8, d)
    for kernel in (Radial(lambda r: profile(r / scale)), Separable(lambda r: profile(r / scale))):
        draws = []
        if isinstance(kernel, Separable) and (name, 1) in UNDECIDED:
            continue
        for seed in range(100):
            Z = fourier_map(kernel, ROW_LAWS["iid"], d, 32, "pairs", Key(seed), np.float64)(X)
            draws.append(Z @ Z.T)
        assert_unbiased(np.array(draws), kernel(X), floor=d * TOLERANCE)


@pytest.mark.parametrize("rows", ROW_LAWS)
@pytest.mark.parametrize("name", ["spherical", "wendland 3"])
def test_every_law_of_rows_takes_a_profile_of_its_dimension(rows, name):
    kernel, X, draws = Radial(PROFILES[name][0], 2.0), points(8, 3), []
    for seed in range(150):
        Z = fourier_map(kernel, ROW_LAWS[rows], 3, 33, "pairs", Key(seed), np.float64)(X)
        draws.append(Z @ Z.T)
    assert_unbiased(np.array(draws), kernel(X), floor=TOLERANCE + ROW_LAWS[rows].bias(3))


def test_refusals_name_the_dimension_and_the_reason():
    X = points(6, 4)
    for name in ("spherical", "wendland 3", "bessel"):
        kernel = Radial(PROFILES[name][0])
        with pytest.raises(ValueError, match=r"not positive definite for 4 feature\(s\): in \d dimension\(s\)"):
            FourierFeatures(kernel).fit(X)
        assert FourierFeatures(kernel.on([0, 3]), random_state=0).fit(X).n_components_ == 256
    with pytest.raises(
        ValueError, match=r"no distribution of frequencies was found for this profile and 1 .* does not decay"
    ):
        FourierFeatures(Separable(PROFILES["bessel"][0])).fit(X)
    with pytest.raises(ValueError, match=r"not positive definite for 1 feature\(s\)"):
        FourierFeatures(Separable(PROFILES["indicator"][0])).fit(X)


def test_noise_in_a_profile_convicts_nobody():
    """Values in half and in single precision: no false verdict from what rounding does."""
    for dtype in (np.float16, np.float32):
        for d in DIMENSIONS:
            found = find_radii(lambda r, dtype=dtype: np.exp(-r).astype(dtype), d)
            assert found.witness is None
            assert found.law is not None
