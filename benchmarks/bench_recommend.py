"""Are the times that `recommend` predicts the times that fitting takes? Within a factor 2, over a grid of shapes.

For every shape of data, map and number of columns: processor time predicted by the calibrated cost model, processor
time of the fit, and their ratio; then the share of the grid within a factor of two, and what `recommend` itself says
for a few datasets. Processor time, because other work on the machine does not count in it.

Run ``OMP_NUM_THREADS=1 python benchmarks/bench_recommend.py [quick]``.
"""

import itertools
import sys
import time

import numpy as np

import bochner
from bochner import RBF, FourierFeatures, KernelRidge, Matern, NystromFeatures
from bochner.keys import Key
from bochner.recommendations import _Stopwatch


def actual(name, kernel, X, y, m):
    start = time.process_time()
    if y is None:
        made = FourierFeatures if name == "fourier" else NystromFeatures
        made(kernel, m, random_state=0).fit_transform(X)
    else:
        KernelRidge(kernel, m, features=name, random_state=0).fit(X, y)
    return time.process_time() - start


def data(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


def main(quick=False):
    sizes = [2_000, 20_000] if quick else [2_000, 10_000, 50_000]
    grid = itertools.product(sizes, [4, 30, 200], [100, 400, 1500], ["fourier", "nystrom"], [True, False])
    ratios = []
    print("    n    d     m  map      work            predicted    actual   ratio")
    for n, d, m, name, learning in grid:
        X, y = data(n, d)
        kernel = RBF(np.sqrt(d)) if d != 30 else Matern(np.sqrt(d))
        stopwatch = _Stopwatch(X, kernel, 1, learning, Key(0))
        predicted = sum(stopwatch.predict(name, m, "eigen").values())
        took = min(actual(name, kernel, X, y if learning else None, m) for _ in range(2))
        ratios.append(predicted / took)
        work = "kernel ridge" if learning else "fit_transform"
        print(f"{n:6d} {d:4d} {m:5d}  {name:8s} {work:14s} {predicted:9.3f} {took:9.3f}  {ratios[-1]:6.2f}", flush=True)
    ratios = np.array(ratios)
    inside = np.mean((ratios > 0.5) & (ratios < 2.0))
    print(f"\nwithin a factor 2: {100 * inside:.1f} % of {len(ratios)} cases; median ratio {np.median(ratios):.2f}\n")
    cases = [(20_000, 3, RBF(2.0)), (20_000, 30, "rbf"), (5_000, 200, "matern32")]
    for n, d, kernel in cases:
        X, y = data(n, d)
        advice = bochner.recommend(X, y, kernel=kernel)
        start = time.process_time()
        advice.model(0).fit(X, y)
        took = time.process_time() - start
        print(advice)
        print(f"  ... took {took:.2f} s, predicted over actual {advice.total_seconds / took:.2f}\n", flush=True)


if __name__ == "__main__":
    main(quick="quick" in sys.argv[1:])
