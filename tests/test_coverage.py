"""Every certificate's interval contains the truth as often as it says: all functions, several sizes, heavy tails."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from bochner import RBF, FourierFeatures, KernelRidge, RandomProjection, certificates, exact_kernel_ridge
from bochner.ridge.statistics import RidgeStatistics

KINDS = ("normal", "heavy tails")


def numbers(kind, rng, shape):
    """With finite variance and, for heavy tails, infinite fourth moments."""
    return rng.normal(size=shape) if kind == "normal" else rng.standard_t(3, size=shape) / math.sqrt(3.0)


def kernel_error(kind, n, trials):
    X = numbers(kind, np.random.default_rng(n), (n, 3))
    for seed in range(trials):
        features = FourierFeatures(RBF(1.5), 64, random_state=seed // 20).fit(X)
        if seed % 20 == 0:
            Z, K = features.transform(X), features.kernel_(X)
            truth = np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)
        options = {"norm": "relative_frobenius", "max_entries": 1 << 14, "random_state": seed}
        yield certificates.kernel_error(features, X, **options), truth


def distance_error(kind, n, trials):
    """The error that all pairs stay below, but a share of those that the certificate names."""
    X = numbers(kind, np.random.default_rng(n), (n, 40))
    features = RandomProjection(20, random_state=0).fit(X)
    Z = features.transform(X)
    first, second = np.triu_indices(n, 1)
    given, kept = (((A[first] - A[second]) ** 2).sum(axis=1) for A in (X, Z))
    truth = np.quantile(np.abs(kept / given - 1.0), 1.0 + math.log(0.8 * 0.05) / 2000)
    for seed in range(trials):
        yield certificates.distance_error(features, X, max_pairs=2000, random_state=seed), truth


def prediction_error(kind, n, trials):
    rng = np.random.default_rng(n)
    X, new = numbers(kind, rng, (n, 3)), numbers(kind, rng, (60, 3))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + numbers(kind, rng, n)
    kernel = RBF(2.0)
    exact = exact_kernel_ridge(kernel, X, y, new, alpha=1.0)
    for seed in range(trials):
        rows = "iid" if seed % 2 else "orthogonal"
        features = FourierFeatures(kernel, n_components=120, rows=rows, random_state=seed)
        model = KernelRidge(features=features, alpha=1.0).fit(X, y)
        yield certificates.prediction_error(model, new), np.sqrt(np.mean((model.predict(new) - exact) ** 2))


def ridge(kind, n, trials):
    """Sums, rows and targets, and the risk of the fitted model at a new row, in closed form."""
    right = np.array([1.0, -1.0, 0.5, 0.0, 2.0])
    for seed in range(trials):
        rng = np.random.default_rng([n, seed])
        Z = rng.normal(size=(n, 5))
        y = Z @ right + numbers(kind, rng, n)
        gram = Z.T @ Z + 2.0 * np.eye(5)
        risk = 1.0 + np.sum((np.linalg.solve(gram, Z.T @ y) - right) ** 2)
        yield RidgeStatistics(5, 1).update(Z, y), Z, y, risk


def leave_one_out_error(kind, n, trials):
    for statistics, Z, y, risk in ridge(kind, n, trials):
        yield certificates.leave_one_out_error(statistics, lambda Z: Z, Z, y, 2.0, fit_intercept=False), risk


def gcv_error(kind, n, trials):
    for statistics, _, _, risk in ridge(kind, n, trials):
        yield certificates.gcv_error(statistics, 2.0, fit_intercept=False), risk


# function, its trials, sizes and how many trials are made fast
REGISTRY = {
    "kernel_error": (kernel_error, (200, 700), 100),
    "distance_error": (distance_error, (150, 600), 200),
    "prediction_error": (prediction_error, (150, 400), 40),
    "leave_one_out_error": (leave_one_out_error, (40, 250, 1000), 200),
    "gcv_error": (gcv_error, (250,), 200),
}


def test_every_certificate_is_in_the_registry():
    assert set(REGISTRY) == {name for name in certificates.__all__ if name.endswith("_error")}


@pytest.mark.parametrize("more", [1, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "n"), [(name, n) for name, (_, sizes, _) in REGISTRY.items() for n in sizes])
def test_intervals_cover_at_the_stated_confidence(name, n, kind, more):
    make, _, fast = REGISTRY[name]
    trials, missed = fast * more, 0
    for found, truth in make(kind, n, trials):
        if found.interval is not None:
            assert found.confidence == 0.95
        missed += not found.low * (1 - 1e-9) <= truth <= found.high * (1 + 1e-9)
    assert binom.sf(missed - 1, trials, 0.05) > 1e-6, f"{missed} of {trials} intervals miss"


def test_gcv_has_no_interval_and_says_why():
    (found, _), *_ = gcv_error("normal", 250, 1)
    assert found.interval is None
    assert found.confidence is None
    assert not found.exact
    assert found.high == -found.low == math.inf
    assert "with no interval" in repr(found)
    assert "no single residual" in repr(found)
