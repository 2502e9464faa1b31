"""Every argument checker returns what is right, and says of what is wrong what was expected and what came."""

import math
import re
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import bochner
from bochner import RBF, checks
from bochner.ridge.solvers import ConjugateGradient

RIGHT = {
    "check_count": (checks.check_count, [1, 7, np.int32(3), np.uint8(5)]),
    "check_count from 2": (partial(checks.check_count, least=2), [2, np.int64(9)]),
    "check_positive": (checks.check_positive, [1, 0.5, np.float32(0.25), np.int64(3)]),
    "check_positive or 0": (partial(checks.check_positive, zero=True), [0, 0.0, 2.5]),
    "check_fraction": (checks.check_fraction, [0.5, np.float32(0.25)]),
    "check_flag": (checks.check_flag, [True, False, np.True_, 1, 0]),
    "check_choice": (partial(checks.check_choice, choices=("a", "b")), ["a", "b"]),
}
WRONG = {
    "check_count": [0, -1, 1.0, "3", None, True, math.nan, 2**31, [1]],
    "check_count from 2": [1, 2.5],
    "check_positive": [0, 0.0, -1.0, math.inf, math.nan, "1", None, True, 1j, [1.0]],
    "check_positive or 0": [-1e-300, math.inf, math.nan, "0", False],
    "check_fraction": [0.0, 1.0, -0.5, 2, math.nan, "0.5", True],
    "check_flag": [2, "yes", None, 0.0],
    "check_choice": ["c", 1, None, ["a"]],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_values_come_back_as_plain_ones(name):
    check, values = RIGHT[name]
    for value in values:
        found = check("x", value)
        assert found == value
        assert type(found) in (int, float, bool, str)


@pytest.mark.parametrize("name", RIGHT)
def test_wrong_values_are_refused_with_their_name_and_what_came(name):
    for value in WRONG[name]:
        with pytest.raises(checks.ArgumentError, match=rf"^x must be .*[,;] got {re.escape(repr(value))}\.") as caught:
            RIGHT[name][0]("x", value)
        # code that was written for either error meets it
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, TypeError)


def test_advice_follows_the_message():
    with pytest.raises(ValueError, match=r"got 1\. Two make a pair\.$"):
        checks.check_count("n", 1, least=2, advice="Two make a pair.")


BAD_WEIGHTS = {
    "negative": [1.0, -1.0, 1.0],
    "nan": [1.0, np.nan, 1.0],
    "infinite": [1.0, np.inf, 1.0],
    "too few": [1.0, 1.0],
    "a table": np.ones((3, 1)),
    "words": ["a", "b", "c"],
    "complex": [1j, 1.0, 1.0],
    "too large": [1e80, 1.0, 1.0],
    "too small": [1e-200, 0.0, 0.0],
}


@pytest.mark.parametrize("kind", BAD_WEIGHTS)
def test_a_kernel_refuses_bad_weights_as_an_estimator_does(kind):
    X = np.arange(6.0).reshape(3, 2)
    message = None
    for call in (
        lambda weight: checks.check_weight(weight, 3),
        lambda weight: RBF("median").resolve(X, sample_weight=weight),
    ):
        with pytest.raises(checks.ArgumentError, match="weight") as caught:
            call(BAD_WEIGHTS[kind])
        assert message in (None, str(caught.value))
        message = str(caught.value)


def test_one_weight_stands_for_all():
    X = np.random.default_rng(0).normal(size=(20, 2))
    kernel = RBF("median")
    assert kernel.resolve(X, sample_weight=2.0).length_scale == kernel.resolve(X).length_scale


def test_every_warning_points_at_the_line_of_the_user():
    """Through fit_transform, which is scikit-learn's, and through solvers; and nobody counts frames by hand."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    solver = ConjugateGradient(tol=1e-14, max_iter=1)
    too_few = bochner.FourierFeatures(n_components="auto", tol=1e-4, max_components=16, random_state=0)
    for call in (
        lambda: too_few.fit(X),
        lambda: too_few.fit_transform(X),
        lambda: bochner.KernelRidge("rbf", 32, alpha=1e-8, solver=solver, random_state=0).fit(X, X[:, 0]),
        lambda: bochner.KernelClassifier("rbf", 16, alpha=1e-3, max_iter=1, random_state=0).fit(X, X[:, 0] > 0),
    ):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            call()
        assert found
        assert {warning.filename for warning in found} == {__file__}
    source = Path(bochner.__file__).parent
    by_hand = [
        str(path.relative_to(source)) for path in source.rglob("*.py") if "stacklevel=" in path.read_text("utf-8")
    ]
    assert sorted(by_hand) == ["checks.py", "datasets.py"]


def test_units_are_powers_of_two():
    numbers = np.array([0.0, 0.75, 1.0, 3.0, 1e-320, 1e308])
    assert checks.power_of_two(numbers).tolist() == [1.0, 1.0, 2.0, 4.0, 2.0**-1000, 2.0**1000]
    assert checks.power_of_two(np.float32(3.0)) == 4.0
