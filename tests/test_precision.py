"""Float32 data give the answers of float64 data; coarser arithmetic is asked for by name."""

import warnings

import numpy as np
import pytest
from scipy.linalg import LinAlgWarning

from bochner import (
    RBF,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRidge,
    Matern,
    NystromFeatures,
)
from laws import rounding_squares


@pytest.fixture(params=[True, False], ids=["integers", "floats"])
def integers(request, monkeypatch):
    """Processors that multiply integers faster, and those that do not."""
    backend = pytest.importorskip("bochner.backends.native")
    monkeypatch.setattr(backend, "integers_pay", lambda: request.param)
    return request.param


def table(n=6000, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n + 500, d)).astype(np.float32)
    y = np.sin(3.0 * X[:, 0]) * np.cos(2.0 * X[:, 1]) + 0.05 * rng.normal(size=len(X))
    return X[:n], y[:n], X[n:]


@pytest.mark.usefixtures("integers")
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("share", [1e-8, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("features", ["fourier", "nystrom"])
@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(4.0), Matern(0.5, nu=0.5)], ids=repr)
def test_float32_data_give_the_predictions_of_float64_data(kernel, features, share, fit_intercept):
    """Within 1e-4 of their spread: smooth kernels, whose features are nearly dependent, and penalties of any size."""
    X, y, new = table()
    predictions = [
        KernelRidge(kernel, 300, features=features, alpha=share * len(X), fit_intercept=fit_intercept, random_state=0)
        .fit(X.astype(dtype), y)
        .predict(new.astype(dtype))
        for dtype in (np.float32, np.float64)
    ]
    assert predictions[0].dtype == np.float32
    gap = np.sqrt(np.mean((predictions[0] - predictions[1]) ** 2))
    assert gap <= 1e-4 * predictions[1].std()


@pytest.mark.parametrize("length_scale", [0.1, 0.3, 1.0, 10.0])
def test_landmarks_and_span_are_those_of_float64_rows(length_scale):
    """And so are the features, to float32's rounding: kernel values are float64 where a root would magnify theirs."""
    X = table(1500)[0]
    kernel = RBF(length_scale)
    single, double = (NystromFeatures(kernel, 120, random_state=0).fit(X.astype(t)) for t in (np.float32, np.float64))
    assert single.effective_rank_ == double.effective_rank_
    np.testing.assert_allclose(single.landmarks_, double.landmarks_, rtol=0.0, atol=1e-5)
    Z = single.transform(X)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(
        Z @ Z.T, double.transform(X.astype(float)) @ double.transform(X.astype(float)).T, atol=3e-5
    )
    assert single.feature_map_.root.dtype == (np.float32 if length_scale < 0.2 else np.float64)
    fast = NystromFeatures(kernel, 120, precision="fast", random_state=0).fit(X)
    assert fast.feature_map_.root.dtype == np.float32
    assert (fast.effective_rank_ < single.effective_rank_) == (length_scale > 0.5)


def test_fast_products_have_eight_bits_and_full_ones_have_not(monkeypatch):
    backend = pytest.importorskip("bochner.backends.native")
    monkeypatch.setattr(backend, "integers_pay", lambda: True)
    X, y, _ = table()
    alpha = 1e-2 * len(X)
    options = {"features": "fourier", "alpha": alpha, "random_state": 0}
    exact = KernelRidge(RBF(1.0), 128, **options).fit(X.astype(float), y)
    full, fast = (KernelRidge(RBF(1.0), 128, precision=p, **options).fit(X, y) for p in ("full", "fast"))
    unknown = KernelRidge(RBF(1.0), 128, precision="fast", **{**options, "alpha": "gcv"}).fit(X, y)
    assert full.statistics_.rounding_noise == 0.0
    assert 0.0 < 100.0 * unknown.statistics_.rounding_noise < fast.statistics_.rounding_noise <= 0.01 * alpha
    moved = ((fast.predict(X) - exact.predict(X)) ** 2).sum()
    assert moved <= rounding_squares(fast.statistics_, alpha)[0]
    for model in (unknown, fast):
        assert any("as if alpha were" in note for note in model.report_.notes)


def test_a_penalty_below_rounding_is_told():
    """More than a tenth added to alpha warns and is in the report; no penalty at all is what was asked for."""
    X, y, _ = table(400)
    options = {"features": "fourier", "random_state": 0}
    with pytest.warns(LinAlgWarning, match=r"was added to it \(report_.jitter\)"):
        model = KernelRidge(RBF(4.0), 200, alpha=1e-18, **options).fit(X.astype(float), y)
    assert model.report_.jitter > 1e-19
    for alpha in (0.0, 1e-3):
        KernelRidge(RBF(4.0), 200, alpha=alpha, **options).fit(X.astype(float), y)


@pytest.mark.parametrize("make", [KernelRidge, GaussianProcessRegressor])
def test_predictions_in_steps_as_large_as_the_targets_deviate_are_told(make):
    X, y, _ = table(200)
    model = make(RBF(1.0), 50, random_state=0)
    for level in (1e7, 1e12):
        with pytest.warns(UserWarning, match="X is float32, and so are predictions"):
            model.fit(X, y + level)
    constant = np.full(len(y), 0.1)
    for rows, targets in ((X, y + 1e4), (X, 1e9 * y + 1e12), (X, constant), (X.astype(float), y + 1e12)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            model.fit(rows, targets, np.linspace(1.0, 2.0, len(y)))


@pytest.mark.parametrize(
    "make", [FourierFeatures, NystromFeatures, KernelRidge, KernelClassifier, GaussianProcessRegressor]
)
def test_precision_is_one_parameter_with_two_values(make):
    X, y, _ = table(60)
    y = y > 0.0 if make is KernelClassifier else y
    with pytest.raises(ValueError, match="precision must be one of 'full', 'fast'"):
        make(RBF(1.0), 20, precision="double").fit(X, y)
    assert make().precision == "full"
    make(RBF(1.0), 20, precision="fast").fit(X, y)
