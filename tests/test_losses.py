"""Laws that every loss of the registry obeys."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

from bochner.newton.losses import LOSSES, Huber, as_loss

SHAPES = [(40,), (40, 1), (40, 4)]
h = 1e-5


def scores_and_targets(name, shape, seed=0):
    """Scores away from kinks of the slope, and targets as the formulas want them."""
    rng = np.random.default_rng(seed)
    F = 2.0 * rng.normal(size=shape)
    if name in ("log_loss", "squared_hinge"):
        if shape[1:] == (4,):
            Y = 2.0 * np.eye(4)[rng.integers(0, 4, shape[0])] - 1.0
        else:
            Y = rng.choice([-1.0, 1.0], size=shape)
    elif name == "poisson":
        Y = rng.poisson(1.0, size=shape).astype(float)
    else:
        Y = rng.normal(size=shape)
    for kink in (1.0 - Y * F, abs(F - Y) - Huber().delta):
        F[abs(kink) < 1e-2] += 0.05
    return F, Y


def of_rows(A):
    return A if A.ndim == 1 else A.sum(axis=1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_slopes_and_curvatures_are_derivatives(name, shape):
    loss, (F, Y) = LOSSES[name], scores_and_targets(name, shape)
    D = np.random.default_rng(1).normal(size=shape)
    assert loss.value(F, Y).shape == shape[:1]
    rise = (loss.value(F + h * D, Y) - loss.value(F - h * D, Y)) / (2 * h)
    np.testing.assert_allclose(of_rows(loss.slope(F, Y) * D), rise, rtol=1e-7, atol=1e-8)
    change = (loss.slope(F + h * D, Y) - loss.slope(F - h * D, Y)) / (2 * h)
    np.testing.assert_allclose(loss.curvature_product(F, Y, D), change, rtol=1e-7, atol=1e-8)
    if len(shape) == 1:
        np.testing.assert_allclose(loss.curvature(F, Y) * D, change, rtol=1e-7, atol=1e-8)
        return
    units = [np.broadcast_to(e, shape) for e in np.eye(shape[1])]
    diagonal = np.column_stack([loss.curvature_product(F, Y, e)[:, j] for j, e in enumerate(units)])
    np.testing.assert_allclose(loss.curvature(F, Y), diagonal, atol=1e-12)
    # all scores of a softmax moved together change nothing: there is one direction less to average over
    freedom = max(1, shape[1] - 1) if name == "log_loss" else shape[1]
    np.testing.assert_allclose(loss.mean_curvature(F, Y), diagonal.sum(axis=1) / freedom, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_convex_and_their_curvature_is_bounded(name, shape):
    loss, (F, Y) = LOSSES[name], scores_and_targets(name, shape)
    k = shape[1] if len(shape) > 1 else 1
    bound, tightest = loss.curvature_bound(k), 0.0
    for seed in range(20):
        other = scores_and_targets(name, shape, seed)[0]
        middle = loss.value(0.5 * (F + other), Y)
        assert (middle <= 0.5 * (loss.value(F, Y) + loss.value(other, Y)) + 1e-12).all()
        D = np.random.default_rng(seed).normal(size=shape)
        D /= np.sqrt(of_rows(D * D)).reshape(-1, *[1] * (len(shape) - 1))
        bent = of_rows(D * loss.curvature_product(0.2 * other, Y, D))
        assert (bent >= -1e-14).all()
        assert (bent <= bound + 1e-12).all()
        tightest = max(tightest, bent.max())
    assert loss.ignores_shifts(k) == np.allclose(loss.value(F + 0.5, Y), loss.value(F, Y))
    if np.isfinite(bound):  # and no bound is a wild guess
        assert tightest > 0.5 * bound


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_tensors_have_the_losses_of_arrays(name, shape):
    torch = pytest.importorskip("torch")
    loss, (F, Y) = LOSSES[name], scores_and_targets(name, shape)
    D = np.random.default_rng(1).normal(size=shape)
    there = [torch.from_numpy(a) for a in (F, Y, D)]
    for rule, arguments in [
        (loss.value, 2),
        (loss.slope, 2),
        (loss.curvature, 2),
        (loss.curvature_product, 3),
        *([(loss.mean_curvature, 2)] if len(shape) > 1 else []),
    ]:
        found = rule(*there[:arguments])
        assert found.dtype == torch.float64
        np.testing.assert_allclose(found.numpy(), rule(*[F, Y, D][:arguments]), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("k", [1, 4])
def test_far_scores_lose_no_digits(k):
    """-log p of a score of 800 is 800 on the wrong side, and exp(-800) = 0 is reached without overflow on the right."""
    loss = as_loss("log_loss")
    F = np.zeros((2, k))
    F[:, 0] = (800.0, -800.0)
    Y = -np.ones((2, k))
    Y[:, -1] = 1.0 if k > 1 else -1.0
    expected = [800.0, 0.0] if k == 1 else [800.0, np.log(3.0)]
    np.testing.assert_allclose(loss.value(F, Y), expected, rtol=1e-14)
    tail = loss.probabilities(np.array([[-40.0]]))
    np.testing.assert_allclose(tail, np.exp(-40.0), rtol=1e-14)
    for rule in (loss.slope, loss.curvature):
        assert np.isfinite(rule(F, Y)).all()


def test_the_log_loss_is_that_of_scikit_learn():
    F, Y = scores_and_targets("log_loss", (40, 4))
    loss = as_loss("log_loss")
    theirs = log_loss(Y.argmax(axis=1), loss.probabilities(F), labels=range(4))
    np.testing.assert_allclose(loss.value(F, Y).mean(), theirs, rtol=1e-12)
