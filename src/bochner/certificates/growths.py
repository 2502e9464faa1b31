"""As many columns as a tolerance needs: added in blocks until a certificate is below it, or a budget is spent."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from sklearn.exceptions import ConvergenceWarning

from bochner.certificates.records import Certificate

_FIRST = 64  # columns to begin with
_SLACK = 1.05  # columns found over the fewest that would do
_CLOSE = 0.75  # of tol: a final error above it is not worth another try


@dataclass(frozen=True)
class Budget:
    """What finding the number of columns may cost; the clock starts when it is made.

    Parameters
    ----------
    max_components : int
        At most so many columns.
    max_seconds : float or None
        About so much time for finding how many.
    max_bytes : float or None
        At most so many bytes for what the columns need.
    bytes_per_column : float
        What one of them needs.
    ceiling : int or None
        There are no more columns than this, or none worth having.
    because : str
        Why.
    """

    max_components: int
    max_seconds: float | None = None
    max_bytes: float | None = None
    bytes_per_column: float = 1.0
    ceiling: int | None = None
    because: str = "there are no more"
    started: float = field(default_factory=time.perf_counter)

    @property
    def most(self) -> int:
        """Columns that may be tried."""
        return max(1, min(self._fitting, self.max_components, self.ceiling or self.max_components))

    @property
    def _fitting(self) -> int:
        if self.max_bytes is None:
            return self.max_components
        return int(self.max_bytes // self.bytes_per_column)

    def late(self) -> bool:
        """Whether the time is spent."""
        return self.max_seconds is not None and time.perf_counter() - self.started > self.max_seconds

    def warn(self, tol: float, n_components: int, found: Certificate, stacklevel: int = 5) -> None:
        """Say what was reached instead of tol, and which limit allows no more."""
        if n_components < self.most:
            limit = f"max_seconds={self.max_seconds:g} allows no more. Raise that limit, or tol."
        elif n_components == self.ceiling:
            limit = f"{self.because}. Raise tol."
        elif self._fitting < self.max_components:
            limit = f"max_bytes={self.max_bytes:g} allows no more. Raise that limit, or tol."
        else:
            limit = f"max_components={self.max_components} allows no more. Raise that limit, or tol."
        quantity = found.quantity.replace("_", " ").replace("frobenius", "Frobenius")
        bound = ""
        if found.confidence is not None and not found.exact:
            bound = f" (at most {found.high:.3g} with {100 * found.confidence:g} % confidence)"
        warnings.warn(
            f"tol={tol:g} is not reached: with {n_components} columns the {quantity} error is "
            f"{found.value:.3g}{bound}, and {limit}",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def grow(
    certify: Callable[[int, str], Certificate],
    *,
    tol: float,
    budget: Budget,
    step: int = 16,
    first: int = _FIRST,
    rate: float = 0.5,
    refine: bool = True,
    repeats: int = 0,
) -> tuple[int, Certificate]:
    """The fewest columns, in steps, whose error is certified to be at most tol.

    Columns are added until the upper end of the certificate is below tol, then the last addition is halved until it is
    within 5 %. The search looks at one sample; the certificate returned is of another, which chose nothing. Where a
    budget ends the search first, a ConvergenceWarning says what was reached.

    Parameters
    ----------
    certify : callable
        From a number of columns and the name of a sample, "search" or "final", to a certificate.
    tol : float
    budget : Budget
    step : int
        Numbers of columns are multiples of it, but for the budget's own limit.
    first : int
        Columns to begin with.
    rate : float
        The error is taken to fall like n_components^-rate; 0.5 for the mean of independent columns.
    refine : bool
        False doubles only, for maps that are costly to make.
    repeats : int
        Where "final" means other columns than "search" does, and not only other rows: so many more numbers are tried
        to come close to tol.

    Examples
    --------
    >>> from bochner.certificates import Budget, Certificate, Effort, grow
    >>> def certify(n_components, sample):
    ...     return Certificate("toy", 1 / n_components, (0, 1 / n_components), 0.95, "a formula", Effort(0, 0, 0.0))
    >>> grow(certify, tol=0.01, budget=Budget(1000))[0]
    112
    """
    most = budget.most

    def in_steps(n_components: float) -> int:
        return min(most, max(1, -(-int(n_components) // step)) * step)

    low, high = 0, in_steps(first)
    found = certify(high, "search")
    while found.high > tol and high < most and not budget.late():
        # go where the rate would have it do, four times further at most
        factor = min(max(1.1 * (found.high / tol) ** (1.0 / rate), 1.2), 4.0) if refine else 2.0
        low, high = high, in_steps(max(high + 1, factor * high))
        found = certify(high, "search")
    while refine and found.high <= tol and high > _SLACK * max(low, step) and not budget.late():
        middle = in_steps((low + high) / 2.0)
        if middle >= high:
            break
        trial = certify(middle, "search")
        low, high, found = (low, middle, trial) if trial.high <= tol else (middle, high, found)
    finals = {high: certify(high, "final")}
    while len(finals) <= repeats and not _CLOSE * tol < finals[high].high <= tol and not budget.late():
        enough = min((size for size in finals if finals[size].high <= tol), default=None)
        short = max((size for size in finals if finals[size].high > tol and size < (enough or most)), default=None)
        if enough and short:
            high = in_steps(math.sqrt(enough * short))
        else:
            high = in_steps(high * min(max((finals[high].high / (_CLOSE * tol)) ** (1.0 / rate), 0.5), 2.0))
        if high in finals:
            break
        finals[high] = certify(high, "final")
    high = min((size for size in finals if finals[size].high <= tol), default=max(finals))
    final = finals[high]
    while final.high > tol and high < most and not budget.late():
        high = in_steps(high * (1.1 if refine else 2.0) + 1)
        final = certify(high, "final")
    # where there are no columns left to try, the estimate decides and not its upper end
    if (final.value if high == budget.ceiling else final.high) > tol:
        budget.warn(tol, high, final)
    return high, final
