"""Are the times that `recommend` predicts the times that fitting takes? Within a factor 2, over a grid of cases.

For every case: processor time predicted by the calibrated cost model, processor time of the fit (the better of two) and
their ratio; then the share within a factor of two. Processor time, because other work on the machine does not count in
it. The grid shares no dataset, kernel, number of rows or number of columns with the one the model was tuned on (normal
rows; RBF and Matérn 3/2; 2,000, 10,000 and 50,000 rows of 4, 30 and 200 features; 100, 400 and 1,500 columns; float32;
a path of penalties): real rows where BOCHNER_DATA names a folder of them, else mixtures; other kernels, both dtypes,
other numbers, a single penalty too.

Run ``OMP_NUM_THREADS=1 python benchmarks/bench_recommend.py [quick] [data=A,B,…] [sizes=…] [columns=…] [part=1/2]`` for
this grid or for another one, or for a part of it. Five minutes on a quiet core, quick one.
"""

import itertools
import sys
import time

import numpy as np

import bochner
from bochner import (
    FourierFeatures,
    KernelRidge,
    Laplacian,
    Matern,
    NystromFeatures,
    RationalQuadratic,
    datasets,
)
from bochner.keys import Key
from bochner.stopwatches import Stopwatch

REAL = {"california": 8, "elevators": 18, "pol": 26, "letter": 16, "usps": 256}
KERNELS = (Laplacian("median"), Matern("median", nu=2.5), RationalQuadratic("median"))
SIZES, COLUMNS = (1_200, 6_000, 14_000), (50, 150, 600, 1_100)
ALPHA = 0.1
WORK = ("ridge, eigen", "ridge, cholesky", "fit_transform")


def rows_of(name, n):
    """Standardised rows in the dtype that the name's length decides, and targets."""
    rng = np.random.default_rng(len(name))
    if name in datasets.available():
        data = datasets.load(name)
        chosen = rng.choice(len(data.y), min(n, len(data.y)), replace=False)
        X = np.asarray(data.X[chosen], dtype=np.float64)
        y = np.unique(data.y[chosen], return_inverse=True)[1] if data.y.dtype.kind not in "f" else data.y[chosen]
    else:
        centres = 3.0 * rng.normal(size=(10, REAL.get(name, 12)))
        X = centres[rng.integers(0, 10, n)] + rng.normal(size=(n, centres.shape[1]))
        y = X[:, 0]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X.astype(np.float32 if len(name) % 2 else np.float64), np.asarray(y, dtype=np.float64)


def cases(quick, names, sizes, columns):
    """A part of the product that has every pair of values in it."""
    product = itertools.product(names, sizes, columns, ("fourier", "nystrom"), WORK)
    step = 19 if quick else 5
    return [case for i, case in enumerate(product) if i % step == 0 and case[2] <= case[1] / 4]


def actual(name, kernel, X, y, m, work):
    start = time.process_time()
    if work == "fit_transform":
        made = FourierFeatures if name == "fourier" else NystromFeatures
        made(kernel, m, random_state=0).fit_transform(X)
    elif work == "ridge, eigen":
        KernelRidge(kernel, m, features=name, random_state=0).fit(X, y)
    else:
        KernelRidge(kernel, m, features=name, alpha=ALPHA, random_state=0).fit(X, y)
    return time.process_time() - start


def main(quick=False, names=tuple(REAL), sizes=SIZES, columns=COLUMNS, part=(1, 1)):
    ratios = []
    print("data           n    d     m  kernel             map      work            predicted    actual   ratio")
    for i, (data, size, m, name, work) in enumerate(cases(quick, names, sizes, columns)):
        if i % part[1] != part[0] - 1:
            continue
        X, y = rows_of(data, size)
        kernel = KERNELS[i % len(KERNELS)].resolve(X)
        stopwatch = Stopwatch(X, kernel, 1, work != "fit_transform", ALPHA, Key(0))
        solver = "cholesky" if work.endswith("cholesky") else "eigen"
        predicted = sum(stopwatch.predict(name, m, solver).values())
        took = min(actual(name, kernel, X, y, m, work) for _ in range(2))
        ratios.append(predicted / took)
        print(
            f"{data:10s} {len(X):6d} {X.shape[1]:4d} {m:5d}  {type(kernel).__name__:18s} {name:8s} {work:15s} "
            f"{predicted:9.3f} {took:9.3f}  {ratios[-1]:6.2f}",
            flush=True,
        )
    ratios = np.array(ratios)
    inside = float(np.mean((ratios > 0.5) & (ratios < 2.0)))
    print(f"\nmedian ratio {np.median(ratios):.2f}, 5 % and 95 %: {np.quantile(ratios, [0.05, 0.95]).round(2)}")
    whole = []
    for data, kernel in (("elevators", "matern52"), ("letter", "laplacian"), ("california", "rbf")):
        X, y = rows_of(data, 3_000 if quick else 12_000)
        advice = bochner.recommend(X, y, kernel=kernel)
        took = min(_timed(advice, X, y) for _ in range(2))
        whole.append(advice.total_seconds / took)
        print(f"recommend({data}, {kernel}): {advice.features} {advice.n_components}, ratio {whole[-1]:.2f}")
    verdict = "holds" if inside >= 0.9 else "does not hold"
    print(f"predictions within a factor 2: {100 * inside:.1f} % of {len(ratios)} cases, limit 90 %: {verdict}")
    good = all(0.5 < ratio < 2.0 for ratio in whole)
    print(f"recommend's own choice within a factor 2: {len(whole)} cases, all: {'holds' if good else 'does not hold'}")


def _timed(advice, X, y):
    start = time.process_time()
    advice.model(0).fit(X, y)
    return time.process_time() - start


if __name__ == "__main__":
    given = dict(a.split("=") for a in sys.argv[1:] if "=" in a)
    grid = {k: tuple(int(v) for v in given[k].replace("/", ",").split(",")) for k in given if k != "data"}
    if "data" in given:
        grid["names"] = tuple(given["data"].split(","))
    main(quick="quick" in sys.argv[1:], **grid)
