"""As many columns as a tolerance needs: the same draw, extended until its certificate is below it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.exceptions import ConvergenceWarning

from bochner.certificates.kernels import kernel_error
from bochner.certificates.records import Certificate
from bochner.features import FeatureMap
from bochner.kernels import Kernel
from bochner.keys import Key

Map = TypeVar("Map", bound=FeatureMap)

_FIRST = 64  # columns to begin with
_ENTRIES = 1 << 20  # kernel values of a certificate
_SLACK = 1.05  # columns found over the fewest that would do


def grow(
    make: Callable[[int], Map],
    kernel: Kernel,
    X: Any,
    *,
    tol: float,
    max_components: int,
    max_seconds: float | None,
    max_bytes: float | None,
    key: Key,
    confidence: float = 0.95,
) -> tuple[Map, Certificate]:
    """The map with the fewest columns whose relative Frobenius error is certified to be at most tol.

    Columns are added until the upper end of the certificate is below tol, then the last step is halved until it is
    within 5 %. The search looks at one sample of rows; the certificate returned is of another, which chose nothing.
    Where a budget ends the search first, a ConvergenceWarning says what was reached.

    Parameters
    ----------
    make : callable
        From a number of columns to the map; more columns extend the same draw.
    kernel : Kernel
    X : array or CSR matrix of shape (n_samples, n_features)
    tol : float
    max_components, max_seconds, max_bytes : numbers or None
        At most so many columns, so much time for the search, so many bytes of features of the rows of X.
    key : Key
    confidence : float
    """
    started = time.perf_counter()
    most, limit = max_components, f"max_components={max_components}"
    if max_bytes is not None:
        fitting = int(max_bytes // (X.shape[0] * X.dtype.itemsize))
        if fitting < most:
            most, limit = max(1, fitting), f"max_bytes={max_bytes:g}"

    def certify(n_components: int, name: str) -> Certificate:
        options: dict[str, Any] = {"kernel": kernel, "norm": "relative_frobenius", "max_entries": _ENTRIES}
        return kernel_error(make(n_components), X, confidence=confidence, random_state=key.child(name), **options)

    def late() -> bool:
        return max_seconds is not None and time.perf_counter() - started > max_seconds

    def in_blocks(n_components: float) -> int:
        return min(most, -(-int(n_components) // 16) * 16)

    low, high = 0, min(_FIRST, most)
    found = certify(high, "search")
    while found.high > tol and high < most and not late():
        # the error of independent columns falls like their root: go where that would do, four times further at most
        low, high = high, in_blocks(high * min(max(1.1 * (found.high / tol) ** 2, 1.2), 4.0))
        found = certify(high, "search")
    while found.high <= tol and high > _SLACK * max(low, 16) and not late():
        middle = in_blocks((low + high) / 2.0)
        if middle >= high:
            break
        trial = certify(middle, "search")
        low, high, found = (low, middle, trial) if trial.high <= tol else (middle, high, found)
    final = certify(high, "final")
    while final.high > tol and high < most and not late():
        high = in_blocks(high * 1.1 + 16)
        final = certify(high, "final")
    if final.high > tol:
        reached = limit if high >= most else f"max_seconds={max_seconds:g}"
        warnings.warn(
            f"tol={tol:g} is not reached: with {high} columns the relative Frobenius error is {final.value:.3g} "
            f"(at most {final.high:.3g} with {100 * confidence:g} % confidence) and {reached} allows no more. "
            "Raise that limit, or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return make(high), final
