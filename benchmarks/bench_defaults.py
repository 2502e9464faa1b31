"""Seconds by default: our estimators as they come, beside those of others, in CPU seconds of one thread.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/bench_defaults.py [SECTION …] [--small]

Every section (classifier, ridge, recommend, transform, import) prints a table of ratios side by side. Datasets of
BOCHNER_DATA are used where they are there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import bench_recommend
import bench_transform
import numpy as np
from scipy.linalg.blas import dsyrk
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeCV
from threadpoolctl import threadpool_limits

from bochner import KernelClassifier, KernelRidge, datasets
from bochner.newton.losses import as_loss

Table = tuple[str, Any, Any, Any, Any]  # name, X, y, X of the test, y of the test


def cpu_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor that a call takes, and what it returns."""
    started = time.process_time()
    found = call()
    return time.process_time() - started, found


def split(name: str, X: Any, y: Any, n: int, seed: int = 0) -> Table:
    """At most n rows for fitting and 5,000 others, with columns of unit variance."""
    order = np.random.default_rng(seed).permutation(len(y))
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)[order]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = np.asarray(y)[order]
    n = min(n, len(y) * 3 // 4)
    return name, X[:n], y[:n], X[n : n + 5000], y[n : n + 5000]


def synthetic(n: int, n_features: int = 20, seed: int = 0) -> Table:
    """Two classes whose border is a sum of products."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 5000, n_features))
    level = np.sin(2.0 * X[:, 0]) * X[:, 1] + X @ rng.normal(size=n_features) / 4.0
    y = (level + 0.5 * rng.normal(size=len(X)) > 0).astype(int)
    return f"synthetic {n:,} × {n_features}", X[:n], y[:n], X[n:], y[n:]


def labelled_tables(small: bool) -> Iterator[Table]:
    """Tables with labels, of two classes and of many."""
    yield synthetic(1000)
    yield synthetic(10_000)
    sizes = {"ijcnn1": 40_000, "a9a": 20_000, "flow_fsom": 15_000, "usps": 7000, "letter": 15_000, "mnist": 10_000}
    for name, n in sizes.items():
        if name in datasets.available():
            data = datasets.load(name)
            yield split(name, data.X, data.y, n // 4 if small else n)


def objective(model: Any, X: Any, y: Any) -> float:
    """What a fitted classifier has minimised."""
    signs = 2.0 * (y[:, None] == model.classes_) - 1.0
    signs = signs[:, 1:] if len(model.classes_) == 2 else signs
    F = model.decision_function(X).reshape(len(X), -1)
    return float(as_loss(model.loss).value(F, signs).sum() + 0.5 * model.alpha_ * (model.component_weights_**2).sum())


def linear_seconds(model: Any, X: Any, y: Any, goal: float) -> float:
    """Seconds of LogisticRegression on as many random features, to a share `goal` above its least objective."""
    gamma = 0.5 / float(np.mean(model.features_.kernel_.length_scale)) ** 2
    options = {"C": 1.0 / model.alpha_, "max_iter": 10_000}
    spent, Z = cpu_seconds(
        lambda: RBFSampler(gamma=gamma, n_components=model.n_components_, random_state=0).fit_transform(X)
    )

    def loss_of(fitted: Any) -> float:
        rows = np.searchsorted(fitted.classes_, y)
        log_p = fitted.predict_log_proba(Z)[np.arange(len(y)), rows]
        return float(0.5 * (fitted.coef_**2).sum() / options["C"] - log_p.sum())

    least = loss_of(LogisticRegression(tol=1e-8, **options).fit(Z, y))
    seconds = np.nan
    for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):  # the loosest tolerance that comes as near
        seconds, fitted = cpu_seconds(lambda tol=tol: LogisticRegression(tol=tol, **options).fit(Z, y))
        if loss_of(fitted) <= (1.0 + goal) * least:
            break
    return spent + seconds


def classifier(small: bool) -> None:
    """KernelClassifier() beside loss="squared", gradient boosting, and logistic regression on random features.

    "logistic" goes on until its objective is within `solver_tol` of its least, "as near" until it is as near as ours;
    "at most" is what the ratio would be if our whole fit took no longer than making its features once.
    """
    print("CPU seconds of fit with everything on default; × is the time of KernelClassifier() over that of the other.")
    print(f"{'':26s}{'classes':>8s}{'seconds':>9s}{'components':>11s}{'passes':>7s}{'error':>8s}", end="")
    print(f"{'squared ×':>11s}{'boosting ×':>11s}{'logistic ÷':>11s}{'as near ÷':>11s}{'at most':>9s}", end="")
    print(f"{'objective above least':>23s}")
    for name, X, y, X_new, y_new in labelled_tables(small):
        model, seconds = least_seconds(lambda X=X, y=y: KernelClassifier(random_state=0).fit(X, y), 5.0)
        _, squared = least_seconds(lambda X=X, y=y: KernelClassifier(loss="squared", random_state=0).fit(X, y), 5.0)
        boosting = np.nan  # of many columns and classes minutes
        if len(model.classes_) * X.shape[1] < 500:
            _, boosting = least_seconds(lambda X=X, y=y: HistGradientBoostingClassifier(random_state=0).fit(X, y), 5.0)
        # the same features and penalty, solved to the end; and without the choice of either, to compare solvers alone
        fixed = {"kernel": model.features_.kernel_, "n_components": model.n_components_, "alpha": model.alpha_}
        exact = 1e-9 if len(model.classes_) == 2 else 1e-6
        tight = KernelClassifier(**fixed, solver_tol=exact, max_iter=2000, random_state=0).fit(X, y)
        loose, solve = least_seconds(lambda X=X, y=y, f=fixed: KernelClassifier(**f, random_state=0).fit(X, y))
        least = objective(tight, X, y)
        above = objective(loose, X, y) / least - 1.0
        logistic = as_near = np.nan  # of many classes LogisticRegression takes minutes for each tolerance
        if len(model.classes_) == 2:
            logistic = linear_seconds(model, X, y, model.solver_tol)
            as_near = linear_seconds(model, X, y, max(above, 1e-8))
        _, once = least_seconds(lambda X=X, m=loose: m.feature_map_(X))
        print(f"{name:26s}{len(model.classes_):8d}{seconds:9.2f}{model.n_components_:11d}", end="")
        print(f"{model.report_.iterations:7d}{1.0 - model.score(X_new, y_new):8.4f}{seconds / squared:11.2f}", end="")
        print(
            f"{seconds / boosting:11.2f}{logistic / solve:11.1f}{as_near / solve:11.1f}{logistic / once:9.1f}"
            f"{above:23.1e}",
            flush=True,
        )


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


def least_seconds(function, seconds_enough=1.0, most=3):
    """What it returns, and the least processor seconds of up to three calls; one call if it is slow."""
    found, least = timed(function)
    for _ in range(most - 1):
        if least > seconds_enough:
            break
        found, seconds = timed(function)
        least = min(least, seconds)
    return found, least


def final_seconds(model, X, y):
    """Processor seconds of a fit with the kernel, components and penalty that a search has found."""
    found = {"kernel": model.features_.kernel_, "n_components": model.n_components_, "alpha": model.alpha_}
    return least_seconds(lambda: KernelRidge(features="nystrom", n_jobs=1, random_state=0, **found).fit(X, y))[1]


def products_seconds(n_rows, n_components):
    """Processor seconds of Σ zzᵀ alone for these rows: half of the products of a matrix with itself, in float64."""
    rows = 4096
    Z = np.random.default_rng(0).normal(size=(rows, n_components))
    return least_seconds(lambda: dsyrk(1.0, Z, trans=1))[1] * n_rows / rows


def ridge(small: bool) -> None:
    """KernelRidge() beside HistGradientBoostingRegressor() and a linear model.

    "search/fit" is the time that the choice of kernel, components and penalty takes, over that of a fit with them;
    "products" the time of Σ zzᵀ alone over that of boosting, which is a limit for any fit with so many components.
    """
    names, rows, seeds = [n for n in REGRESSION if n in datasets.available()], [1000, 10_000, 100_000], 1
    if small:
        names, rows = names[:4], rows[:2]
    print("KernelRidge() and HistGradientBoostingRegressor(), one thread; errors over the variance of the targets\n")
    print("data               rows  seconds  boosting    ×   products  search/fit  components", end="")
    print("    error  boosting   linear")
    cases = [(f"made {n}", lambda seed, n=n: made_rows(n, seed), LIMITS.get(n)) for n in rows]
    cases += [(name, lambda seed, name=name: real_rows(name, seed), None) for name in names]
    for name, rows_of, limit in cases:
        for seed in range(seeds):
            X, y, X_new, y_new = rows_of(seed)
            model, seconds = least_seconds(lambda X=X, y=y, s=seed: KernelRidge(n_jobs=1, random_state=s).fit(X, y))
            boosted, others = least_seconds(lambda X=X, y=y: HistGradientBoostingRegressor(random_state=0).fit(X, y))
            final = final_seconds(model, X, y)
            linear = RidgeCV(np.geomspace(1e-3, 1e3, 7)).fit(X, y)
            errors = [np.mean((m.predict(X_new) - y_new) ** 2) / y_new.var() for m in (model, boosted, linear)]
            verdict = "" if limit is None else f"  limit {limit:g}: {'holds' if seconds <= limit * others else 'no'}"
            print(
                f"{name:16s} {len(X):6d} {seconds:8.2f} {others:9.2f} {seconds / others:4.1f} "
                f"{products_seconds(len(X), model.n_components_) / others:10.1f} {seconds / final - 1.0:11.2f} "
                f"{model.n_components_:11d} {errors[0]:8.4f} {errors[1]:9.4f} {errors[2]:8.4f}{verdict}",
                flush=True,
            )


_IMPORTS = """
import time
started = time.process_time()
import {needed}
between = time.process_time()
{ours}
print(between - started, time.process_time() - between)
"""


def importing(small: bool) -> None:
    """Imports of ours beside the modules of scikit-learn that they need, one after the other in a new interpreter."""
    with tempfile.TemporaryDirectory() as folder:  # bytecode is compiled once, whatever the environment says
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}

        def printed(program: str) -> list[str]:
            return subprocess.check_output([sys.executable, "-c", program], env=environment, text=True).split()

        for ours in ("import bochner", "from bochner import KernelRidge", "from bochner import TabularRegressor"):
            loaded = printed(f"import sys; {ours}; print(*[m for m in sys.modules if m.split('.')[0] == 'sklearn'])")
            program = _IMPORTS.format(needed=", ".join(loaded or ["sys"]), ours=ours)
            runs = [printed(program) for _ in range(4 if small else 10)]
            theirs, own = np.min(np.array(runs, dtype=float)[1:], axis=0)
            beside = f"after {theirs:5.2f} s of scikit-learn: {1.0 + own / theirs:5.2f} × of that" if loaded else ""
            print(f"{ours:38s} {own:5.2f} s {beside or 'and nothing of scikit-learn'}")


def recommending(small: bool) -> None:
    """`recommend` beside what `fit` chooses and takes."""
    if small:
        bench_recommend.main(tuple(bench_recommend.DATA)[:3], bench_recommend.QUICK_ROWS)
    else:
        bench_recommend.main()


def transforming(small: bool) -> None:
    """`transform` into a fresh array beside a given one; then beside a memory fill and torch."""
    with threadpool_limits(2):
        bench_transform.bench_fresh()
        if not small:
            bench_transform.bench_fill()
            bench_transform.bench_torch()


SECTIONS: dict[str, Callable[[bool], None]] = {
    "classifier": classifier,
    "ridge": ridge,
    "recommend": recommending,
    "transform": transforming,
    "import": importing,
}


def main(arguments: list[str]) -> None:
    """Run the sections that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all by default")
    parser.add_argument("--small", action="store_true", help="a fourth of the rows of the larger tables")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        for name in options.sections or SECTIONS:
            print(f"# {name}")
            SECTIONS[name](options.small)


if __name__ == "__main__":
    main(sys.argv[1:])
