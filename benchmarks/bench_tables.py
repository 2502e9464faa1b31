"""Models of tables against gradient boosting: error, seconds, memory, coverage and calibration, and an ablation.

    export BOCHNER_DATA=folder
    python benchmarks/bench_tables.py --jobs 8 --out tables.jsonl                # 15 sets, 5 seeds, every peer
    python benchmarks/bench_tables.py --jobs 8 --out tables.jsonl --ablation --seeds 1 --rows 10000
    python benchmarks/bench_tables.py --out tables.jsonl --sizes 10000 100000 1000000 3000000
    python benchmarks/bench_tables.py --out tables.jsonl --cores 16 --methods "tables cuda" "lightgbm 1000"  # a GPU
    python benchmarks/bench_tables.py --page docs/tables.md tables.jsonl more.jsonl
    python benchmarks/bench_tables.py --rows 10000 --seeds 1 --sets california bike_hour --methods tables hgb

Rows are shuffled, 80 % to learn from and 20 % to test. lightgbm, catboost, xgboost and xrfm are run where they are
installed; scikit-learn's HistGradientBoosting always. Every fit is a process of its own on `--cores` cores (two), and
`--jobs` of them run at a time on different cores. A result is a line of JSON, appended to `--out`; fits that are in
there already are not run again, so that a run can be interrupted, continued and put together from several machines.
Rules were chosen on the sets of `CHOSEN`; the others are reported as they came out. Errors are root mean squares over
the deviation of the test targets, or shares of wrong labels.
"""

import argparse
import datetime
import importlib.util
import json
import os
import platform
import queue
import resource
import subprocess
import sys
import threading
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

CHOSEN = ("california", "bike_hour", "protein", "kin40k", "elevators", "letter", "ijcnn1")
UNTOUCHED = ("pol", "cpu", "wine", "parkinson", "kegg_undirected", "a9a", "flow_fsom", "usps")
LABELS = ("letter", "ijcnn1", "a9a", "flow_fsom", "usps")
NOT_USED = {"parkinson": (0, 4)}  # subject#, and motor_UPDRS, which nearly gives the target away
THREADS = len(os.sched_getaffinity(0))  # lightgbm and catboost look at their own options alone
SECONDS = ("fit wall", "fit cpu", "predict wall", "predict cpu")
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
    return kind(verbose=0, allow_writing_files=False, thread_count=THREADS)


def xgboost(classifies):
    import xgboost

    return (xgboost.XGBClassifier if classifies else xgboost.XGBRegressor)()


def xrfm(classifies, device="cpu"):
    import torch
    import xrfm

    torch.set_num_threads(THREADS)

    class Standardised:
        def fit(self, X, y):
            n = len(X) * 4 // 5  # it chooses on rows of its own
            self.mean, self.scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
            X = ((X - self.mean) / self.scale).astype(np.float32)
            y = y if classifies else y.astype(np.float32)[:, None]
            self.model = xrfm.xRFM(device=device, tuning_metric="accuracy" if classifies else "mse")
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
    "tables cuda": lambda c: tables(c, device="cuda"),
    "kernel ridge": kernel_model,
    "hgb": boosting,
    "hgb 1000": lambda c: boosting(c, max_iter=1000, max_leaf_nodes=127, early_stopping=False),
    "lightgbm 1000": lightgbm,
    "catboost": catboost,
    "xgboost": xgboost,
    "xrfm": xrfm,
}
DEVICES = {  # on a machine with a GPU, by name
    "tables cuda": lambda c: tables(c, device="cuda"),
    "xrfm cuda": lambda c: xrfm(c, device="cuda"),
}
BOOSTING = ("hgb", "hgb 1000", "lightgbm 1000", "catboost", "xgboost")
ABLATION = {
    "all parts": tables,
    "one member": lambda c: tables(c, n_members=1),
    "no directions": lambda c: tables(c, metric="diagonal"),
    "laplacian alone": lambda c: tables(c, n_members=1, kernel="laplacian"),
    "standard columns": lambda c: tables(c, scaling="standard"),
    "equal scales": lambda c: _without_metric(tables(c)),
    "leaves of 500": lambda c: tables(c, leaf_size=500),
    "leaves of 4000": lambda c: tables(c, leaf_size=4000),
    "no overlap": lambda c: _without_overlap(tables(c)),
    "no landmarks": lambda c: _without_landmarks(tables(c)),
}


def _without_metric(model):
    from bochner.tuning import metrics

    learn = metrics.learn_metric
    metrics.learn_metric = lambda *arguments, **options: learn(*arguments, **{**options, "per_column": False})
    return model


def _without_landmarks(model):
    from bochner.tables import plans as table_plans
    from bochner.tuning.policies import TablePolicy

    table_plans.POLICY = TablePolicy(landmarks_share=0.0)
    return model


def _without_overlap(model):
    from bochner.tables import members as table_members

    table_members.overlap = lambda n, leaf_size: 0.0
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
    make = {**METHODS, **DEVICES, **ABLATION}[method]
    model = make(classifies)
    if method in DEVICES:  # packages are imported before the clock starts, and a device opened
        import torch
        import triton  # noqa: F401

        torch.linalg.cholesky(torch.eye(2, device="cuda", dtype=torch.float64))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y)
    found = {"fit wall": time.perf_counter() - wall, "fit cpu": time.process_time() - cpu}
    wall, cpu = time.perf_counter(), time.process_time()
    predicted = np.asarray(model.predict(new)).reshape(len(new))
    found |= {"predict wall": time.perf_counter() - wall, "predict cpu": time.process_time() - cpu}
    found["MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0
    found["rows"], found["columns"] = X.shape
    notes = getattr(getattr(model, "report_", None), "notes", ())
    if any("longer than planned" in note for note in notes):  # a busy machine: neither error nor seconds count
        raise RuntimeError(f"the machine is too busy to measure on: {notes}")
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


def job(part, name, method, n_rows, seed):
    """What identifies a fit."""
    return {"part": part, "set": name, "method": method, "most rows": n_rows, "seed": seed}


def key_of(record):
    return tuple(record[name] for name in ("part", "set", "method", "most rows", "seed"))


def run(task, cores, limit):
    """A fit in a process of its own on some cores, as a record."""
    arguments = [
        sys.executable,
        __file__,
        "--one",
        *(str(task[name]) for name in ("set", "method", "most rows", "seed")),
    ]
    threads = {f"{name}_NUM_THREADS": str(len(cores)) for name in ("OMP", "OPENBLAS", "MKL")}
    about = {"date": datetime.date.today().isoformat(), "cores": len(cores), "machine": machine()}
    try:
        done = subprocess.run(
            ["taskset", "-c", ",".join(map(str, cores)), *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **threads},
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return {**task, **about, "failed": f"took more than {limit:.0f} s"}
    if done.returncode:
        return {**task, **about, "failed": (done.stderr.strip().splitlines() or ["killed"])[-1]}
    return {**task, **about, **json.loads(done.stdout.strip().splitlines()[-1])}


def run_all(tasks, options):
    """Run what is not in the file yet, `--jobs` at a time, each on cores of its own; append as results come."""
    known = {key_of(record) for record in read(options.out)} if options.out else set()
    waiting = queue.SimpleQueue()
    tasks = [task for task in tasks if key_of(task) not in known]
    for task in tasks:
        waiting.put(task)
    available = sorted(os.sched_getaffinity(0))
    if options.jobs * options.cores > len(available) and options.jobs > 1:
        raise SystemExit(
            f"{options.jobs} jobs of {options.cores} cores need more than the {len(available)} cores here."
        )
    lock, left = threading.Lock(), [len(tasks)]

    def work(number):
        cores = available[number * options.cores : (number + 1) * options.cores]
        while True:
            try:
                task = waiting.get_nowait()
            except queue.Empty:
                return
            record = run(task, cores, options.limit)
            if options.busy:
                record = {name: value for name, value in record.items() if name not in SECONDS}
            with lock:
                left[0] -= 1
                show(record, left[0])
                if options.out:
                    with Path(options.out).open("a") as file:
                        file.write(json.dumps(record) + "\n")

    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(options.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def show(record, left):
    where = f"{record['set']} {record['method']}, seed {record['seed']}"
    if "failed" in record:
        print(f"{where}: failed: {record['failed']} ({left} left)", flush=True)
        return
    more = "".join(f", {name} {record[name]:.3f}" for name in ("coverage", "calibration") if name in record)
    took = ""
    if SECONDS[0] in record:
        took = (
            f", fit {record['fit wall']:.1f} s ({record['fit cpu']:.1f} s of cores), "
            f"predict {record['predict wall']:.2f} s"
        )
    print(
        f"{where}: {record['rows']} × {record['columns']}, error {record['error']:.4f}{took}, {record['MB']:.0f} MB"
        f"{more} ({left} left)",
        flush=True,
    )


def machine():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def read(path):
    """Records of a file of results; none where there is no file."""
    path = Path(path)
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []


# -- the page --------------------------------------------------------------------------------------------------------


class Results:
    """Means over seeds, by set and method, of one part of the results."""

    def __init__(self, records, part):
        self.records = [record for record in records if record["part"] == part and "failed" not in record]
        self.failed = [record for record in records if record["part"] == part and "failed" in record]
        done = {record["set"] for record in self.records}
        self.sets = [name for name in (*CHOSEN, *UNTOUCHED) if name in done]
        used = {record["method"] for record in self.records}
        self.methods = [name for name in {**METHODS, **DEVICES, **ABLATION} if name in used]

    def values(self, name, method, key):
        return list(self.by_seed(name, method, key).values())

    def by_seed(self, name, method, key):
        """Values of a measure; seconds and memory are those of the last day on which they were measured."""
        found = [r for r in self.records if r["set"] == name and r["method"] == method and key in r]
        if key in (*SECONDS, "MB"):
            found = [r for r in found if r["date"] == max(record["date"] for record in found)]
        return {r["seed"]: r[key] for r in found}

    def mean(self, name, method, key):
        found = self.values(name, method, key)
        return float(np.mean(found)) if found else None

    def table(self, heads, rows, lowest=False):
        """Markdown; of each row the lowest number bold, if asked."""
        lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        for label, values, digits in rows:
            known = [v for v in values if v is not None]
            cells = ["" if v is None else f"{v:.{digits}f}" for v in values]
            if lowest and known:
                best = f"{min(known):.{digits}f}"
                cells = [f"**{cell}**" if cell == best else cell for cell in cells]
            lines.append("| " + " | ".join([label, *cells]) + " |")
        return "\n".join(lines)


def page(records):
    """The tables of the documentation."""
    main, device, ablation, sizes = (Results(records, part) for part in ("main", "device", "ablation", "sizes"))
    parts = []
    for most in sorted({record["most rows"] for record in main.records}, reverse=True):
        limited = Results([record for record in records if record["most rows"] == most], "main")
        parts += [_limit(most), _about(limited), *_main(limited)]
    return "\n\n".join([*_head(main), *parts, *_device(device), *_ablation(ablation), *_sizes(sizes)]) + "\n"


def _limit(most):
    return f"## At most {most:,} rows, before the split" if most < 10**9 else "## All rows"


def _about(main):
    machines = " and ".join(sorted({f"{record['cores']} cores of {record['machine']}" for record in main.records}))
    return f"{machines}; splits: {_splits(main)}; means over them, and ratios on the splits that both have."


def _head(main):
    dates = sorted({record["date"] for record in main.records})
    used = [name for name in ("bochner", "scikit-learn", "lightgbm", "catboost", "xgboost", "xrfm") if _version(name)]
    yield "# Models of tables, measured"
    if dates:
        yield (
            f"`benchmarks/bench_tables.py`, {' to '.join(dict.fromkeys((dates[0], dates[-1])))}; splits into 80 % to "
            "learn from and 20 % to test; "
            + ", ".join(f"{name} {_version(name)}" for name in used)
            + ". Every peer has its defaults, or 1,000 trees of 127 leaves where it says 1000. Our rules were chosen "
            "on the upper sets; the lower ones (with an asterisk) are reported as they came out."
        )
    for record in main.failed:
        yield f"{record['method']} on {record['set']}, seed {record['seed']}, failed: {record['failed']}"


def _splits(main):
    """How many splits each method was run on: the fewest and the most of all sets."""
    found = []
    for method in main.methods:
        numbers = [len(main.by_seed(s, method, "error")) for s in main.sets]
        low, high = min(n for n in numbers if n), max(numbers)
        found.append(f"{method} {low}" + (f" to {high}" if high > low else ""))
    return ", ".join(found)


def _days(main):
    """When seconds and memory of each method were last measured."""
    days = {}
    for record in main.records:
        if SECONDS[0] in record:
            days[record["method"]] = max(days.get(record["method"], ""), record["date"])
    found = ", ".join(f"{method} {day}" for method, day in days.items())
    return f"Seconds and megabytes are those of the last day, compare methods of one day: {found}."


def _version(name):
    try:
        return version(name)
    except ImportError:
        return None


def _name(name, results):
    record = next(r for r in results.records if r["set"] == name)
    return f"{name}{'*' if name in UNTOUCHED else ''} ({record['rows']:,} × {record['columns']})"


def _main(main):
    if not main.records:
        return
    methods, heads = main.methods, ["set", *main.methods]
    yield "### Errors"
    yield "Root mean squares over the deviation of the test targets, or shares of wrong labels."
    rows = [(_name(s, main), [main.mean(s, m, "error") for m in methods], 4) for s in main.sets]
    yield main.table([*heads], rows, lowest=True)
    yield from _summary(main)
    for title, key, digits in (
        ("Seconds to fit", "fit wall", 1),
        ("Seconds to predict", "predict wall", 2),
        ("Megabytes that a fit and a prediction add", "MB", 0),
    ):
        yield f"### {title}"
        if key == "fit wall":
            yield _days(main)
        yield main.table(heads, [(s, [main.mean(s, m, key) for m in methods], digits) for s in main.sets])
    yield "### Coverage and calibration"
    yield (
        "Share of test targets in 90 % intervals; mean distance of confidence and accuracy over ten bins, and log loss "
        "beside those of peers that have probabilities."
    )
    intervals = [
        (s, [main.mean(s, "tables", "coverage")], 3) for s in main.sets if main.values(s, "tables", "coverage")
    ]
    if intervals:
        yield main.table(["set", "coverage of 90 %"], intervals)
    for key in ("calibration", "log loss"):
        having = [m for m in methods if any(main.values(s, m, key) for s in main.sets)]
        rows = [(s, [main.mean(s, m, key) for m in having], 4) for s in main.sets if s in LABELS]
        if having and rows:
            yield main.table([f"set: {key}", *having], rows, lowest=True)


def _summary(main):
    """How often tables win, and by how much."""
    if "tables" not in main.methods:
        return
    yield "### In short"
    lines = ["| | all sets | upper sets | lower sets* |", "|---|---|---|---|"]
    groups = [main.sets, [s for s in main.sets if s in CHOSEN], [s for s in main.sets if s in UNTOUCHED]]

    def ratio(name, peer, key):
        """Of tables over a peer, on the splits that both were run on; None where there are none."""
        ours, theirs = (main.by_seed(name, method, key) for method in ("tables", peer))
        both = ours.keys() & theirs.keys()
        return sum(ours[seed] for seed in both) / sum(theirs[seed] for seed in both) if both else None

    def ratios(sets, peers, key="error"):
        """Over the best of the peers, for each set."""
        found = [[r for r in (ratio(s, peer, key) for peer in peers) if r is not None] for s in sets]
        return np.array([max(of) for of in found if of], dtype=float)

    peers = [m for m in main.methods if m != "tables" and m not in DEVICES]
    boosting = [m for m in peers if m in BOOSTING]
    for label, against in [(f"against {m}", [m]) for m in peers] + [
        ("against the best boosting of each set", boosting)
    ]:
        cells = []
        for sets in groups:
            r = ratios(sets, against)
            cells.append(
                f"better on {np.count_nonzero(r < 1.0)} of {len(r)}; error ratio {np.median(r):.3f} in the median, "
                f"{r.max():.3f} at most"
                if len(r)
                else ""
            )
        lines.append(f"| {label} | {' | '.join(cells)} |")
    for peer in ("lightgbm 1000", "hgb", "catboost", "xrfm"):
        cells = []
        for sets in groups:
            r = ratios(sets, [peer], "fit wall")
            cells.append(f"{np.median(r):.1f} times in the median, {r.max():.1f} at most" if len(r) else "")
        if any(cells):
            lines.append(f"| seconds to fit over those of {peer} | {' | '.join(cells)} |")
    yield "\n".join(lines)


def _device(results):
    if not results.records:
        return
    n_cores = max(record["cores"] for record in results.records)
    yield "## On a GPU"
    yield (
        f"One NVIDIA H200, and {n_cores} cores of the same machine for the peers; all rows, splits: "
        f"{_splits(results)}. Every fit is the first of its process, after packages were imported and the device was "
        "opened: about half a second of it loads kernels. Seconds are medians over splits; the longest fit took "
        f"{max(record['fit wall'] for record in results.records):.1f} s, as the first on a machine compiles kernels."
    )
    heads = [f"{name}: {what}" for name in results.methods for what in ("error", "seconds to fit", "to predict")]
    lines = ["| set | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name in results.sets:
        cells = []
        for method in results.methods:
            seconds = (float(np.median(results.values(name, method, key))) for key in ("fit wall", "predict wall"))
            cells += [f"{results.mean(name, method, 'error'):.4f}", *(f"{value:.2f}" for value in seconds)]
        lines.append(f"| {_name(name, results)} | " + " | ".join(cells) + " |")
    yield "\n".join(lines)


def _ablation(results):
    if not results.records:
        return
    yield "## What each part gains"
    rows = max(record["rows"] for record in results.records)
    yield f"Errors with up to {rows:,} rows to learn from."
    table = [(_name(s, results), [results.mean(s, m, "error") for m in results.methods], 4) for s in results.sets]
    yield results.table(["set", *results.methods], table, lowest=True)


def _sizes(results):
    if not results.records:
        return
    yield "## Rows"
    yield (
        "A synthetic table of 10 columns and noise of deviation 0.3: time and memory by the number of rows. A model of "
        "leaves is made of its rows, so that memory grows with them: the table as numbers, as scaled numbers, and for "
        "each row some six indices and coefficients, as neighbouring leaves share rows."
    )
    lines = [
        "| rows | method | cores | seconds to fit | seconds to predict 2,000 | MB | error |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in sorted(results.records, key=lambda r: (r["method"], r["rows"])):
        lines.append(
            f"| {r['rows']:,} | {r['method']} | {r['cores']} | {r['fit wall']:.1f} | {r['predict wall']:.2f} | "
            f"{r['MB']:.0f} | {r['error']:.4f} |"
        )
    yield "\n".join(lines)


def installed():
    """Methods whose packages are here; those on a device are run only where they are asked for."""
    optional = ("lightgbm", "catboost", "xgboost", "xrfm")
    here = [name for name in METHODS if name.split()[0] not in optional or importlib.util.find_spec(name.split()[0])]
    return [name for name in here if not name.endswith("cuda")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--sets", nargs="+", default=[*CHOSEN, *UNTOUCHED])
    parser.add_argument(
        "--methods", nargs="+", default=None, help=f"of {', '.join({**METHODS, **DEVICES, **ABLATION})}"
    )
    parser.add_argument("--rows", type=int, default=10**9, help="rows of a set that are used, at most")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of synthetic rows")
    parser.add_argument("--out", help="file of JSON lines to append to, and to continue")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--cores", type=int, default=2, help="of a fit")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which a fit is given up")
    parser.add_argument("--busy", action="store_true", help="others use the machine: seconds are not kept")
    parser.add_argument("--page", nargs="+", metavar=("PAGE", "RESULTS"), help="write the page of these results")
    options = parser.parse_args()
    if options.one:
        name, method, n_rows, seed = options.one
        print(json.dumps(one(name, method, int(n_rows), int(seed))))
        return
    if options.page:
        records = {key_of(record): record for path in options.page[1:] for record in read(path)}
        Path(options.page[0]).write_text(page(list(records.values())))
        return
    if options.sizes:
        part, methods, sets, rows = "sizes", options.methods or ["tables"], ["synthetic"], options.sizes
    else:
        methods = options.methods or (list(ABLATION) if options.ablation else installed())
        part = "ablation" if options.ablation else "device" if DEVICES.keys() & set(methods) else "main"
        sets, rows = options.sets, [options.rows]
    seeds = [0] if options.sizes else range(options.seeds)
    run_all([job(part, s, m, n, seed) for seed in seeds for n in rows for s in sets for m in methods], options)


if __name__ == "__main__":
    main()
