"""How many components a tolerance needs: more are tried until a certified error is small enough or a limit is met."""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sklearn.exceptions import ConvergenceWarning

from bochner.certificates.records import Certificate
from bochner.checks import warn
from bochner.tuning.deadline import NO_LIMIT, Deadline
from bochner.tuning.policies import ComponentPolicy

Certify = Callable[[int, str], Certificate]  # a number of components and the sample "search" or "final"

POLICY = ComponentPolicy()


@dataclass(frozen=True)
class Budget:
    """Limits of a search for the number of components.

    Parameters
    ----------
    max_components : int
        The most components to try.
    deadline : Deadline
        How long the search may take, approximately.
    max_bytes : float or None
        Memory limit, in bytes. None for no limit. It applies to the components.
    bytes_for : callable
        The memory that a given number of components needs, in bytes; it must grow with the number.
    ceiling : int or None
        The most components that the data allow or that are worth trying, whatever the user's limits.
    because : str
        Why there is a ceiling, for the warning.
    affordable : callable
        The most components that can be tried in the time that is left; it may change as times become known.

    Examples
    --------
    >>> from bochner.certificates import Budget
    >>> Budget(4096, max_bytes=8e6, bytes_for=lambda n_components: 8.0 * n_components**2).most
    1000
    """

    max_components: int
    deadline: Deadline = NO_LIMIT
    max_bytes: float | None = None
    bytes_for: Callable[[int], float] = float
    ceiling: int | None = None
    because: str = "there are no more"
    affordable: Callable[[], int] = lambda: sys.maxsize

    @property
    def most(self) -> int:
        """Return the most components that may be tried; at least 1."""
        return max(1, min(self._most_in_any_time, self.affordable()))

    @property
    def _most_in_any_time(self) -> int:
        return min(self._most_in_memory, self.max_components, self.ceiling or self.max_components)

    @property
    def _most_in_memory(self) -> int:
        if self.max_bytes is None:
            return self.max_components
        return bisect_right(range(1, self.max_components + 1), self.max_bytes, key=self.bytes_for)

    def warn(self, tol: float, n_components: int, found: Certificate) -> None:
        """Issue a ConvergenceWarning with the error that was reached and the limit that ended the search."""
        if n_components < max(1, self._most_in_any_time):
            limit = f"max_seconds={self.deadline.limit:g} allows no more. Raise that limit, or tol."
        elif n_components == self.ceiling:
            limit = f"{self.because}. Raise tol."
        elif self._most_in_memory < self.max_components:
            limit = f"max_bytes={self.max_bytes:g} allows no more. Raise that limit, or tol."
        else:
            limit = f"max_components={self.max_components} allows no more. Raise that limit, or tol."
        quantity = found.quantity.replace("_", " ").replace("frobenius", "Frobenius")
        bound, reached = "", "certified" if found.value <= tol and math.isinf(found.high) else "reached"
        if found.confidence is not None and not found.exact:
            bound = f" (at most {found.high:.3g} with {100 * found.confidence:g} % confidence)"
        warn(
            f"tol={tol:g} is not {reached}: with {n_components} components the {quantity} error is "
            f"{found.value:.3g}{bound}, and {limit}",
            ConvergenceWarning,
        )


@dataclass(frozen=True)
class ComponentSearch:
    """Searches for the smallest number of components whose error is certified to be at most `tol`.

    Parameters
    ----------
    certify : callable
        ``certify(n_components, sample)`` returns a `Certificate` of the error. `sample` is "search" while the number is
        being chosen and "final" for the certificate that is returned, so that the latter can be measured on rows that
        were not used for the choice.
    tol : float
        The error at which the search ends.
    budget : Budget
        The limits that also end it.
    step : int
        Numbers of components are multiples of it, except for the limit of the budget.
    first : int
        The number of components to start with.
    least : int
        No fewer are tried, where the budget allows.
    rate : float
        The error is expected to fall like n_components^-rate; 0.5 suits an average of independent components.
    growth : (float, float)
        At least and at most so many times as many components are tried next; close to each other where trying is
        expensive.
    refine : bool
        False only doubles the number, for features that are expensive to make.
    repeats : int
        How many more numbers to try with the final sample to come close to tol. Useful where "final" means other
        components than "search", not only other rows.

    Examples
    --------
    >>> from bochner.certificates import Budget, Certificate, ComponentSearch, Effort
    >>> def certify(n_components, sample):
    ...     return Certificate("toy", 1 / n_components, (0, 1 / n_components), 0.95, "a formula", Effort(0, 0, 0.0))
    >>> ComponentSearch(certify, tol=0.01, budget=Budget(1000)).run()[0]
    112
    """

    certify: Certify
    tol: float
    budget: Budget
    step: int = 16
    first: int = 64
    least: int = 1
    rate: float = 0.5
    growth: tuple[float, float] = (1.2, 4.0)
    refine: bool = True
    repeats: int = 0

    def run(self) -> tuple[int, Certificate]:
        """Return the number of components and its final certificate.

        Warns with a ConvergenceWarning where the budget ends the search before `tol` is reached.
        """
        n_components, found = self._confirm(self._narrow(*self._bracket()))
        # at the ceiling no larger number is possible, so the estimate decides there and not its upper end
        if (found.value if n_components == self.budget.ceiling else found.high) > self.tol:
            self.budget.warn(self.tol, n_components, found)
        return n_components, found

    def estimate(self) -> tuple[int, bool]:
        """Return a number of components, and whether it suffices, by the sample "search" alone, without warning."""
        low, high, enough = self._bracket()
        return self._narrow(low, high, enough), enough

    def _in_steps(self, n_components: float) -> int:
        return min(self.budget.most, max(self.least, -(-int(n_components) // self.step) * self.step, self.step))

    def _may_add(self, n_components: int) -> bool:
        return n_components < self.budget.most and not self.budget.deadline.is_late()

    def _bracket(self) -> tuple[int, int, bool]:
        """Return a number that is too small, a larger one, and whether the larger one suffices."""
        low, high = 0, self._in_steps(self.first)
        error = self.certify(high, "search").high
        while error > self.tol and self._may_add(high):
            # as many as the rate asks for
            factor = 2.0
            if self.refine:
                factor = min(max(1.1 * (error / self.tol) ** (1.0 / self.rate), self.growth[0]), self.growth[1])
            low, high = high, self._in_steps(max(high + 1, factor * high))
            error = self.certify(high, "search").high
        return low, high, error <= self.tol

    def _narrow(self, low: int, high: int, enough: bool) -> int:
        """Halve the bracket until its upper end is at most 5 % too large."""
        while (
            self.refine and enough and high > POLICY.slack * max(low, self.step) and not self.budget.deadline.is_late()
        ):
            middle = self._in_steps((low + high) / 2.0)
            if middle >= high:
                break
            if self.certify(middle, "search").high <= self.tol:
                high = middle
            else:
                low = middle
        return high

    def _confirm(self, n_components: int) -> tuple[int, Certificate]:
        """Return the smallest number tried whose final certificate is at most tol, trying larger ones if none is."""
        finals = {n_components: self.certify(n_components, "final")}
        while len(finals) <= self.repeats and not self.budget.deadline.is_late():
            if POLICY.close * self.tol < finals[n_components].high <= self.tol:
                break
            n_components = self._next(finals, n_components)
            if n_components in finals:
                break
            finals[n_components] = self.certify(n_components, "final")
        n_components = min((size for size, found in finals.items() if found.high <= self.tol), default=max(finals))
        found = finals[n_components]
        while found.high > self.tol and self._may_add(n_components):
            # as many more as the rate asks for
            factor = min(max((found.high / self.tol) ** (1.0 / self.rate), 1.1), 2.0) if self.refine else 2.0
            n_components = self._in_steps(factor * n_components + 1)
            found = self.certify(n_components, "final")
        return n_components, found

    def _next(self, finals: Mapping[int, Certificate], last: int) -> int:
        """Return the number to try next: between one that suffices and one that does not, or where the rate points."""
        enough = min((size for size, found in finals.items() if found.high <= self.tol), default=None)
        below = enough or self.budget.most
        short = max((size for size, found in finals.items() if found.high > self.tol and size < below), default=None)
        if enough and short:
            return self._in_steps(math.sqrt(enough * short))
        factor = (max(finals[last].high, 0.0) / (POLICY.close * self.tol)) ** (1.0 / self.rate)
        return self._in_steps(last * min(max(factor, 0.5), 2.0))
