"""Targets of models: checks, and warnings about their size."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bochner.backends import Array, refuse_mask
from bochner.checks import ConstantModelWarning, warn
from bochner.ridge.statistics import RidgeStatistics

_SHOWN_LABELS = 3  # labels that an error message shows
_TARGETS = (1e-140, 1e140)  # sizes for which sums of a few million squares neither underflow nor overflow


def numeric_targets(y: ArrayLike, classifier: str = "KernelClassifier") -> Array:
    """Return targets as (n, k) float64, finite; an error for labels names the classifier that learns them."""
    if isinstance(y, np.ma.MaskedArray):
        refuse_mask(y)
    try:
        y = np.asarray(y)
        dates = y.dtype.kind in "mM"  # NumPy makes numbers of these, in any unit, and -9.2e18 of a gap
        y = y.astype(np.float64, casting="same_kind" if y.dtype.kind == "c" else "unsafe", copy=False)
    except (TypeError, ValueError, OverflowError):
        labels = list(dict.fromkeys(label for label in np.ravel(y).tolist() if isinstance(label, (str, bytes))))
        if not labels:
            raise ValueError("the targets must be numbers.") from None
        shown = ", ".join([*map(repr, labels[:_SHOWN_LABELS]), *(["…"] if len(labels) > _SHOWN_LABELS else [])])
        raise ValueError(f"the targets must be numbers, got labels ({shown}): use {classifier} for these.") from None
    if dates:
        raise ValueError("the targets are dates or times; give numbers, such as seconds since the first of them.")
    if y.ndim not in (1, 2):
        raise ValueError(f"y should have one or two dimensions, got {y.ndim}.")
    if not np.isfinite(y).all():
        raise ValueError("the targets contain NaN or infinity; remove those rows.")
    check_target_size(y, whole=False)
    return y.reshape(len(y), -1)


def check_target_size(y: Array, *, whole: bool = True) -> None:
    """Refuse targets whose squares overflow or, if these are all the targets (`whole`), all underflow to zero."""
    largest = float(np.abs(y).max(initial=0.0)) if y.dtype.kind in "fiub" else 0.0
    if largest > _TARGETS[1] or (whole and 0.0 < largest < _TARGETS[0]):
        raise ValueError(
            f"the largest target is {largest:.3g}, and squares of such targets are not numbers any more; divide the "
            "targets by a constant."
        )


# predictions are too coarse if their steps are more than this share of the deviation of the targets; targets that
# deviate less than the other share of their mean are constant up to rounding
_COARSE, _CONSTANT = 0.1, 1e-14
NO_GAIN = 1e-6  # an error that is smaller than another one by this share is not better
JUDGED_ROWS = 20  # the least rows whose errors are compared with those of a constant


def warn_of_level(statistics: RidgeStatistics) -> None:
    """Warn if predictions in float32, the float type of X, cannot tell targets apart, such as 1e12 and 1e12 + 1."""
    level, deviation = _level_and_deviation(statistics)
    step = np.finfo(np.float32).eps * level
    coarse = (step > _COARSE * deviation) & (deviation > _CONSTANT * level)
    if coarse.any():
        warn(
            f"X is float32, and so are predictions: those of targets of mean {level[coarse][0]:.2g} are multiples of "
            f"{step[coarse][0]:.1g}, and the targets have a deviation of {deviation[coarse][0]:.1g}. Pass X as "
            "float64, or targets less their mean.",
            UserWarning,
        )


def _level_and_deviation(statistics: RidgeStatistics) -> tuple[Array, Array]:
    """Return the absolute value of the mean of each target, and its standard deviation."""
    return np.abs(statistics.target_mean), np.sqrt(statistics.total_squares() / statistics.weight)


def warn_of_largest_penalty(statistics: RidgeStatistics, criterion: str) -> None:
    """Warn that a criterion chose the largest penalty, unless rows are few or targets do not vary."""
    level, deviation = _level_and_deviation(statistics)
    if statistics.n_samples >= JUDGED_ROWS and (deviation > _CONSTANT * level).any():
        chosen = f"alpha={criterion!r} chose the largest penalty, with which predictions hardly vary"
        warn_no_better(chosen, labels=criterion == "margin")


def warn_no_better(because: str, *, labels: bool = False) -> None:
    """Warn that a model is no better than a constant, and say what to do about targets or labels."""
    advice = "The columns tell too little about the labels, or the rows are too few, above all of rare classes."
    if not labels:
        advice = (
            "If few targets are much larger than the others, fit a transformation of them, such as the logarithm; "
            "otherwise the columns tell too little about the targets, or the rows are too few."
        )
    warn(f"the model is no better than a constant: {because}. {advice}", ConstantModelWarning)


def warn_of_constant(Y: Array, residual: Array, weight: Array) -> None:
    """Warn if a model predicts rows that are left out no better than the mean of the other rows does.

    Parameters
    ----------
    Y, residual : ndarray of shape (n_samples, n_targets)
        Targets, and what is left of each by the model fitted without its row.
    weight : ndarray of shape (n_samples,)

    Notes
    -----
    The row that speaks most for the model is not counted: a single large target is predicted well by chance.
    """
    if len(Y) < JUDGED_ROWS:
        return
    mean = np.average(Y, axis=0, weights=weight)
    varying = np.average((Y - mean) ** 2, axis=0, weights=weight) > (_CONSTANT * mean) ** 2
    if not varying.any():
        return
    w, constant = weight[:, None], (Y - mean)[:, varying]
    unit = np.average(constant**2, axis=0, weights=weight)
    errors = (w * residual[:, varying] ** 2 / unit).sum(axis=1)
    of_constant = (w * (constant / (1.0 - w / w.sum())) ** 2 / unit).sum(axis=1)
    gains = of_constant - errors
    if gains.sum() - gains.max() > NO_GAIN * of_constant.sum():
        return
    share = float(np.sqrt(errors.sum() / of_constant.sum()))
    alone = "" if gains.sum() <= 0 else ", and only because of a single row"
    warn_no_better(
        f"on rows left out, its root mean squared error is {share:.3g} times that of the mean of the targets{alone}"
    )
