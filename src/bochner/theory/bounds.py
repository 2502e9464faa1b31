"""A theorem as an object: its assumptions are fields, and three methods give probability, error and size.

A new theorem subclasses `TailBound` and writes its probability of failure, or subclasses `ErrorBound` and writes its
error; the other directions follow by bisection, and a closed form replaces them where there is one. Its name in
`BOUNDS` includes it in the tests of every bound in tests/test_theory.py.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, ClassVar, get_type_hints

from bochner.checks import check_count, check_fraction, check_positive

# The type of an assumption includes its check, a function of name and value.
Count = Annotated[int, partial(check_count, most=math.inf)]
Positive = Annotated[float, check_positive]

_ROUNDING = 1 + 1e-12  # relative error allowed in an inverse, so that 1 / 0.1² is 100 and not 101


def least(keeps: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest number from low to high that `keeps`, if all larger ones do; high if none does."""
    while high / low > _ROUNDING:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def round_up(name: str, value: float) -> int:
    """Round a size up, with a message where the promise needs more than any machine holds."""
    if not value < 2**62:
        raise ValueError(
            f"{name} would exceed 2**62: no feasible size is enough. "
            "Allow a larger error or delta, or shrink the domain."
        )
    return max(1, math.ceil(value))


@dataclass(frozen=True, kw_only=True)
class Bound(ABC):
    """A promise that an error stays small: assumptions as fields, and three methods that invert each other.

    Subclasses say what ``size`` counts and what ``error`` is; their assumptions are given by keyword, and checked.
    Without a delta, theorems about the mean error answer for the mean, and the others raise.

    Examples
    --------
    >>> from bochner.theory import AllPairsBound
    >>> bound = AllPairsBound(n_samples=1000)  # what is assumed
    >>> round(bound.error(4096, delta=0.01), 4)  # what 4,096 frequencies promise with probability 0.99
    0.0948
    >>> bound.size(0.1, delta=0.01)  # the frequencies that an error of 0.1 needs
    3684
    >>> round(bound.failure(4096, 0.1), 4)  # the probability that 4,096 frequencies miss it
    0.0013
    """

    counts: ClassVar[str] = "n_frequencies"
    """What a size counts."""

    relative: ClassVar[bool] = False
    """True if an error is a share and must lie between 0 and 1."""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for field in fields(self):
            value = vars(self)[field.name]
            if value is not None or field.default is not None:
                (checked,) = hints[field.name].__metadata__
                object.__setattr__(self, field.name, checked(field.name, value))

    @property
    def least_size(self) -> int:
        """Smallest size for which the theorem holds."""
        return 1

    @property
    def limit(self) -> float:
        """Error that is never reached, whatever is drawn."""
        return math.inf

    def failure(self, size: int, error: float) -> float:
        """Bound the probability that an object of this `size` has an error of `error` or more."""
        size, error = self._checked_size(size), self._checked_error(error)
        return 0.0 if error >= self.limit else min(1.0, self._failure(size, error))

    def error(self, size: int, delta: float | None = None) -> float:
        """Return the error that an object of this `size` exceeds with probability at most delta."""
        size = self._checked_size(size)
        return self._mean(size) if delta is None else self._error(size, check_fraction("delta", delta))

    def size(self, error: float, delta: float | None = None) -> int:
        """Return the smallest size whose error exceeds `error` with probability at most delta."""
        error = self._checked_error(error)
        if delta is None:
            return self._smallest(lambda size: self._mean(size) <= error * _ROUNDING)
        delta = check_fraction("delta", delta)
        return self.least_size if error >= self.limit else self._size(error, delta)

    @abstractmethod
    def _failure(self, size: int, error: float) -> float: ...

    @abstractmethod
    def _error(self, size: int, delta: float) -> float: ...

    @abstractmethod
    def _size(self, error: float, delta: float) -> int: ...

    def _mean(self, size: int) -> float:
        raise ValueError(
            f"delta must be a number: {type(self).__name__} holds with probability 1 - delta and says nothing of the "
            "mean error. Pass delta=0.01, for instance."
        )

    def _smallest(self, keeps: Callable[[int], bool]) -> int:
        """Return the smallest size that `keeps`, if all larger ones do."""
        first, step = self.least_size, 1
        while not keeps(first + step - 1):
            step = round_up(self.counts, 2 * step)
        low, high = first + step // 2 - 1, first + step - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if keeps(middle) else (middle, high)
        return high

    def _checked_size(self, size: int) -> int:
        advice = "The theorem says nothing of fewer."
        return check_count(f"size ({self.counts})", size, least=self.least_size, most=math.inf, advice=advice)

    def _checked_error(self, error: float) -> float:
        return check_fraction("error", error) if self.relative else check_positive("error", error)


class TailBound(Bound):
    """A bound that writes the probability of failure and has its error and size by bisection."""

    def _error(self, size: int, delta: float) -> float:
        return least(lambda error: self._failure(size, error) <= delta, 1e-12, self.limit)

    def _size(self, error: float, delta: float) -> int:
        return self._smallest(lambda size: self._failure(size, error) <= delta * _ROUNDING)


class ErrorBound(Bound):
    """A bound that writes its error and has its probability of failure and its size by bisection."""

    def _failure(self, size: int, error: float) -> float:
        return least(lambda delta: self._error(size, delta) <= error * _ROUNDING, 1e-300, 1.0)

    def _size(self, error: float, delta: float) -> int:
        return self._smallest(lambda size: self._error(size, delta) <= error * _ROUNDING)
