"""Mixtures of Gaussians by random projection."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

import bochner
from bochner import ProjectedMixture
from bochner.lab.projected_mixture import _moments


def clusters(n=400, d=30, k=3, separation=2.0, seed=0, unit=1.0):
    """Ellipsoids with axes from 1 to 10, whose centres are about so many of their radii apart."""
    rng = np.random.default_rng(seed)
    lengths = np.geomspace(1.0, 10.0, d)
    centres = rng.normal(size=(k, d)) * separation * np.sqrt(np.sum(lengths**2) / (2 * d))
    labels = rng.integers(0, k, n)
    X = np.empty((n, d))
    for c in range(k):
        axes, _ = np.linalg.qr(rng.normal(size=(d, d)))
        X[labels == c] = centres[c] + (rng.normal(size=(np.sum(labels == c), d)) * lengths) @ axes.T
    return unit * X, labels, unit * centres


@pytest.mark.parametrize("unit", [1.0, 1e-150, 1e120])
def test_clusters_far_apart_are_found(unit):
    """Their means lie within chance of those of their rows; and so in any unit."""
    X, labels, centres = clusters(separation=6.0, unit=unit)
    model = ProjectedMixture(3, random_state=0).fit(X)
    assert adjusted_rand_score(labels, model.labels_) == 1.0
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    order = [int(np.argmin([np.linalg.norm(m / unit - c / unit) for m in model.means_])) for c in centres]
    for c, found in enumerate(order):
        own = X[labels == c] / unit
        np.testing.assert_allclose(model.means_[found] / unit, own.mean(axis=0), rtol=0, atol=1e-6)
        z = (own.mean(axis=0) - centres[c] / unit) / (own.std(axis=0) / np.sqrt(len(own)))
        assert np.abs(z).max() < 6.0
        np.testing.assert_allclose(model.weights_[found], np.mean(labels == c), rtol=1e-6)


def test_densities_are_those_of_the_mixture():
    X, _, _ = clusters(d=6)
    model = ProjectedMixture(3, random_state=0).fit(X)
    parts = zip(model.weights_, model.means_, model.covariances_, strict=True)
    logs = np.column_stack([np.log(w) + multivariate_normal(m, S).logpdf(X) for w, m, S in parts])
    np.testing.assert_allclose(model.score_samples(X), logsumexp(logs, axis=1), rtol=1e-9)
    np.testing.assert_allclose(model.transform(X), np.exp(logs - logsumexp(logs, axis=1)[:, None]), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), logs.argmax(axis=1))


def test_covariances_are_drawn_to_round_ones_by_few_rows_only():
    rng = np.random.default_rng(0)
    lengths = np.array([3.0, 1.0, 1.0, 1.0])
    for n, share in ((40_000, 0.0), (4, 0.5)):
        X = rng.normal(size=(n, 4)) * lengths
        _, means, covariances = _moments(X, np.ones((n, 1)))
        plain = np.cov(X.T, bias=True)
        expected = (1 - 4 / (4 + n)) * plain + (4 / (4 + n) * np.trace(plain) / 4 + 1e-6) * np.eye(4)
        np.testing.assert_allclose(means[0], X.mean(axis=0))
        np.testing.assert_allclose(covariances[0], expected, rtol=1e-9)
        assert 4 / (4 + n) == pytest.approx(share, abs=1e-3)


def test_more_starts_are_at_least_as_likely():
    X, _, _ = clusters(separation=1.0)
    found = [ProjectedMixture(3, n_init=n, random_state=1).fit(X).score_samples(X).mean() for n in (1, 2, 6)]
    assert found[0] <= found[1] <= found[2]
    assert found[0] < found[2]


def test_a_projection_finds_what_all_dimensions_hide():
    """Fewer rows than a covariance has numbers: EM in all dimensions stops where it starts."""
    from sklearn.mixture import GaussianMixture

    gaps = []
    for seed in range(6):
        X, labels, _ = clusters(300, 60, 3, 2.0, seed)
        plain = GaussianMixture(3, init_params="random_from_data", n_init=5, random_state=seed).fit_predict(X)
        projected = ProjectedMixture(3, random_state=seed).fit_predict(X)
        gaps.append(adjusted_rand_score(labels, projected) - adjusted_rand_score(labels, plain))
    assert np.mean(gaps) > 3.0 * np.std(gaps, ddof=1) / np.sqrt(6)


def test_saved_and_refused(tmp_path):
    X, _, _ = clusters(60, 5)
    model = ProjectedMixture(2, random_state=0).fit(X)
    bochner.save(model, tmp_path / "mixture.safetensors")
    np.testing.assert_array_equal(bochner.load(tmp_path / "mixture.safetensors").transform(X), model.transform(X))
    with pytest.raises(ValueError, match="at least n_clusters=8"):
        ProjectedMixture().fit(X[:5])
    with pytest.raises(ValueError, match="n_dimensions"):
        ProjectedMixture(2, n_dimensions=0).fit(X)
