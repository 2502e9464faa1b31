import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import cauchy, chi2, gamma, laplace

from bochner import Matern
from bochner.spectra import (
    cauchy_quantile,
    laplace_quantile,
    matern_mixing,
    numeric_mixing,
    numeric_quantile,
    rational_quadratic_mixing,
    spectral_density,
)
from laws import RADIAL_KERNELS, SEPARABLE_KERNELS, triangle

U = (np.arange(100_000) + 0.5) / 100_000  # midpoints: integrates smooth functions of u to about 1e-5


@pytest.mark.parametrize("name", RADIAL_KERNELS)
def test_profile_is_the_gaussian_mixture_of_its_mixing_law(name):
    kernel = RADIAL_KERNELS[name]
    s = kernel.mixing(U)
    assert (s > 0).all()
    for r in (0.0, 0.3, 1.0, 2.5, 6.0):
        mixture = np.exp(-0.5 * (s * r) ** 2).mean()
        # 1e-3: what numeric_mixing promises; the closed forms are limited by the midpoint rule in the tails
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


def test_numeric_mixing_reproduces_closed_forms():
    for profile in (np.exp, lambda r: np.exp(r) * (1 + 1e-300)):
        law = numeric_mixing(lambda r, f=profile: f(-r))
        assert law.residual < 1e-8
        assert law.weights.min() > 0
        assert law.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "profile", [triangle, np.cos, lambda r: np.exp(-(r**4))], ids=["triangle", "cosine", "quartic"]
)
def test_numeric_mixing_rejects_what_is_not_positive_definite_in_every_dimension(profile):
    with pytest.raises(ValueError, match="not positive definite in every dimension"):
        numeric_mixing(profile)


def test_numeric_quantile_rejects_a_negative_spectrum():
    with pytest.raises(ValueError, match="spectral mass is negative"):
        numeric_quantile(lambda r: (r <= 1.0).astype(float))


@pytest.mark.parametrize("bad", [lambda r: 2.0 * np.exp(-r), lambda r: r * np.nan, lambda r: 1.0])
def test_numeric_laws_check_the_profile(bad):
    for find in (numeric_mixing, numeric_quantile):
        with pytest.raises(ValueError, match="profile must"):
            find(bad)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_spectral_density_is_non_negative_and_integrates_to_one(d):
    """Bochner: the surface integral of the density over R^d is k(0)."""
    kernel = Matern(1.0, nu=2.5)
    w = np.linspace(1e-3, 25.0, 400)
    p = spectral_density(kernel.profile, d, w)
    assert p.min() > -1e-8
    sphere = 2.0 * np.pi ** (d / 2) / quad(lambda t: t ** (d / 2 - 1) * np.exp(-t), 0, np.inf)[0]
    mass = np.trapezoid(p * sphere * w ** (d - 1), w)
    assert mass == pytest.approx(1.0, abs=5e-3)


def test_spectral_density_shows_a_negative_spectrum():
    w = np.linspace(0.1, 12.0, 60)
    assert spectral_density(triangle, 1, w).min() > -1e-8  # positive definite on the line
    assert spectral_density(triangle, 5, w).min() < -1e-6  # and not in five dimensions
