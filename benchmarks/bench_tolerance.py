"""Does KernelRidge(n_components="auto", tol=…) keep its promise, and with how few columns?

For every dataset and seed (another split, another draw): fit with n_components="auto", then compare the mean squared
error of held-out rows with that of exact kernel ridge regression with the same kernel and penalty. The promise is kept
when the excess is at most tol; "free" counts the seeds in which it is also at most tol where exact regression has the
better of that penalty and the one of its own least leave-one-out error. The smallest sufficient choice is found by
search: the smallest fixed number of columns (of a grid with ratio 2^(1/4), same features, kernel and penalty, same
seeds) that keeps the promise in at least 95 of 100 seeds; no choice that knows less than the held-out rows could do
with fewer.

The constants of the rule come from the made datasets, kegg_undirected, cpu, pol, kin40k and parkinson, the last four
with noise added as well, seeds 500 to 699. That a third of the rows is too few to measure on was seen on wine, seeds
2000 to 2099; nothing else was chosen on the six real datasets of the table.

Run ``python benchmarks/bench_tolerance.py [quick] [tol=0.1] [seeds=100] [first=1000] [features=auto] [jobs=2]
[NAME …]`` with BOCHNER_DATA set to a folder of datasets; without it, six of scikit-learn's kind are made. One process a
core, one thread each.
"""

import math
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from sklearn import datasets as made
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from bochner import FourierFeatures, KernelRidge, NystromFeatures, datasets, exact_kernel_ridge

REAL = ("california", "protein", "elevators", "bike_hour", "wine", "insurance")
MADE = ("friedman1", "friedman2", "friedman3", "sines", "steps", "sparse")
TRAIN, TEST, MOST = 2000, 5000, 2048
GRID = sorted({16 * round(2.0 ** (k / 4.0)) for k in range(29)})  # 16 … 2048


def rows_of(name, seed):
    """Standardised training and held-out rows."""
    rng = np.random.default_rng(seed)
    n = TRAIN + TEST
    if name in MADE:
        if name.startswith("friedman"):
            noise = {"friedman1": 1.0, "friedman2": 100.0, "friedman3": 0.1}[name]
            X, y = getattr(made, f"make_{name}")(n, noise=noise, random_state=seed)
        else:
            X = rng.uniform(-1.0, 1.0, (n, 6))
            signal = {
                "sines": np.sin(4.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]),
                "steps": np.sign(X[:, 0] + X[:, 1] * X[:, 2]),
                "sparse": np.exp(-4.0 * (X[:, :2] ** 2).sum(axis=1)),
            }[name]
            y = signal + 0.3 * rng.normal(size=n)
    else:
        data = datasets.load(name)
        chosen = rng.permutation(len(data.y))[:n]
        X, y = data.X[chosen], data.y[chosen]
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    train = slice(0, min(TRAIN, 2 * len(X) // 3))
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = (y - y[train].mean()) / y[train].std()
    return X[train], y[train], X[train.stop :], y[train.stop :]


def suited_penalty(kernel, X, y):
    """The penalty with which exact kernel ridge regression has the least leave-one-out error of centred targets."""
    values, vectors = np.linalg.eigh(kernel(X))
    moment, squares = vectors.T @ y, vectors**2
    alphas = np.geomspace(1e-8, 1e3, 45)
    inverses = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
    errors = (vectors @ (inverses * moment[:, None])) / (squares @ inverses)
    return alphas[(errors**2).mean(axis=0).argmin()]


def trial(task):
    name, seed, tol, features = task
    X, y, X_new, y_new = rows_of(name, seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KernelRidge(features=features, tol=tol, max_components=MOST, n_jobs=1, random_state=seed).fit(X, y)
    seconds = time.perf_counter() - start
    kernel, alpha, own_size = model.features_.kernel_, model.alpha_, model.n_components_
    penalties = (alpha, suited_penalty(kernel, X, y))
    exact, other = (np.mean((exact_kernel_ridge(kernel, X, y, X_new, a) - y_new) ** 2) for a in penalties)
    # a ratio of sixteen would be failure enough, and what is beyond the choice made is taken to suffice
    excess = {m: np.inf if m < own_size / 16 else 0.0 for m in GRID}
    for m in (m for m in GRID if own_size / 16 <= m <= 1.2 * own_size):
        if isinstance(model.features_, FourierFeatures):
            made = FourierFeatures(kernel, m, rows=model.features_.rows_, random_state=seed)
        else:
            made = NystromFeatures(kernel, m, landmarks=KernelRidge._landmarks, random_state=seed)
        fixed = KernelRidge(features=made, alpha=alpha, n_jobs=1).fit(X, y)
        excess[m] = np.mean((fixed.predict(X_new) - y_new) ** 2) / exact - 1.0
    own = np.mean((model.predict(X_new) - y_new) ** 2) / exact - 1.0
    free = own if exact <= other else (own + 1.0) * exact / other - 1.0
    return name, seed, model.n_components_, own, model.certificate_, excess, seconds, float(exact), free


def report(name, found, tol):
    """A line of the table; whether the promise is kept, and within twice the columns, in 95 of 100 seeds."""
    columns = np.array([f[2] for f in found])
    met = np.array([f[3] <= tol for f in found])
    needed = math.ceil(0.95 * len(found))
    enough = [m for m in GRID if sum(f[5][m] <= tol for f in found) >= needed]
    least = enough[0] if enough else GRID[-1]
    both = met & (columns <= 2 * least)
    own = np.array([f[3] for f in found])
    print(
        f"{name:12s} {np.mean([f[7] for f in found]):8.4f} {met.sum():4d}/{len(found):<4d} "
        f"{np.median(own):8.4f} {np.quantile(own, 0.95):8.4f} {np.median([f[4].value for f in found]):9.4f} "
        f"{np.median(columns):8.0f} {columns.max():6d} {least:9d} {np.median(columns) / least:7.2f} "
        f"{both.sum():6d} {sum(f[8] <= tol for f in found):5d} {np.median([f[6] for f in found]):8.2f}",
        flush=True,
    )
    return met.mean(), both.mean(), float(np.median(columns)) / least


def main(arguments):
    options = dict(a.split("=") for a in arguments if "=" in a)
    names = [a for a in arguments if "=" not in a and a != "quick"]
    seeds = int(options.get("seeds", 10 if "quick" in arguments else 100))
    tol, first = float(options.get("tol", 0.1)), int(options.get("first", 1000))
    jobs = int(options.get("jobs", os.cpu_count() or 1))
    names = names or (REAL if set(REAL) <= set(datasets.available()) else MADE)
    print(f"tol = {tol:g}, {seeds} seeds, {TRAIN} training rows; errors over those of exact kernel ridge regression\n")
    first_line = "data         exact mse      met  excess:  95 % of certified  columns:   most  smallest   ratio   both"
    print(f"{first_line}  free  seconds")
    print("                                 median   seeds              median         sufficient       (met, ≤ 2×)")
    results = []
    with ProcessPoolExecutor(jobs, initializer=threadpool_limits, initargs=(1,)) as pool:
        tasks = [(n, seed, tol, options.get("features", "auto")) for n in names for seed in range(first, first + seeds)]
        found = pool.map(trial, tasks)
        for name in names:  # in the order of the tasks
            results.append(report(name, [next(found) for _ in range(seeds)], tol))
    met, both, ratio = (np.array(part) for part in zip(*results, strict=True))

    def verdict(what, measured, limit, holds):
        print(f"{what}: {measured}, limit {limit}: {'holds' if holds else 'does not hold'}")

    print()
    verdict("tolerance met on held-out rows, worst dataset", f"{100 * met.min():.0f} %", "95 %", met.min() >= 0.95)
    verdict(
        "median columns over the smallest sufficient choice, worst dataset", f"{ratio.max():.2f}", "2", ratio.max() <= 2
    )
    verdict("seeds with both at once, worst dataset", f"{100 * both.min():.0f} %", "95 %", both.min() >= 0.95)


if __name__ == "__main__":
    main(sys.argv[1:])
