"""How a model computes, whatever it computes: the device, the threads, the precision, and what it prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Self

from sklearn.base import BaseEstimator

from bochner.backends import limit_threads, n_threads, use_precision
from bochner.backends.threads import blas_threads


@dataclass(frozen=True)
class Execution:
    """Parameters that say how a model computes, and never what; an estimator may have any of them."""

    device: str | None = None
    n_jobs: int | None = None
    block_size: int | None = None
    precision: str = "full"
    verbose: int = 0

    @classmethod
    def of(cls, estimator: BaseEstimator) -> Self:
        """Read the parameters of an estimator, which stores each under its name."""
        given = vars(estimator)
        return cls(**{field.name: given[field.name] for field in fields(cls) if field.name in given})

    def on_worker(self) -> Self:
        """Return the same for tasks on workers, which run in parallel: one thread unless `n_jobs` is given."""
        return replace(self, n_jobs=self.n_jobs or 1)

    @contextmanager
    def threads(self) -> Iterator[None]:
        """Set the precision and the number of threads, the same for this library and for BLAS."""
        with use_precision(self.precision):
            if self.n_jobs is None:
                yield
                return
            with limit_threads(self.n_jobs), blas_threads(n_threads()):
                yield
