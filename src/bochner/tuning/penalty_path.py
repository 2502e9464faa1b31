"""The choice of a classifier's penalty: models of some rows are compared by their loss on other rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from bochner.backends import Array
from bochner.checks import warn
from bochner.data.sources import ArraySource, Block
from bochner.data.targets import warn_no_better
from bochner.draws.keys import Key
from bochner.features.maps import Identity
from bochner.newton.losses import Loss
from bochner.newton.minimize import newton
from bochner.newton.objectives import SINGLE_SIZE, Problem

_TOL = 1e-2  # relative tolerance of the objectives
_DECADES_BELOW = 12  # decades from the penalty of a single row down to the smallest one tried
_COARSE = 2.0  # decades between penalties with which no model is clearly better than a constant
_CLEAR = 2.0  # standard errors by which a loss has to differ from another one to be clearly larger
_MOST_FOLDS, _FEWEST_FOLDS = 10, 3  # with few and with many rows


def held_folds(codes: Array, n_rows: int, key: Key) -> tuple[list[Array], int]:
    """Divide rows into folds that hold out every class in proportion.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        The class of each row.
    n_rows : int
        Number of rows that all fits with one penalty may learn from.

    Returns
    -------
    folds : list of ndarray
        Indices of the rows that each fold holds out. The only row of a class is never held out: a loss without that
        class has no minimum, since its intercept would grow for ever. If only one class can be held out, there are no
        folds: the best model of its rows alone is any that ignores the others.
    n_first : int
        Number of folds to begin with: as many as `n_rows` allows.
    """
    n = len(codes)
    n_first = min(_MOST_FOLDS, max(1, n_rows // max(n, 1)))
    n_folds = max(_FEWEST_FOLDS, n_first)
    order = key.generator().permutation(n)
    order = order[np.argsort(codes[order], kind="stable")]
    fold = np.empty(n, int)
    fold[order] = np.arange(n) % n_folds
    if np.count_nonzero(np.bincount(codes) > 1) < 2:
        return [], 0
    fold[np.bincount(codes)[codes] < 2] = n_folds
    folds = [np.flatnonzero(fold == i) for i in range(n_folds)]
    return [rows for rows in folds if len(rows)], n_first


@dataclass
class _HeldOut:
    """Models of all rows but a fold, and their losses on that fold."""

    problem: Callable[[float], Problem]
    test: Block
    points: dict[float, Array] = field(default_factory=dict)
    losses: dict[float, Array] = field(default_factory=dict)

    def losses_at(self, alpha: float) -> Array:
        """Loss of each held-out row; Newton's method starts from the model of the nearest penalty tried."""
        if alpha not in self.losses:
            problem = replace(self.problem(alpha), rows=None, verbose=0, single=True)
            near = min(self.points, key=lambda other: abs(np.log(other / alpha)), default=None)
            start = np.zeros(problem.shape) if near is None else self.points[near]
            P, _, _ = newton(problem, Key(0), start, tol=_TOL, max_iter=500)
            self.points[alpha] = P
            self.losses[alpha] = problem.loss.value(self.test.X @ P[:-1] + P[-1], self.test.y)
        return self.losses[alpha]


class PenaltyPath:
    """Models with several penalties, compared by their losses on rows held out, pooled over folds.

    Parameters
    ----------
    rows : Block
        Features, signs and weights.
    folds : sequence of ndarray
        Indices of the rows that each fold holds out.
    n_first : int
        Number of folds to begin with. The others follow if these leave it open whether anything is learned.
    problem : callable
    loss : Loss
    """

    def __init__(
        self, rows: Block, folds: Sequence[Array], n_first: int, problem: Callable[..., Problem], loss: Loss
    ) -> None:
        Z = rows.X
        squares = float(np.einsum("ij,ij->", Z, Z, dtype=np.float64)) / len(Z) or 1.0  # mean k(x, x)
        self.unit = squares * float(rows.weights.mean())
        #: The largest penalty worth trying: no score is further from the intercept than the slopes of all rows.
        self.most = self.unit * len(Z)
        if Z.size >= SINGLE_SIZE:
            rows = replace(rows, X=Z.astype(np.float32, copy=False))
        self.rows, self.folds, self.problem, self.loss = rows, folds, problem, loss
        self.parts: list[_HeldOut] = []
        self.losses: dict[float, float] = {}
        self._hold_out(n_first)

    def _hold_out(self, n_folds: int) -> None:
        """Use more folds."""
        for held in self.folds[len(self.parts) : n_folds]:
            train, test = self.rows[np.delete(np.arange(len(self.rows)), held)], self.rows[held]
            source = ArraySource(train.X, train.y, train.weight)
            self.parts.append(_HeldOut(partial(self.problem, source, Identity(train.X.shape[1]), self.loss), test))
        self.weight = np.concatenate([part.test.weights for part in self.parts])
        self.losses.clear()

    @property
    def best(self) -> float:
        """The penalty with the least loss; ties go to the largest."""
        return min(self.losses, key=lambda alpha: (self.losses[alpha], -alpha))

    @property
    def least(self) -> float:
        """Its loss."""
        return self.losses[self.best]

    @property
    def choice(self) -> float:
        """The best penalty; if it does not clearly beat a constant, the largest within one standard error of it."""
        if self._is_clear(*self.gain()):
            return self.best
        return max(alpha for alpha in self.losses if np.subtract(*self.gain(other=alpha)) <= 0.0)

    def start(self, alpha: float) -> Array:
        """The model of the first fold with a penalty that was tried."""
        return self.parts[0].points[alpha]

    def search(self) -> None:
        """Try penalties from a constant model downwards until one is clearly too small, then walk from the best.

        The range is tried coarsely as far as nothing is learned: the loss is flat there, and noise would end a walk.
        """
        decade = 0.0
        while decade < self.n_decades:
            alpha = self._at(decade)
            self.loss_at(alpha)
            if self._is_clear(*self.gain(self.best, alpha)):
                break
            decade += 1.0 if self._is_clear(*self.gain()) else _COARSE
        self.walk(self.best)
        if len(self.parts) < len(self.folds) and not self._is_clear(*self.gain()):
            self._hold_out(len(self.folds))
            self.search()

    @staticmethod
    def _is_clear(gain: float, error: float) -> bool:
        return gain > _CLEAR * error

    @property
    def n_decades(self) -> float:
        """Decades from the largest penalty to the smallest."""
        return float(np.log10(len(self.rows))) + _DECADES_BELOW

    def _at(self, decade: float) -> float:
        return float(self.most * 10.0 ** -min(max(decade, 0.0), self.n_decades))

    def nearest(self, alpha: float) -> float:
        """Return the nearest penalty that is some half decades below the largest."""
        return self._at(self._decade(alpha))

    def _decade(self, alpha: float) -> float:
        return float(round(2.0 * np.log10(self.most / alpha)) / 2.0)

    def walk(self, start: float) -> None:
        """Try decades upwards or downwards while the loss falls, then the vertex of the parabola about the best."""

        def loss(decade: float) -> float:
            return self.loss_at(self._at(decade))

        best = self._decade(start)
        towards = 1.0 if loss(best + 1.0) < loss(best) else -1.0
        while loss(best + towards) < loss(best):
            best += towards
        above, below = loss(best - 1.0) - loss(best), loss(best + 1.0) - loss(best)
        if above + below > 0.0:
            loss(best + 0.5 * (above - below) / (above + below))

    def loss_at(self, alpha: float) -> float:
        """The mean loss on held-out rows.

        With n held-out rows, a mean loss below 1 / n cannot be distinguished from zero. Smaller ones count as 1 / n:
        the loss of labels that can be separated would fall for ever with the penalty.
        """
        alpha = float(alpha)
        if alpha not in self.losses:
            self.losses[alpha] = max(float(self.weight @ self._of_rows(alpha) / self.weight.sum()), self.floor)
        return self.losses[alpha]

    @property
    def floor(self) -> float:
        """The least mean loss that counts."""
        return 1.0 / len(self.weight)

    def _of_rows(self, alpha: float) -> Array:
        return np.concatenate([part.losses_at(alpha) for part in self.parts])

    def gain(self, alpha: float | None = None, other: float | None = None) -> tuple[float, float]:
        """By how much the mean loss with `alpha` is below that with another penalty, and the standard error.

        Parameters
        ----------
        alpha : float or None
            None for the best.
        other : float or None
            None for the largest, whose model is nearly constant.

        Notes
        -----
        Models of other rows would differ, and those of several folds share rows: the variance of the mean of J folds is
        1 + J n_held / n_learned times that of independent losses (Nadeau & Bengio 2003).
        """
        gains = self._of_rows(other or self.most) - self._of_rows(alpha or self.best)
        weight = self.weight / self.weight.sum()
        mean = float(weight @ gains)
        n_held = len(gains) / len(self.parts)
        doubt = 1.0 + len(gains) / (len(self.rows) - n_held)
        return mean, float(np.sqrt(doubt) * np.linalg.norm(weight * (gains - mean)))

    def warn(self) -> None:
        """Warn if the best model is not clearly better than a constant, or the best penalty the smallest one."""
        gain, error = self.gain()
        if not self._is_clear(gain, error):
            warn_no_better(
                f"on {len(self.weight)} held-out rows its loss is {self.least:.4g}, and {self.loss_at(self.most):.4g} "
                f"with the largest penalty; the standard error of the difference is {error:.2g}",
                labels=True,
            )
        elif self.best <= self._at(self.n_decades) and self._is_clear(*self.gain(other=10.0 * self.best)):
            warn(
                f"alpha={self.best:.3g} is the smallest penalty tried, and the loss on held-out rows still falls. "
                "Give alpha as a list of smaller penalties.",
                UserWarning,
            )
