"""Models of tables against gradient boosting: error, seconds, memory, coverage and calibration, and an ablation.

    BOCHNER_DATA=folder python benchmarks/bench_tables.py                      # everything
    BOCHNER_DATA=folder python benchmarks/bench_tables.py --rows 10000 --seeds 1 --sets california bike_hour
    BOCHNER_DATA=folder python benchmarks/bench_tables.py --ablation           # what each part gains
    python benchmarks/bench_tables.py --sizes 10000 100000 1000000             # time and memory by rows, synthetic

Rows are shuffled, 80 % to learn from and 20 % to test. lightgbm, catboost, xgboost and xrfm are run where they are
installed; scikit-learn's HistGradientBoosting always. Every fit is a process of its own, one at a time. Rules were
chosen on the sets of `CHOSEN`; the others are reported as they came out. Errors are root mean squares over the
deviation of the test targets, or shares of wrong labels.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

CHOSEN = ("california", "bike_hour", "protein", "kin40k", "elevators", "letter", "ijcnn1")
UNTOUCHED = ("pol", "cpu", "wine", "parkinson", "kegg_undirected", "a9a", "flow_fsom", "usps")
LABELS = ("letter", "ijcnn1", "a9a", "flow_fsom", "usps")
NOT_USED = {"parkinson": (0, 4)}  # subject#, and motor_UPDRS, which nearly gives the target away
THREADS = int(os.environ.get("OMP_NUM_THREADS", "0")) or None  # lightgbm and catboost look at their own options alone
LARGE = {"n_estimators": 1000, "num_leaves": 127, "verbose": -1, "n_jobs": THREADS}


def boosting(classifies, **options):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    return (HistGradientBoostingClassifier if classifies else HistGradientBoostingRegressor)(**options)


def lightgbm(classifies):
    import lightgbm

    return (lightgbm.LGBMClassifier if classifies else lightgbm.LGBMRegressor)(**LARGE)


def catboost(classifies):
    import catboost

    kind = catboost.CatBoostClassifier if classifies else catboost.CatBoostRegressor
    return kind(verbose=0, allow_writing_files=False, thread_count=THREADS or -1)


def xgboost(classifies):
    import xgboost

    return (xgboost.XGBClassifier if classifies else xgboost.XGBRegressor)()


def xrfm(classifies):
    import xrfm

    class Standardised:
        def fit(self, X, y):
            n = len(X) * 4 // 5  # it chooses on rows of its own
            self.mean, self.scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
            X = ((X - self.mean) / self.scale).astype(np.float32)
            y = y if classifies else y.astype(np.float32)[:, None]
            self.model = xrfm.xRFM(device="cpu", tuning_metric="accuracy" if classifies else "mse")
            self.model.fit(X[:n], y[:n], X[n:], y[n:])
            return self

        def predict(self, X):
            return np.asarray(self.model.predict(((X - self.mean) / self.scale).astype(np.float32))).reshape(len(X))

    return Standardised()


def tables(classifies, **options):
    from bochner import TabularClassifier, TabularRegressor

    return (TabularClassifier if classifies else TabularRegressor)(random_state=0, **options)


def kernel_model(classifies):
    from bochner import KernelClassifier, KernelRidge

    class Standardised:
        def fit(self, X, y):
            self.mean, self.scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
            kind = KernelClassifier if classifies else KernelRidge
            self.model = kind(random_state=0).fit((X - self.mean) / self.scale, y)
            return self

        def predict(self, X):
            return self.model.predict((X - self.mean) / self.scale)

    return Standardised()


METHODS = {
    "tables": tables,
    "kernel ridge": kernel_model,
    "hgb": boosting,
    "hgb 1000": lambda c: boosting(c, max_iter=1000, max_leaf_nodes=127, early_stopping=False),
    "lightgbm 1000": lightgbm,
    "catboost": catboost,
    "xgboost": xgboost,
    "xrfm": xrfm,
}
ABLATION = {
    "all": tables,
    "one member": lambda c: tables(c, n_members=1),
    "no directions": lambda c: tables(c, metric="columns"),
    "laplacian alone": lambda c: tables(c, n_members=1, kernel="laplacian"),
    "standard columns": lambda c: tables(c, scaling="standard"),
    "equal scales": lambda c: _without_metric(tables(c)),
    "leaves of 500": lambda c: tables(c, leaf_size=500),
    "leaves of 4000": lambda c: tables(c, leaf_size=4000),
    "no overlap": lambda c: _without_overlap(tables(c)),
}


def _without_metric(model):
    from functools import partial

    from bochner.estimators import table_members

    table_members.learn_metric = partial(table_members.learn_metric, per_column=False)
    return model


def _without_overlap(model):
    from bochner.estimators import table_members

    table_members.OVERLAP = 0.0
    return model


def rows_of(name, n_rows, seed):
    from bochner import datasets

    data = datasets.load(name)
    X, y = np.asarray(data.X, dtype=np.float64), data.y
    if name in NOT_USED:
        X = np.delete(X, NOT_USED[name], axis=1)
    if name == "flow_fsom":
        X = np.arcsinh(X / 150.0)
    order = np.random.default_rng(seed).permutation(len(X))[:n_rows]
    n = len(order) * 4 // 5
    return X[order[:n]], y[order[:n]], X[order[n:]], y[order[n:]]


def synthetic(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 2000, 10))
    y = np.sin(3.0 * X[:, 0]) * (X[:, 1] > 0) + np.abs(X[:, 2]) + 0.3 * rng.normal(size=len(X))
    return X[:n], y[:n], X[n:], y[n:]


def one(name, method, n_rows, seed):
    """A fit in this process, as a dict."""
    warnings.filterwarnings("ignore")
    X, y, new, truth = synthetic(n_rows, seed) if name == "synthetic" else rows_of(name, n_rows, seed)
    classifies = name in LABELS
    if classifies:
        y, truth = (
            np.unique(np.r_[y, truth], return_inverse=True)[1][: len(y)],
            np.unique(np.r_[y, truth], return_inverse=True)[1][len(y) :],
        )
    make = {**METHODS, **ABLATION}[method]
    model = make(classifies)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    found = {"fit wall": time.perf_counter() - wall, "fit cpu": time.process_time() - cpu}
    wall, cpu = time.perf_counter(), time.process_time()
    predicted = np.asarray(model.predict(new)).reshape(len(new))
    found |= {"predict wall": time.perf_counter() - wall, "predict cpu": time.process_time() - cpu}
    found["MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0
    found["rows"], found["columns"] = X.shape
    if classifies:
        found["error"] = float(np.mean(predicted != truth))
        if hasattr(model, "predict_proba"):
            p = np.asarray(model.predict_proba(new))
            found["log loss"] = float(-np.log(np.maximum(p[np.arange(len(p)), truth], 1e-12)).mean())
            found["calibration"] = calibration_error(p.max(axis=1), p.argmax(axis=1) == truth)
    else:
        found["error"] = float(np.sqrt(np.mean(np.square(predicted - truth))) / truth.std())
        if hasattr(model, "predict_interval"):
            low, high = model.predict_interval(new, 0.9).T
            found["coverage"] = float(np.mean((low <= truth) & (truth <= high)))
    return found


def calibration_error(confidence, right, n_bins=10):
    """Mean distance of confidence and accuracy, over bins of equal numbers of rows."""
    parts = np.array_split(np.argsort(confidence), n_bins)
    return float(np.mean([abs(confidence[part].mean() - right[part].mean()) for part in parts]))


def run(name, method, n_rows, seed):
    arguments = [sys.executable, __file__, "--one", name, method, str(n_rows), str(seed)]
    done = subprocess.run(arguments, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def installed():
    import importlib.util

    optional = ("lightgbm", "catboost", "xgboost", "xrfm")
    return [name for name in METHODS if name.split()[0] not in optional or importlib.util.find_spec(name.split()[0])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--sets", nargs="+", default=[*CHOSEN, *UNTOUCHED])
    parser.add_argument("--methods", nargs="+", default=None)
    parser.add_argument("--rows", type=int, default=10**9, help="rows of a set that are used, at most")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of synthetic rows")
    options = parser.parse_args()
    if options.one:
        name, method, n_rows, seed = options.one
        print(json.dumps(one(name, method, int(n_rows), int(seed))))
        return
    if options.sizes:
        for n in options.sizes:
            print(n, run("synthetic", "tables", n, 0), flush=True)
        return
    methods = options.methods or (list(ABLATION) if options.ablation else installed())
    print("| set | half | method | error | fit cpu s | predict cpu s | MB | coverage or calibration |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.sets:
        for method in methods:
            found = [run(name, method, options.rows, seed) for seed in range(options.seeds)]
            failed = [f["failed"] for f in found if "failed" in f]
            if failed:
                print(f"| {name} | | {method} | failed: {failed[0]} | | | | |", flush=True)
                continue
            mean = {key: np.mean([f[key] for f in found]) for key in found[0]}
            half = "chosen" if name in CHOSEN else "untouched"
            last = mean.get("coverage", mean.get("calibration", float("nan")))
            print(
                f"| {name} ({int(mean['rows'])} × {int(mean['columns'])}) | {half} | {method} | {mean['error']:.4f} | "
                f"{mean['fit cpu']:.1f} | {mean['predict cpu']:.2f} | {mean['MB']:.0f} | {last:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
