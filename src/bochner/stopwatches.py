"""How long a fit will take: operations counted by theory, times rates measured on small pieces of the same work."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.optimize import nnls

from bochner import theory
from bochner.backends import Array
from bochner.estimators import FourierFeatures, KernelRidge, NystromFeatures
from bochner.estimators.models import CHOSEN_LANDMARKS
from bochner.estimators.ridge import LEFT_OUT_ROWS
from bochner.kernels import Kernel
from bochner.keys import Key
from bochner.landmarks import Gram
from bochner.operators import DenseGram
from bochner.solvers import Cholesky, Eigen
from bochner.statistics import RidgeStatistics
from bochner.theory import Cost

_FIT_ROWS = 5000  # rows that pieces are timed on
_LONG_ENOUGH = 0.02  # seconds of processor time, which is counted in steps of some milliseconds
_PENALTIES = 50  # that a model tries
_STRUCTURED = {"structured": "structured", "fastfood": "fastfood", "fastfood_fft": "fastfood", "circulant": "circulant"}
GRAM_COPIES = 4.5  # sums, their float32 scratch, eigenvectors, workspace


def unfitted(name: str, kernel: Kernel, n_components: int, key: Key) -> Any:
    """The features of that name."""
    made = FourierFeatures if name == "fourier" else NystromFeatures
    return made(kernel, n_components, random_state=key.seed)


class Stopwatch:
    """Processor time of every step: counted operations times a rate measured on a small piece of the step."""

    def __init__(self, X: Any, kernel: Kernel, n_targets: int, learning: bool, alpha: float, key: Key) -> None:
        self.n, self.d = X.shape
        self.itemsize = X.dtype.itemsize
        rows = key.child("stopwatch").generator().permutation(self.n)[:_FIT_ROWS]
        self.X = X[np.sort(rows)]
        self.kernel, self.n_targets, self.learning, self.key = kernel, n_targets, learning, key
        self.alpha = alpha  # of solvers that are given one
        self._rates: dict[Any, float] = {}
        self._curves: dict[str, Array] = {}

    def laws(self, name: str, n_components: int) -> tuple[str | None, str | None]:
        """The law of rows, and of landmarks."""
        if name == "fourier":
            return unfitted(name, self.kernel, n_components, self.key).fit(self.X[:2]).rows_, None
        return None, unfitted(name, self.kernel, 2, self.key).fit(self.X[: min(10, self.X.shape[0])]).landmarks_law_

    def _step(self, name: str, n_components: int) -> str:
        rows, _ = self.laws(name, n_components)
        return "nystrom" if name == "nystrom" else _STRUCTURED.get(rows or "", "fourier")

    def _map_flops(self, step: str, n: float, m: int) -> float:
        """Of mapping n rows: what one more row costs, n times."""
        size = {"n_features": self.d, "n_components": m}
        two, one = (theory.cost_estimate(step, n_samples=k, **size).flops for k in (2, 1))
        return n * (two - one)

    def _rate(self, what: Any, flops: float, work: Callable[[], Any]) -> float:
        """Seconds of processor time an operation: the better of two measurements, after one that warms up."""

        def seconds(count: int) -> float:
            start = time.process_time()
            for _ in range(count):
                work()
            return (time.process_time() - start) / count

        if what not in self._rates:
            count = int(np.clip(_LONG_ENOUGH / max(seconds(1), 1e-6), 1, 16))
            self._rates[what] = max(min(seconds(count), seconds(count)), 1e-7) / flops
        return self._rates[what]

    def predict(self, name: str, n_components: int, solver: str) -> dict[str, float]:
        """Seconds of every step of a fit (or of `fit_transform`, where there is nothing to learn)."""
        m = min(n_components, self.rank) if name == "nystrom" else n_components
        step = self._step(name, m)
        small = min(m, 512)
        key = (name, step, small)
        made = unfitted(name, self.kernel, small, self.key)
        fitted = made.fit(self.X[: max(2 * small, 100)])
        n_rows = int(np.clip(2e8 / self._map_flops(step, 1, small), 64, self.X.shape[0]))
        block = self.X[:n_rows]
        map_rate = self._rate(("map", key), self._map_flops(step, n_rows, small), lambda: fitted.feature_map_(block))
        out = {
            "features": self._overhead(name, m, solver) + self._fitting(name, m),
            "map": map_rate * self._map_flops(step, self.n, m),
        }
        if not self.learning:
            return out
        Z = np.ascontiguousarray(np.resize(fitted.feature_map_(block), (max(1024, n_rows), small)))
        Y = np.zeros((len(Z), self.n_targets))
        sums = RidgeStatistics(small, self.n_targets)
        some = theory.cost_estimate("cholesky", n_samples=len(Z), n_components=small, n_targets=self.n_targets).flops
        rate = self._rate(("sums", key), some - small**3 / 3, lambda: sums.update(Z, Y))
        whole = theory.cost_estimate("cholesky", n_samples=self.n, n_components=m, n_targets=self.n_targets).flops
        out["sums"] = rate * (whole - m**3 / 3)
        size = min(m, 768)
        A = self.key.generator().standard_normal((2 * size, size))  # a spectrum without clusters, which are faster
        gram, rule = DenseGram(np.asfortranarray(A.T @ A)), Eigen() if solver == "eigen" else Cholesky()
        factor = partial(rule.factor, gram, 1.0)
        out["solve"] = self._rate(("solve", solver, size), float(size) ** 3, factor) * float(m) ** 3
        if solver == "eigen":
            out["penalty"] = self._leaving_out(m)
        return out

    def _overhead(self, name: str, m: int, solver: str) -> float:
        """What a fit costs besides its columns, and every row of it: that of a few columns, but for their map."""
        alpha: Any = "loo" if solver == "eigen" else self.alpha
        columns = min(m, 64) if name == "fourier" else 2  # two waves would be drawn by another law than many

        def fit(rows: Any) -> Any:
            if not self.learning:
                return unfitted(name, self.kernel, columns, self.key).fit_transform(rows)
            model = KernelRidge(self.kernel, columns, features=name, alpha=alpha, random_state=self.key.seed)
            return model.fit(rows, np.arange(rows.shape[0]))

        sizes = (min(32, self.n), self.X.shape[0])
        few, many = (
            self._rate(("overhead", name, columns, alpha, size), 1.0, partial(fit, self.X[:size])) for size in sizes
        )
        feature_map = unfitted(name, self.kernel, columns, self.key).fit(self.X[:32]).feature_map_
        mapping = self._rate(("overhead", name, columns), 1.0, lambda: feature_map(self.X))
        return few + max(0.0, many - few - mapping) / max(1, sizes[1] - sizes[0]) * (self.n - sizes[0])

    def _leaving_out(self, m: int) -> float:
        """Choosing the penalty: rows in the eigenbasis, then their residual and leverage for every penalty."""
        size, n, k = min(m, 512), min(1000, self.n), _PENALTIES * self.n_targets
        A, V = np.ones((n, size), self.X.dtype), np.ones((size, size), self.X.dtype)
        right, inverse, slack = np.ones((size, k)), np.ones((size, _PENALTIES)), np.ones((n, _PENALTIES, 1))

        def flops(n: float, m: float) -> float:
            return n * (m * (2.0 * m + 2.0 * k + 2.0 * _PENALTIES) + 20.0 * k)

        def work() -> Any:
            rotated = (A @ V).astype(np.float64)
            leverage = np.maximum(1.0 - (rotated * rotated) @ inverse, 1e-12)
            residual = 1.0 - (rotated @ right).reshape(n, _PENALTIES, -1)
            residual /= np.maximum(leverage[:, :, None], slack)
            return np.einsum("iak->ak", residual * residual)

        rows = min(self.n, LEFT_OUT_ROWS)
        return self._rate(("penalty", size), flops(n, size), work) * flops(rows, m)

    def _fitting(self, name: str, m: int) -> float:
        """Drawing frequencies, or choosing landmarks on the rows that a model fits features on."""
        if name == "fourier":
            small = min(m, 512)
            made = unfitted(name, self.kernel, small, self.key)
            return self._rate(("draw", small), float(small), lambda: made.fit(self.X[:2])) * m
        if self.learning and m > CHOSEN_LANDMARKS:  # models take any of them then: their matrix is all there is to do
            made = unfitted(name, self.kernel, min(1024, self.X.shape[0]), self.key).set_params(landmarks="uniform")
            fit = partial(made._fit, self.X[:2048], transform=False, measured=False)
            return self._rate(("choose", "uniform"), 1024.0**3, fit) * float(m) ** 3
        means = self.kernel.stationary and not scipy.sparse.issparse(self.X)
        # a sample of the rows, as in `KernelModel._fit_features` and in LANDMARK_LAWS["refined"]
        some = max(20_000, 20 * m) if means else self.n
        n_fit = int(np.clip(4 * m, 5000, 20_000)) if self.learning else some
        if "choose" not in self._curves:
            rows = self.X[:2000]
            law = {"landmarks": KernelRidge._landmarks} if self.learning and means else {}
            sizes = sorted({min(size, rows.shape[0] // 2, self.rank) for size in (64, 192, 512)} - {0})
            taken = []
            for size in sizes:
                made = unfitted(name, self.kernel, size, self.key).set_params(**law)
                fit = partial(made._fit, rows, transform=False, measured=False)
                taken.append(self._rate(("choose", size), 1.0, fit))
            # a row costs kernel values and distances, linear in m, and products, quadratic
            table = np.array([[size, size**2] for size in sizes], dtype=float) * rows.shape[0]
            self._curves["choose"] = nnls(table / np.reshape(taken, (-1, 1)), np.ones(len(sizes)))[0]
        linear, quadratic = self._curves["choose"]
        return float(min(self.n, n_fit) * m * (linear + quadratic * m))

    @cached_property
    def rank(self) -> int:
        """Landmarks that add anything but rounding to a sample of the rows; more of them cost nothing."""
        sample = self.X[:1000].astype(np.float64)
        K = np.asarray(self.kernel(sample), dtype=np.float64)
        floor = Gram(self.X[:1], self.kernel).floor * float(K.diagonal().max(initial=0.0))
        *_, rank, _ = scipy.linalg.lapack.dpstrf(K, tol=floor, lower=1)
        return int(1.2 * rank) if rank < 0.8 * len(K) else self.n

    def memory(self, name: str, n_components: int) -> float:
        """Bytes: the map, and the sums with a block of features, or all features."""
        step = self._step(name, n_components)
        size = {"n_samples": self.n, "n_features": self.d, "n_components": n_components}
        cost: Cost = theory.cost_estimate(step, itemsize=self.itemsize, **size)
        if not self.learning:
            return cost.state_bytes + cost.work_bytes
        block = min(cost.work_bytes, float(1 << 25))
        return cost.state_bytes + block + GRAM_COPIES * 8.0 * n_components**2
