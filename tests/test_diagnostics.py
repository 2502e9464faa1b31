"""Diagnostics against dense spectra and closed forms."""

import numpy as np
import pytest
import scipy.sparse

from bochner import RBF, Exponential, Linear, Radial, Separable
from bochner.diagnostics import (
    box_discrepancy,
    distance_concentration,
    effective_dimension_curve,
    gram_spectrum,
    leverage_coherence,
    spectral_check,
    spectrum_decay,
    star_discrepancy,
)
from bochner.draws.keys import Key
from bochner.features.fourier import draw_frequencies
from bochner.sampling import ROW_LAWS
from laws import PROFILES, SEPARABLE_KERNELS, STATIONARY_KERNELS, UNDECIDED


def dense(X, kernel, alpha):
    K = kernel(X)
    H = K @ np.linalg.inv(K + alpha * np.eye(len(K)))
    return np.trace(H), np.diag(H)


@pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0])
def test_all_rows_give_the_dense_numbers(alpha):
    X = np.random.default_rng(0).normal(size=(150, 4))
    spectrum = gram_spectrum(X, RBF(2.0))
    dimension, leverage = dense(X, RBF(2.0), alpha)
    assert spectrum.complete
    assert spectrum.effective_dimension(alpha) == pytest.approx((dimension, dimension), rel=1e-8)
    np.testing.assert_allclose(spectrum.leverages(alpha), leverage, atol=1e-8)
    found = leverage_coherence(X, RBF(2.0), alpha=alpha)
    assert found.exact
    assert found.coherence == pytest.approx(150 * leverage.max() / dimension, rel=1e-6)


@pytest.mark.parametrize("kernel", [RBF(2.0), Exponential(3.0)], ids=repr)
@pytest.mark.parametrize("alpha", [0.3, 3.0, 30.0])
def test_samples_bracket_the_effective_dimension_on_average(kernel, alpha):
    X = np.random.default_rng(0).normal(size=(900, 4))
    dimension, _ = dense(X, kernel, alpha)
    brackets = np.array(
        [gram_spectrum(X, kernel, max_rows=200, random_state=s).effective_dimension(alpha) for s in range(40)]
    )
    error = 6.0 * brackets.std(axis=0, ddof=1) / np.sqrt(len(brackets))
    low, high = brackets.mean(axis=0)
    assert low - error[0] <= dimension <= high + error[1]
    assert high <= 5.0 * low


def test_curve_falls_from_the_rank_to_nothing():
    X = np.random.default_rng(0).normal(size=(100, 3))
    curve = effective_dimension_curve(X, Linear(), alphas=[1e-3, 1.0, 1e9])
    np.testing.assert_allclose(curve.values[[0, 2]], [3.0, 0.0], atol=1e-3)
    assert "between" in repr(curve)
    assert (np.diff(effective_dimension_curve(X).values) <= 0).all()


def test_decay():
    line = np.linspace(0.0, 1.0, 400)[:, None]
    smooth, rough = spectrum_decay(line, RBF(0.1)), spectrum_decay(line, Exponential(0.1))
    assert smooth.law == "exponential"
    assert rough.law == "polynomial"
    assert rough.power == pytest.approx(2.0, abs=0.3)  # exp(-|x - y|): eigenvalues fall like j^-2
    assert smooth.ranks[0.99] < rough.ranks[0.99]
    assert "eigenvalues fall like" in repr(rough)
    sampled = spectrum_decay(line, Exponential(0.1), max_rows=100, random_state=0)
    assert sampled.eigenvalues[0] == pytest.approx(rough.eigenvalues[0], rel=0.3)


def test_distances_concentrate_like_the_normal_law():
    rng = np.random.default_rng(0)
    for d in (1, 10, 300):
        found = distance_concentration(rng.normal(size=(1500, d)))
        assert found.dimension == pytest.approx(d, rel=0.15)
    assert found.contrast < 0.1
    assert "nearly the same" in repr(found)
    assert distance_concentration(np.ones((5, 2))).contrast == 0.0
    sparse = scipy.sparse.random(50, 30, density=0.2, random_state=0, format="csr")
    assert distance_concentration(sparse).mean == pytest.approx(distance_concentration(sparse.toarray()).mean)
    huge = distance_concentration(1e200 * rng.normal(size=(100, 3)))
    assert np.isfinite(huge.mean)
    with pytest.raises(ValueError, match="two rows"):
        distance_concentration(np.ones((1, 2)))


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("name", STATIONARY_KERNELS)
def test_every_kernel_with_a_spectrum_passes_bochners_theorem(name, d):
    found = spectral_check(STATIONARY_KERNELS[name], d)
    assert found.positive is True, found


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("name", PROFILES)
def test_no_profile_gets_a_wrong_verdict(name, d):
    profile, most = PROFILES[name]
    found = spectral_check(profile, d)
    assert found.positive is (None if (name, d) in UNDECIDED else d <= most), found


def test_verdicts_of_composite_kernels():
    triangle, wide = Radial(PROFILES["triangle"][0]), RBF(3.0)
    assert spectral_check(2.0 * triangle, 3).positive is False
    assert spectral_check(triangle.on([1]), 3).positive is True
    assert spectral_check(triangle.on([0, 1]), 3).positive is False
    # a sum, product or power may be positive definite though a part is not
    for kernel in (triangle + wide, triangle * wide, triangle**2):
        assert spectral_check(kernel, 3).positive is None
        assert spectral_check(kernel, 1).positive is True
    assert spectral_check(Separable(PROFILES["triangle"][0]), 3).positive is True
    assert spectral_check(Separable(PROFILES["quartic"][0]), 3).positive is False


def test_parameters_that_change_are_looked_at_again():
    kernel = Radial(PROFILES["gaussian"][0])
    assert spectral_check(kernel, 1).positive
    kernel.function = PROFILES["quartic"][0]
    assert spectral_check(kernel, 1).positive is False


def test_verdicts_are_readable():
    assert "NOT positive definite" in repr(spectral_check(PROFILES["triangle"][0], 3))
    assert "computed to" in repr(spectral_check(PROFILES["triangle"][0], 3))
    assert "cannot decide" in repr(spectral_check(PROFILES["bessel"][0], 1))
    with pytest.raises(ValueError, match="radial or separable"):
        spectral_check(Linear(), 2)


def test_errors():
    with pytest.raises(ValueError, match="NaN or infinity"):
        gram_spectrum([[np.nan]])
    with pytest.raises(ValueError, match="no rows"):
        gram_spectrum(np.empty((0, 3)))
    with pytest.raises(ValueError, match="not positive semi-definite"):
        gram_spectrum(np.arange(20.0)[:, None], lambda X, Y: -np.abs(X - Y.T))


# -- discrepancies ---------------------------------------------------------------------------------------------------


def test_star_discrepancy_on_the_line():
    t = np.random.default_rng(0).random(37)
    ordered, n = np.sort(t), len(t)
    away = ordered - (2 * np.arange(n) + 1) / (2 * n)
    np.testing.assert_allclose(star_discrepancy(t[:, None], order=np.inf), 1 / (2 * n) + np.abs(away).max())
    np.testing.assert_allclose(star_discrepancy(t[:, None]), np.sqrt(1 / (12 * n**2) + np.mean(away**2)))


@pytest.mark.parametrize("d", [2, 3])
def test_star_discrepancy_is_that_of_boxes(d):
    rng = np.random.default_rng(d)
    T = rng.integers(0, 5, size=(20, d)) / 4.0  # ties, and points on the border
    corners = np.vstack([rng.random((200_000, d)), *[np.minimum(1.0, T + side) for side in (1e-12, -1e-12)]])
    inside = np.zeros(len(corners))
    for t in T:
        inside += (t < corners).all(axis=1) / len(T)
    differences = np.abs(inside - corners.prod(axis=1))
    largest = star_discrepancy(T, order=np.inf)
    assert differences.max() <= largest + 1e-9
    # the supremum is approached at corners from above and below; random ones are a mesh of 200,000
    assert differences.max() >= largest - 0.1
    squares = differences[:200_000] ** 2
    assert abs(squares.mean() - star_discrepancy(T) ** 2) <= 5.0 * squares.std() / np.sqrt(200_000)


PRODUCTS = {"rbf": RBF(0.8), "per feature": RBF([0.5, 1.0, 3.0])} | SEPARABLE_KERNELS


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("box", [0.3, [2.0, 0.5, 40.0]])
def test_box_discrepancy_is_the_error_over_a_box(name, box):
    kernel, d = PRODUCTS[name], 3
    W = draw_frequencies(kernel, ROW_LAWS["iid"], d, 7, Key(1)).to_dense()
    U = np.random.default_rng(2).uniform(-1.0, 1.0, size=(200_000, d)) * box
    errors = np.abs(kernel(np.zeros((1, d)), U)[0] - np.exp(1j * U @ W.T).mean(axis=1)) ** 2
    assert abs(errors.mean() - box_discrepancy(W, kernel, box) ** 2) <= 5.0 * errors.std() / np.sqrt(len(U))


@pytest.mark.parametrize("name", PRODUCTS)
def test_independent_frequencies_have_the_box_discrepancy_of_their_variance(name):
    """E D² = (1 - mean of k²) / T, whatever the tails of the frequencies."""
    kernel, d, T = PRODUCTS[name], 3, 8
    draws = [draw_frequencies(kernel, ROW_LAWS["iid"], d, T, Key(seed)).to_dense() for seed in range(300)]
    squares = np.array([box_discrepancy(W, kernel, 1.0) ** 2 for W in draws])
    U = np.random.default_rng(0).uniform(-1.0, 1.0, size=(100_000, d))
    k2 = kernel(np.zeros((1, d)), U)[0] ** 2
    expected = (1.0 - k2.mean()) / T
    error = np.hypot(squares.std() / np.sqrt(300), k2.std() / T / np.sqrt(100_000))
    assert abs(squares.mean() - expected) <= 5.0 * error


def test_discrepancies_say_what_they_need():
    with pytest.raises(ValueError, match="order=2"):
        star_discrepancy(np.full((1000, 9), 0.5), order=np.inf)
    with pytest.raises(ValueError, match="unit cube"):
        star_discrepancy([[1.5]])
    with pytest.raises(ValueError, match="order must be"):
        star_discrepancy([[0.5]], order=1)
    for arguments, message in [
        (([[1.0]], "matern32", 1.0), "product over coordinates"),
        (([[1.0]], RBF("median"), 1.0), "resolve"),
        (([[1.0]], RBF(1.0), -1.0), "box"),
    ]:
        with pytest.raises(ValueError, match=message):
            box_discrepancy(*arguments)
