from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import chi, kstest

from bochner import RBF, theory
from bochner.backends.reference import fwht
from bochner.draws.keys import Key
from bochner.draws.lattices import correlations, generator
from bochner.draws.linear_maps import Dense, next_power_of_two
from bochner.features.fourier import draw_frequencies, fourier_map
from bochner.sampling import KPW, ROW_LAWS, PointLaw, Quasi, Structured, as_row_law, name_of, stratified
from bochner.sketches import SKETCH_LAWS
from laws import COMPOSITE_KERNELS, RADIAL_KERNELS, SEPARABLE_KERNELS, assert_unbiased, points

EXACT = [name for name, law in ROW_LAWS.items() if law.exact]


def gram_draws(kernel, law, d, n_components, n_draws, form="pairs"):
    X = points(8, d)
    draws = []
    for seed in range(n_draws):
        Z = fourier_map(kernel, law, d, n_components, form, Key(seed), np.float64)(X)
        draws.append((Z @ Z.conj().T).real)
    return np.array(draws), kernel(X)


@pytest.mark.parametrize("d", [1, 3, 11])
@pytest.mark.parametrize("kernel", RADIAL_KERNELS)
@pytest.mark.parametrize("rows", EXACT)
def test_exact_laws_are_unbiased_for_every_radial_kernel(rows, kernel, d):
    draws, truth = gram_draws(RADIAL_KERNELS[kernel], ROW_LAWS[rows], d, 17, 120)
    floor = 1.1e-3 if kernel == "radial" else 1e-12  # what numeric_mixing promises
    assert_unbiased(draws, truth, floor=floor)


@pytest.mark.parametrize("d", [1, 3, 11])
@pytest.mark.parametrize("kernel", SEPARABLE_KERNELS)
@pytest.mark.parametrize("rows", [name for name, law in ROW_LAWS.items() if isinstance(law, PointLaw)])
def test_point_laws_are_unbiased_for_every_separable_kernel(rows, kernel, d):
    draws, truth = gram_draws(SEPARABLE_KERNELS[kernel], ROW_LAWS[rows], d, 17, 120)
    floor = 2e-3 * d if kernel == "separable" else 1e-12  # a numeric law a coordinate
    assert_unbiased(draws, truth, floor=floor)


@pytest.mark.parametrize("d", [1, 3, 11])
@pytest.mark.parametrize("kernel", COMPOSITE_KERNELS)
@pytest.mark.parametrize("n_components", [1, 2, 7])
def test_sums_products_and_powers_are_unbiased(kernel, d, n_components):
    draws, truth = gram_draws(COMPOSITE_KERNELS[kernel], ROW_LAWS["orthogonal"], d, n_components, 400)
    assert_unbiased(draws, truth)


@pytest.mark.parametrize("form", ["pairs", "offset", "complex"])
def test_every_form_is_unbiased(form):
    draws, truth = gram_draws(RBF(1.0), ROW_LAWS["iid"], 3, 9, 300, form)
    assert_unbiased(draws, truth)


def equal_coordinates(d):
    """Rows at one to six length scales from the origin with 1, 2, 4, … equal coordinates and no others."""
    counts = [n for n in (1, 2, 3, 4, 8, 16) if n <= d]
    directions = np.array([np.arange(d) < n for n in counts]) / np.sqrt(counts)[:, None]
    return np.vstack([t * directions for t in (1.0, 2.0, 3.0, 4.5, 6.0)])


@pytest.mark.parametrize("rows", ROW_LAWS)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 16, 24, 100])
def test_every_law_is_within_its_stated_bias(rows, d):
    """The Gaussian kernel where directions made of signs are worst; a law that is exact has no bias at all."""
    law, X, draws = ROW_LAWS[rows], equal_coordinates(d), []
    for seed in range(200):
        phases = law.sample(d, 128, Key(seed))(X)
        draws.append(np.cos(phases).mean(axis=1))
    assert_unbiased(np.array(draws), np.exp(-0.5 * (X**2).sum(axis=1)), floor=law.bias(d) + 1e-6)
    assert not (law.exact and law.bias(d))


@pytest.mark.parametrize("d", [17, 64, 70, 1000])
def test_only_narrow_structured_rows_are_padded_beyond_the_next_power_of_two(d):
    assert Structured().sample(d, 5, Key(0)).signs.shape[2] == next_power_of_two(d)


def test_kpw_is_worst_for_dense_rows_and_exact_for_one_coordinate():
    """Given P and D: no spread of the variance on one coordinate, for one-hot rows half of what dense ones have."""
    d, k = 256, 32
    X = np.zeros((3, d))
    X[0, 0], X[1, [0, 5]], X[2] = 1.0, (1.0, -1.0), np.random.default_rng(0).normal(size=d)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    variances = []
    for seed in range(500):
        rows = KPW(k).sample(d, 1, Key(seed))
        V = X * rows.signs[0]
        fwht(V)
        variances.append((V[:, rows.picks[0]] ** 2).mean(axis=1))
    one, two, dense = np.var(variances, axis=0) * k / (1 - k / d)
    assert one < 1e-12
    # the variance of a sample variance over 500 draws: 6 standard errors are 0.4 of it
    assert two == pytest.approx(1.0, rel=0.4)
    assert dense == pytest.approx(2.0, rel=0.4)


@pytest.mark.parametrize("rows", ROW_LAWS)
@pytest.mark.parametrize("d", [1, 5, 16])
def test_more_rows_extend_the_same_draw(rows, d):
    law = ROW_LAWS[rows]
    few, many = (law.sample(d, n, Key(5)).to_dense() for n in (6, 41))
    np.testing.assert_array_equal(few, many[:6])
    np.testing.assert_array_equal(law.uniforms(d, 6, Key(5)), law.uniforms(d, 41, Key(5))[:6])


@pytest.mark.parametrize("rows", ROW_LAWS)
def test_same_key_same_rows_other_key_other_rows(rows):
    law = ROW_LAWS[rows]
    a, b, c = (law.sample(4, 9, Key(seed)).to_dense() for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, c)


@pytest.mark.parametrize("rows", ["orthogonal", "structured"])
@pytest.mark.parametrize("d", [32, 64])
def test_blocks_are_orthogonal(rows, d):
    W = ROW_LAWS[rows].sample(d, 2 * d, Key(0)).to_dense()
    for block in (W[:d], W[d:]):
        gram = block @ block.T
        np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0.0, atol=1e-5 * d)


@pytest.mark.parametrize("rows", ["orthogonal", "structured", "fastfood", "circulant"])
def test_lengths_have_the_chi_law_of_the_padded_width(rows):
    d = 11
    p = {"structured": 64, "fastfood": 16}.get(rows, d)
    W = ROW_LAWS[rows].sample(d, 64 * 50, Key(1))
    full = replace(W, n_features=p).to_dense() if p > d else W.to_dense()
    # stratified lengths are closer to the law than independent ones would be
    assert kstest(np.linalg.norm(full, axis=1), chi(p).cdf).statistic < 1.0 / np.sqrt(len(full))


@pytest.mark.parametrize("d", [64, 200])
def test_kpw_phases_are_close_to_gaussian(d):
    """Goodness of fit against N(0, 1) for a spread-out x, one row a draw so that the sample is independent."""
    x = np.random.default_rng(0).normal(size=(1, d))
    x /= np.linalg.norm(x)
    phases = [ROW_LAWS["kpw"].sample(d, 1, Key(seed))(x)[0, 0] for seed in range(1500)]
    assert kstest(phases, "norm").pvalue > 1e-6


def test_stratified_uniforms_are_uniform_and_even():
    first = np.array([stratified(3, 0.7548776662466927, Key(seed))[2] for seed in range(2000)])
    assert kstest(first, "uniform").pvalue > 1e-6
    u = np.sort(stratified(1000, 0.7548776662466927, Key(0)))
    assert np.abs(u - np.arange(1000) / 1000).max() < 0.02


@pytest.mark.parametrize("sequence", ["sobol", "halton", "lattice"])
@pytest.mark.parametrize("d", [2, 8])
def test_quasi_points_beat_independent_ones(sequence, d):
    """Mean squared error of the kernel at 512 columns over 30 draws, at most 0.8 of iid's (measured: 0.05 to 0.5)."""
    errors = {}
    for name, law in (("quasi", Quasi(sequence)), ("iid", ROW_LAWS["iid"])):
        draws, truth = gram_draws(RBF(np.sqrt(d)), law, d, 512, 30)
        errors[name] = np.mean((draws - truth) ** 2)
    assert errors["quasi"] < 0.8 * errors["iid"]


# The largest number of features in which 512 frequencies are better than independent ones, and the largest share of
# their mean squared error (measured: 0.26, 0.65 and 0.53).
BETTER = {"sobol": (64, 0.5), "halton": (32, 0.95), "lattice": (64, 0.8)}


@pytest.mark.parametrize("sequence", BETTER)
def test_quasi_points_beat_independent_ones_in_many_dimensions(sequence):
    """The mean over keys and differences of the squared error of the kernel, by a z-score of the keys."""
    d, share = BETTER[sequence]
    U = np.random.default_rng(0).normal(size=(100, d)) / np.sqrt(d)
    truth = np.exp(-0.5 * (U**2).sum(axis=1))
    quasi, iid = (
        np.array([np.mean((np.cos(law.sample(d, 512, Key(s))(U)).mean(axis=1) - truth) ** 2) for s in range(60)])
        for law in (Quasi(sequence), ROW_LAWS["iid"])
    )
    difference = share * iid - quasi
    assert difference.mean() > 5.0 * difference.std() / np.sqrt(len(difference))


@pytest.mark.parametrize("sequence", BETTER)
@pytest.mark.parametrize("scramble", [False, True])
def test_points_are_skipped_and_leapt_over(sequence, scramble):
    every = Quasi(sequence, scramble, skip=0).points(3, 60, Key(0))
    some = Quasi(sequence, scramble, skip=5, leap=3).points(3, 12, Key(0))
    np.testing.assert_array_equal(some, every[5:53:4])
    assert (Quasi(sequence, scramble).points(3, 4, Key(0)) == every[0 if scramble else 1 :][:4]).all()


@pytest.mark.parametrize("sequence", BETTER)
def test_points_without_scrambling_are_the_published_ones(sequence):
    law = Quasi(sequence, scramble=False)
    T = law.points(2, 64, Key(0))
    np.testing.assert_array_equal(T, law.points(2, 64, Key(1)))
    assert np.abs(law.sample(2, 64, Key(0)).to_dense()).max() < 4.0  # no corner
    assert not law.exact
    if sequence == "sobol":
        np.testing.assert_allclose(T[:3], [[0.5, 0.5], [0.75, 0.25], [0.25, 0.75]], atol=1e-9)
    if sequence == "halton":
        np.testing.assert_allclose(T[:3], [[1 / 2, 1 / 3], [1 / 4, 2 / 3], [3 / 4, 1 / 9]], atol=1e-9)


def test_a_lattice_goes_on_with_other_shifts():
    law = Quasi("lattice", skip=2**14 - 3)
    few, many = law.points(2, 3, Key(0)), law.points(2, 9, Key(0))
    np.testing.assert_array_equal(few, many[:3])
    first = Quasi("lattice").points(2, 6, Key(0))
    assert not np.isclose(many[3:], first).any()


@pytest.mark.parametrize("d", [2, 3])
def test_components_are_chosen_for_the_error_of_the_kernel(d):
    """The criterion of a generator is the error seen, over random shifts; and no other last component is better."""
    bits, variance = 6, 2.0 / d
    theta, z = correlations(bits, variance), generator(d, bits)
    n = 1 << bits

    def criterion(z, m=bits):
        k = np.arange(0, n, n >> m)
        return 0.5 * np.prod(theta[:, k[:, None] * z % n], axis=2).sum() / len(k) - (1 + 2 * variance) ** (-len(z) / 2)

    rng = np.random.default_rng(0)
    squares = []
    for _ in range(4000):
        w = ndtri(((np.arange(n)[:, None] * z % n) / n + rng.random(d)) % 1.0)
        u = rng.normal(size=d) * np.sqrt(variance)
        squares.append((np.cos(w @ u).mean() - np.exp(-0.5 * u @ u)) ** 2)
    assert abs(np.mean(squares) - criterion(z)) <= 5.0 * np.std(squares) / np.sqrt(len(squares))
    # the embedded criterion, by trying all odd numbers
    others = np.array([[criterion(np.append(z[:-1], last), m) for m in (5, 6)] for last in range(1, n, 2)])
    worst = (others / others.min(axis=0)).max(axis=1)
    chosen = np.array([criterion(z, m) for m in (5, 6)]) / others.min(axis=0)
    np.testing.assert_allclose(chosen.max(), worst.min(), rtol=1e-6)


def test_orthogonal_beats_independent():
    errors = {}
    for name in ("orthogonal", "structured", "iid"):
        draws, truth = gram_draws(RBF(4.0), ROW_LAWS[name], 16, 128, 60)
        errors[name] = np.mean((draws - truth) ** 2)
    assert errors["orthogonal"] < 0.7 * errors["iid"]
    assert errors["structured"] < 0.7 * errors["iid"]


def test_laws_that_do_not_fit_a_kernel_say_so():
    with pytest.raises(ValueError, match="rotation-invariant"):
        draw_frequencies(SEPARABLE_KERNELS["laplacian"], ROW_LAWS["orthogonal"], 3, 4, Key(0))


def test_names():
    assert name_of(as_row_law("quasi")) == "quasi"
    assert name_of(Quasi("halton")) == "halton"
    with pytest.raises(ValueError, match="rows must be 'auto'"):
        as_row_law("sorf")
    with pytest.raises(ValueError, match="sequence must be"):
        Quasi("van der corput").sample(2, 4, Key(0))
    with pytest.raises(ValueError, match="2\\^30 Sobol"):
        Quasi("sobol", leap=2**29).sample(1, 4, Key(0))
    for options in ({"skip": -1}, {"leap": -1}, {"leap": 0.5}, {"scramble": "owen"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            Quasi(**options)
    with pytest.raises(ValueError, match="use rows='structured'"):
        Quasi("sobol").sample(30_000, 4, Key(0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "n_components"), [(1, 2), (8, 64), (33, 201), (300, 2000)])
@pytest.mark.parametrize("rows", ROW_LAWS)
def test_the_cost_model_charges_the_bytes_of_a_draw(rows, d, n_components, dtype):
    frequencies = fourier_map(RBF(1.0), ROW_LAWS[rows], d, n_components, "pairs", Key(0), dtype).frequencies
    step = rows if rows in theory.costs._COSTS else "fourier"
    assert (step == "fourier") == isinstance(frequencies, Dense)
    size = {"n_samples": 1, "n_features": d, "n_components": n_components, "itemsize": np.dtype(dtype).itemsize}
    assert theory.cost_estimate(step, **size).state_bytes == stored_bytes(frequencies)


@pytest.mark.parametrize("n", [64, 1000])
def test_the_cost_model_charges_the_bytes_of_a_sketch(n):
    steps = {
        "gaussian": "gaussian_sketch",
        "srht": "srht",
        "sparse_sign": "sparse_sign",
        "count_sketch": "countsketch",
    }
    for law, step in steps.items():
        cost = theory.cost_estimate(step, n_samples=n, n_features=5, n_components=40)
        assert cost.state_bytes == stored_bytes(SKETCH_LAWS[law].sample(n, 40, Key(0))), law


def stored_bytes(draw):
    return sum(
        getattr(draw, field.name).nbytes for field in fields(draw) if hasattr(getattr(draw, field.name), "nbytes")
    )
