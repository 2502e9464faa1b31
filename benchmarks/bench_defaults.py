"""Everything on default, beside scikit-learn's gradient boosting in the same run: times, errors, and what was chosen.

Run ``python benchmarks/bench_defaults.py [ridge] [rows=1000,10000] [seeds=1] [NAME …]`` with BOCHNER_DATA set to a
folder of datasets; without it, only made rows are used. NAME is one of the datasets. Processor seconds of one thread:
wall times of two libraries on a shared machine say little.
"""

import os
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from threadpoolctl import threadpool_limits

import bochner
from bochner import KernelRidge, datasets

REGRESSION = ("california", "protein", "kin40k", "elevators", "pol", "bike_hour", "wine", "cpu", "parkinson",
              "kegg_undirected", "insurance", "ijcnn1")  # fmt: skip
MOST_ROWS = 20_000
LIMITS = {1000: 3.0, 10_000: 8.0, 100_000: 12.0}  # of the time of gradient boosting


def made_rows(n, seed):
    """Friedman's function of five features and fifteen that say nothing, with 10,000 rows to test on."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n + 10_000, 20))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    y += rng.normal(size=len(y))
    return X[:n], y[:n], X[n:], y[n:]


def real_rows(name, seed):
    """Standardised rows, a fifth of them to test on."""
    data = datasets.load(name)
    order = np.random.default_rng(seed).permutation(len(data.y))
    X, y = np.asarray(data.X, dtype=np.float64)[order], np.asarray(data.y, dtype=np.float64)[order]
    test, train = slice(0, len(X) // 5), slice(len(X) // 5, len(X) // 5 + MOST_ROWS)
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X[train], y[train], X[test], y[test]


def timed(function):
    """What it returns, and processor seconds."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = function()
    return found, time.process_time() - start


def search_share(X, y, seed):
    """A default fit, its processor seconds, and the share that is not its last pass and solution."""
    passes, accumulate = [], KernelRidge._accumulate

    def watched(self, *arguments):
        _, seconds = timed(lambda: accumulate(self, *arguments))
        passes.append(seconds)

    KernelRidge._accumulate = watched
    try:
        model, seconds = timed(lambda: KernelRidge(n_jobs=1, random_state=seed).fit(X, y))
    finally:
        KernelRidge._accumulate = accumulate
    return model, seconds, 1.0 - passes[-1] / seconds


def ridge(names, rows, seeds):
    """KernelRidge() beside HistGradientBoostingRegressor() and a linear model; then `recommend` beside fit."""
    print("KernelRidge() and HistGradientBoostingRegressor(), one thread; errors over the variance of the targets\n")
    print("data               rows  seconds  boosting    ×   search  components    error  boosting   linear")
    cases = [(f"made {n}", lambda seed, n=n: made_rows(n, seed), LIMITS.get(n)) for n in rows]
    cases += [(name, lambda seed, name=name: real_rows(name, seed), None) for name in names]
    fitted = []
    for name, rows_of, limit in cases:
        for seed in range(seeds):
            X, y, X_new, y_new = rows_of(seed)
            model, seconds, share = search_share(X, y, seed)
            boosted, others = timed(lambda X=X, y=y: HistGradientBoostingRegressor(random_state=0).fit(X, y))
            linear = RidgeCV(np.geomspace(1e-3, 1e3, 7)).fit(X, y)
            errors = [np.mean((m.predict(X_new) - y_new) ** 2) / y_new.var() for m in (model, boosted, linear)]
            verdict = "" if limit is None else f"  limit {limit:g}: {'holds' if seconds <= limit * others else 'no'}"
            print(
                f"{name:16s} {len(X):6d} {seconds:8.2f} {others:9.2f} {seconds / others:4.0f} {100 * share:6.0f} % "
                f"{model.n_components_:11d} {errors[0]:8.4f} {errors[1]:9.4f} {errors[2]:8.4f}{verdict}",
                flush=True,
            )
            fitted.append((name, X, y, model))
    print("\nrecommend beside fit\n\ndata              seconds  components    fit  ratio")
    for name, X, y, model in fitted:
        advice, seconds = timed(lambda X=X, y=y: bochner.recommend(X, y, random_state=0))
        ratio = advice.n_components / model.n_components_
        print(f"{name:16s} {seconds:8.2f} {advice.n_components:11d} {model.n_components_:6d} {ratio:6.2f}", flush=True)
    print()
    seconds = {}
    for module in ("sklearn.base", "bochner"):
        program = f"import time; s = time.process_time(); import {module}; print(time.process_time() - s)"
        found = [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(3)]
        seconds[module] = min(found)
    ratio = seconds["bochner"] / seconds["sklearn.base"]
    print(f"import bochner: {seconds['bochner']:.2f} s, {ratio:.2f} times as long as sklearn.base alone")


SECTIONS = {"ridge": ridge}


def main(arguments):
    options = dict(a.split("=") for a in arguments if "=" in a)
    plain = [a for a in arguments if "=" not in a]
    names = [a for a in plain if a not in SECTIONS] or [n for n in REGRESSION if n in datasets.available()]
    rows = [int(n) for n in options.get("rows", "1000,10000,100000").split(",") if n]
    with threadpool_limits(1):
        for name in [a for a in plain if a in SECTIONS] or list(SECTIONS):
            SECTIONS[name](names, rows, int(options.get("seeds", 1)))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1:])
