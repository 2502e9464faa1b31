"""Printed scores are of rows that had no part in what was chosen: laws on targets that are noise."""

import numpy as np
import pandas
import pytest
from sklearn.base import clone, is_classifier

from bochner import TabularClassifier, TabularRegressor
from bochner.tables import plans as table_plans
from bochner.tables.held_out import HeldOutRows, hold_out, joined, score_numbers
from bochner.tuning.policies import TablePolicy
from laws import TABLES

QUICK = {"max_seconds": 0.5, "random_state": 0}
SIZES = [(40, 2), (60, 100), (150, 10), (900, 2)]
MANY = [(n, d) for n in (40, 100, 300, 1000, 3000) for d in (2, 10, 50, 500) if n * d <= 150_000]


@pytest.fixture(autouse=True)
def no_fit_is_late(monkeypatch):
    """A fit that is late differs from one that is not."""
    monkeypatch.setattr(table_plans, "POLICY", TablePolicy(least_seconds=np.inf))


def noise(n, d, seed, n_levels=0):
    rng = np.random.default_rng(seed)
    X = pandas.DataFrame(rng.normal(size=(n, d))).add_prefix("x")
    return (X.assign(text=rng.integers(0, n_levels, n).astype(str)) if n_levels else X), rng.normal(size=n)


def check_noise(n, d, n_levels=0, n_repeats=3, **options):
    """A score of noise is not above zero, agrees with that of new rows, and intervals cover these."""
    scores, covered = [], []
    for seed in range(n_repeats):
        X, y = noise(n, d, 2 * seed, n_levels)
        new, truth = noise(2000, d, 2 * seed + 1, n_levels)
        model = TabularRegressor(**{**QUICK, **options}).fit(X, y)
        found = model.held_out_
        scores.append(((found.score - model.score(new, truth)) / (found.error + 0.02), found.score / found.error))
        low, high = model.predict_interval(new).T
        covered.append(np.mean((low <= truth) & (truth <= high)))
        model = TabularClassifier(**{**QUICK, **options}).fit(X, y > 0)
        found = model.held_out_
        scores.append(((found.score - 0.5) / found.error, (found.score - found.constant) / found.error))
    off, above = np.array(scores).T
    assert np.abs(off).max() < 4.5
    assert above.max() < 4.0
    # the coverage of an interval from n residuals has a standard deviation of some .3 / √n
    assert np.mean(covered) > 0.9 - 4.0 * 0.3 / (min(n, 500) * n_repeats) ** 0.5


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_scores_of_noise_are_those_of_a_constant(n, d):
    check_noise(n, d)


def test_scores_of_noise_with_many_categories():
    check_noise(300, 1, n_levels=100, n_repeats=2)
    check_noise(900, 1, n_levels=300, n_repeats=2)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), MANY)
def test_scores_of_noise_are_those_of_a_constant_for_all_sizes(n, d):
    check_noise(n, d, n_repeats=5, max_seconds=60.0 if n <= 300 else 5.0)


@pytest.mark.parametrize("estimator", TABLES, ids=repr)
@pytest.mark.parametrize("n", [60, 1000])
def test_the_verdict_on_noise_and_on_what_can_be_learned(estimator, n):
    X, y = noise(n, 3, 5)
    for signal in (0.0, 3.0):
        target = y + signal * X["x0"]
        model = clone(estimator).fit(X, target > 0 if is_classifier(estimator) else target)
        assert model.held_out_.beats_constant == (signal > 0)
        assert ("no better than a constant" in repr(model.report_)) == (signal == 0)
        assert str(model.held_out_) in repr(model.summary())


def test_a_rare_class_that_is_found_beats_a_constant():
    """Labels are right as often as the commonest one, and probabilities say which rows may be of the rare class."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = rng.random(600) < 0.4 * (X[:, 0] > 1.0)
    found = TabularClassifier(**QUICK).fit(X, y).held_out_
    assert found.score <= found.constant + 0.01
    assert found.beats_constant


@pytest.mark.parametrize("estimator", TABLES, ids=repr)
def test_where_all_weight_is_in_the_sample_that_chose_rows_are_held_out(estimator):
    """Heavy rows tend to be sampled: leave-one-out errors of the others would tell of rows without weight."""
    X, y = noise(900, 2, 0)
    heavy = np.arange(900) < 100
    y = np.where(heavy, X["x0"], y)
    model = clone(estimator).set_params(leaf_size="auto", max_seconds=0.5)
    model.fit(X, y > 0 if is_classifier(estimator) else y, sample_weight=np.where(heavy, 1.0, 1e-9))
    assert "folds" in model.held_out_.how
    assert model.held_out_.score > 0.8


def test_a_late_fit_holds_out_one_fold_and_says_so(monkeypatch):
    monkeypatch.setattr(table_plans, "POLICY", TablePolicy(least_seconds=0.0))
    X, y = noise(60, 2, 0)
    model = TabularRegressor(max_seconds=1e-3, random_state=0).fit(X, y)
    assert model.held_out_.how == "1 of 5 folds"
    assert "1 of 5 folds were held out" in str(model.report_)
    assert model.predict_interval(X).shape == (60, 2)


def test_folds_have_their_share_of_every_class():
    strata = np.repeat([0, 1, 2], [50, 9, 1])
    folds = hold_out(60, 5, strata, 0)
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(60))
    counts = np.array([np.bincount(strata[rows], minlength=3) for rows in folds])
    assert (np.ptp(counts, axis=0) <= 1).all()


def test_the_standard_error_of_a_score_is_the_deviation_of_scores():
    rng = np.random.default_rng(0)

    def score():
        y, zero = rng.standard_t(8, size=(200, 1)), np.zeros((200, 1))
        values = 0.5 * y + 0.5 * rng.normal(size=y.shape)
        return score_numbers(y, np.ones(200), joined([HeldOutRows(np.arange(200), values, zero)]), "")

    scores = [score() for _ in range(400)]
    spread = np.std([found.score for found in scores])
    assert np.mean([found.error for found in scores]) == pytest.approx(spread, rel=0.15)


def test_probabilities_of_noise_are_uncertain():
    """Log loss is that of a constant, within a tenth; leave-one-out scores alone would double it."""
    rng = np.random.default_rng(0)
    losses = []
    for seed in range(3):
        X, y = rng.normal(size=(60, 60)), rng.permutation(60) < 30
        model = TabularClassifier(max_seconds=1.0, random_state=seed).fit(X, y)
        p = model.predict_proba(rng.normal(size=(1000, 60)))  # half of these are of either class, whatever X is
        losses.append(-0.5 * np.log(p).sum(axis=1).mean())
    assert np.mean(losses) < np.log(2.0) + 0.1
