"""Gaussian processes: mean and error bars against the exact process, and coverage of the 95 % interval.

    python benchmarks/bench_gaussian_process.py exact              # 2,000 rows, scikit-learn's process beside ours
    python benchmarks/bench_gaussian_process.py coverage [NAMES]   # of new observations (BOCHNER_DATA)

The last line of each figure says whether it holds.
"""

import sys
import time

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor as ExactProcess
from sklearn.gaussian_process import kernels

from bochner import RBF, GaussianProcessRegressor, datasets

COVERED = ["kin40k", "elevators", "california", "protein", "pol", "bike_hour"]


def verdict(what, measured, limit, holds):
    print(f"{what}: {measured}; limit {limit}: {'holds' if holds else 'DOES NOT HOLD'}", flush=True)


def against_exact(rng):
    """2,000 rows: errors in units of the prior standard deviation of f."""
    X = rng.uniform(-2, 2, size=(3000, 4))
    f = np.sin(2 * X[:, 0]) * X[:, 1] + np.cos(X[:, 2] + X[:, 3])
    y = f + 0.1 * rng.normal(size=len(X))
    X, y, X_new = X[:2000], y[:2000], X[2000:]
    amplitude, noise, scale = 1.0, 0.01, 1.5
    start = time.perf_counter()
    kernel = kernels.ConstantKernel(amplitude, "fixed") * kernels.RBF(scale, "fixed")
    exact = ExactProcess(kernel, alpha=noise, optimizer=None).fit(X, y)
    mean, std = exact.predict(X_new, return_std=True)
    seconds = time.perf_counter() - start
    print(f"\nagainst the exact process (scikit-learn), 2,000 rows × 4, RBF: {seconds:.2f} s")
    print(f"{'features':>10} {'m':>5} {'mean: max error':>16} {'std: max error':>15} {'max ratio':>15} {'seconds':>8}")
    reached = {}
    for features, sizes in (("nystrom", (128, 256, 512, 1024, 2000)), ("fourier", (256, 1024, 4096))):
        for m in sizes:
            start = time.perf_counter()
            model = GaussianProcessRegressor(
                RBF(scale),
                m,
                features="auto" if m == 2000 else features,
                noise_variance=noise,
                amplitude=amplitude,
                fit_intercept=False,
                random_state=0,
            ).fit(X, y)
            ours, spread = model.predict(X_new, return_std=True)
            seconds = time.perf_counter() - start
            ratio = np.exp(np.abs(np.log(spread / std)).max())
            worst = max(np.abs(ours - mean).max(), np.abs(spread - std).max())
            reached[features, m] = worst
            print(
                f"{features:>10} {m:5d} {np.abs(ours - mean).max():16.2e} {np.abs(spread - std).max():15.2e} "
                f"{ratio:15.3f} {seconds:8.2f}"
            )
    shown = f"{reached['nystrom', 1024]:.1e} of the prior's deviation"
    verdict("GP, 1,024 landmarks: mean and deviation, largest error", shown, "0.01", reached["nystrom", 1024] <= 0.01)
    shown = f"{reached['nystrom', 2000]:.1e}"
    verdict("GP, every row a landmark: largest error", shown, "1e-4", reached["nystrom", 2000] <= 1e-4)


def coverage(names=COVERED, rows=20_000, m=1024):
    inside_limits = 0
    print(f"\ncoverage of the 95 % interval of new observations, {m} components, everything else fitted by evidence")
    print(f"{'data':>12} {'rows':>6} {'coverage %':>11} {'R²':>7} {'noise share':>12} {'fit s':>7}")
    for name in names:
        if name not in datasets.available():
            print(f"{name:>12} skipped: BOCHNER_DATA has no {name}.npz")
            continue
        data = datasets.load(name)
        order = np.random.default_rng(0).permutation(len(data.y))
        X, y = data.X[order], data.y[order].astype(float)
        n = min(rows, int(0.8 * len(y)))
        spread = X[:n].std(axis=0)
        X = (X[:, spread > 0] - X[:n, spread > 0].mean(axis=0)) / spread[spread > 0]
        start = time.perf_counter()
        model = GaussianProcessRegressor("matern32", m, n_restarts=0, random_state=0).fit(X[:n], y[:n])
        seconds = time.perf_counter() - start
        test = slice(n, n + 10_000)
        mean, std = model.predict(X[test], return_std=True, include_noise=True)
        inside = np.abs(y[test] - mean) <= 1.959964 * std
        score = 1.0 - ((y[test] - mean) ** 2).mean() / y[test].var()
        noise = model.noise_variance_ / y[:n].var()
        inside_limits += 0.93 <= inside.mean() <= 0.97
        print(f"{name:>12} {n:6d} {100 * inside.mean():11.2f} {score:7.4f} {noise:12.4f} {seconds:7.1f}", flush=True)
    verdict("GP, coverage between 93 and 97 %", f"on {inside_limits} datasets", "3 datasets", inside_limits >= 3)


if __name__ == "__main__":
    part, *rest = sys.argv[1:] or ["exact"]
    if part not in ("exact", "coverage"):
        sys.exit(f"there is no part {part!r}; choose from exact, coverage.")
    if part == "exact":
        against_exact(np.random.default_rng(0))
    else:
        coverage(*([rest] if rest else []))
