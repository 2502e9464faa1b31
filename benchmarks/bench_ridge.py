"""Kernel ridge regression: rate of the fit against the rank-k update, against scikit-learn pipelines, and streams.

    python benchmarks/bench_ridge.py efficiency               # share of scipy's ssyrk rate; memory beyond the data
    python benchmarks/bench_ridge.py pipelines [NAMES]        # same columns as RBFSampler / Nystroem + Ridge
    python benchmarks/bench_ridge.py time_to_error [NAMES]    # fewer columns for RBFSampler + Ridge's error
    python benchmarks/bench_ridge.py rounding [NAMES]         # both precisions of float32 data against float64
    python benchmarks/bench_ridge.py auto [NAMES]             # against a 5 × 5 grid under 5-fold cross-validation
    python benchmarks/bench_ridge.py splits [NAMES]           # the choice of alpha on other data and other splits
    python benchmarks/bench_ridge.py parquet [ROWS]           # a folder of Parquet files, killed half way, resumed
    python benchmarks/bench_ridge.py whitening                # where to whiten Nyström columns

Data comes from the folder BOCHNER_DATA. Everything is a ratio measured side by side in one run; the last line of each
figure says whether it holds. With OMP_NUM_THREADS=1 the clock counts CPU seconds, which other programs on the same
machine disturb less.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from scipy.linalg.blas import dsyrk, ssyrk
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

from bochner import RBF, KernelClassifier, KernelRidge, LearnedFeatures, NystromFeatures
from bochner.draws.keys import Key
from bochner.tuning.scales import tune_length_scale

clock = time.process_time if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter
NAMES = ("california", "letter", "kin40k", "protein", "ijcnn1")


def verdict(what, measured, limit, holds):
    print(f"{what}: {measured}; limit {limit}: {'holds' if holds else 'DOES NOT HOLD'}", flush=True)


def best_of(function, repeats=3):
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


class PeakMemory:
    """Largest resident set seen, sampled, beyond that at the start."""

    def __enter__(self):
        self.first = self.peak = resident()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.done.wait(0.01):
            self.peak = max(self.peak, resident())

    def __exit__(self, *exception):
        self.done.set()
        self.thread.join()
        self.extra = self.peak - self.first


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def efficiency(n=200_000, d=90, m=2048):
    X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    y = np.sin(X[:, 0]) + X[:, 1]
    Z = np.random.default_rng(1).standard_normal((4096, m), dtype=np.float32)
    C = np.zeros((m, m), np.float32, order="F")
    model = KernelRidge(RBF(10.0), m, features="fourier", alpha=1.0, random_state=0)
    with PeakMemory() as memory:
        model.fit(X, y)
    fit, update = np.inf, np.inf
    for _ in range(3):  # alternately, so that both meet the same machine
        update = min(update, best_of(lambda: ssyrk(1.0, Z.T, beta=1.0, c=C, lower=1, overwrite_c=1)) / len(Z))
        fit = min(fit, best_of(lambda: model.fit(X, y), 1) / n)
    print(f"fit {n:,} × {d} float32, {m} Fourier columns: {fit * n:.2f} s")
    print(f"n·m² a second: {m * m / fit / 1e9:.1f}e9; ssyrk alone {m * m / update / 1e9:.1f}e9")
    verdict("efficiency, share of the ssyrk rate", f"{100 * update / fit:.0f} %", "75 %", update / fit >= 0.75)
    verdict("efficiency, memory beyond the data", f"{memory.extra / 1e6:.0f} MB", "400 MB", memory.extra <= 400_000_000)


def load(name, split=0):
    """Standardised training and test rows; `split` picks the random tenth that is tested where none is customary."""
    folder = os.environ.get("BOCHNER_DATA")
    if not folder:
        sys.exit("set BOCHNER_DATA to the folder of the datasets.")
    with np.load(Path(folder) / f"{name}.npz") as file:
        X, y = file["X"].astype(np.float32), file["y"]
        n_train = int(file["n_train"]) if "n_train" in file else None
        if name == "parkinson":  # a column that gives the target away
            X = X[:, file["columns"][: X.shape[1]] != "motor_UPDRS"]
    if name == "letter":
        y = np.eye(26)[np.unique(y, return_inverse=True)[1]]
    y = y.astype(np.float64)
    order = np.random.default_rng(split).permutation(len(X))
    train = np.arange(len(X)) < n_train if n_train else order < 0.9 * len(X)
    mean, spread = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - mean) / np.where(spread > 0, spread, 1.0)
    return X[train], y[train], X[~train], y[~train]


def error(name, prediction, y):
    """Share of wrong classes, or root mean squared error in standard deviations of the target."""
    if name == "letter":
        return float((prediction.argmax(axis=1) != y.argmax(axis=1)).mean())
    if name == "ijcnn1":
        return float(((prediction > np.mean([y.min(), y.max()])) != (y > y.mean())).mean())
    return float(np.sqrt(np.mean((prediction - y) ** 2)) / y.std())


def timed(model, X, y):
    start = clock()
    model.fit(X, y)
    return clock() - start


def scale_of(X):
    return np.sqrt(X.shape[1] / 2.0)


def peer(kind, scale, m, alpha, seed):
    features = kind(gamma=0.5 / scale**2, n_components=m, random_state=seed)
    return make_pipeline(features, Ridge(alpha, solver="cholesky"))


def ours(features, scale, m, alpha, seed, precision="full"):
    if features == "chosen":  # Fourier features whose frequencies the targets chose
        features = LearnedFeatures(RBF(scale), m, n_candidates=2, max_iter=0, random_state=seed)
    return KernelRidge(RBF(scale), m, features=features, alpha=alpha, precision=precision, random_state=seed)


def repeated(name, make, data, seeds):
    """Least seconds of a fit, and a test error for every seed."""
    X, y, X_test, y_test = data
    seconds, errors = np.inf, []
    for seed in range(seeds):
        model = make(seed)
        seconds = min(seconds, timed(model, X, y))
        errors.append(error(name, model.predict(X_test), y_test))
    return seconds, np.array(errors), model


def standard_error(values):
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def pipelines(names=NAMES, m=2048, alpha=0.1, seeds=5):
    for name in names:
        data = load(name)
        X, scale = data[0], scale_of(data[0])
        print(f"\n{name}: {X.shape[0]:,} × {X.shape[1]}, m = {m}, alpha = {alpha}, length_scale = {scale:.2f}")
        for kind, features, limit in ((RBFSampler, "fourier", 1.7), (Nystroem, "nystrom", 2.0)):
            theirs = repeated(name, lambda s, k=kind: peer(k, scale, m, alpha, s), data, seeds)  # noqa: B023
            mine = {
                p: repeated(name, lambda s, f=features, p=p: ours(f, scale, m, alpha, s, p), data, seeds)  # noqa: B023
                for p in ("full", "fast")
            }
            rows = {f"{kind.__name__} + Ridge": theirs, **{f"ours, {features}, {p}": mine[p] for p in mine}}
            for label, (seconds, errors, _) in rows.items():
                print(f"  {label:20s} {seconds:7.2f} s   test error {errors.mean():.4f} ± {standard_error(errors):.4f}")
            for precision, (seconds, errors, _) in mine.items():
                what, ratio = f"{name}, {features}, {precision}", theirs[0] / seconds
                verdict(f"{what}, fit faster than {kind.__name__}", f"{ratio:.2f} ×", f"{limit} ×", ratio >= limit)
                gap = errors.mean() - theirs[1].mean()
                noise = np.hypot(standard_error(errors), standard_error(theirs[1]))
                verdict(
                    f"{what}, test error less {kind.__name__}'s",
                    f"{gap:+.4f} ± {noise:.4f}",
                    "0 within two standard errors",
                    gap <= 2.0 * noise,
                )


SIZES = tuple(range(128, 2049, 64))


def time_to_error(names=NAMES, m=2048, alpha=0.1, seeds=3):
    """The fewest columns of each kind that reach the peer's error; whichever kind is there sooner counts."""
    for name in names:
        data = load(name)
        scale = scale_of(data[0])
        seconds, errors, _ = repeated(name, lambda s: peer(RBFSampler, scale, m, alpha, s), data, seeds)  # noqa: B023
        found = []
        for kind in ("nystrom", "fourier", "chosen"):
            low, high = 0, len(SIZES) - 1
            while low <= high:  # errors fall with the columns: bisection
                n = SIZES[(low + high) // 2]
                mine = repeated(name, lambda s, k=kind, n=n: ours(k, scale, n, alpha, s), data, seeds)  # noqa: B023
                print(f"  {name}: {n} columns, {kind}, error {mine[1].mean():.4f} in {mine[0]:.2f} s")
                if mine[1].mean() <= errors.mean():
                    found.append((mine[0], kind, n))
                    high = (low + high) // 2 - 1
                else:
                    low = (low + high) // 2 + 1
        what = f"{name}, time to RBFSampler + Ridge's error ({errors.mean():.4f} in {seconds:.2f} s)"
        if not found:
            verdict(what, "not reached", "3 ×", False)
            continue
        soonest, kind, n = min(found)
        measured = f"{seconds / soonest:.1f} × sooner with {n} columns, {kind}"
        verdict(what, measured, "3 ×", seconds >= 3.0 * soonest)


ROUNDED = (*NAMES, "kegg_undirected", "elevators", "pol", "bike_hour", "wine")


def rounding(names=ROUNDED, m=512, seed=0):
    """What float32 data do to predictions and test errors: both precisions against float64 data.

    Penalties from 1e-8 to 1e-2 of the rows, Fourier and Nyström features, with an intercept and without.
    """
    shares = (1e-8, 1e-6, 1e-4, 1e-2)
    worst = {"full": (0.0, 0.0), "fast": (0.0, 0.0)}
    for name in names:
        X, y, X_test, y_test = load(name)
        scale = scale_of(X)
        for features in ("fourier", "nystrom"):
            found = dict.fromkeys(worst, (0.0, 0.0))
            for share in shares:
                for fit_intercept in (True, False):
                    options = {"features": features, "fit_intercept": fit_intercept, "random_state": seed}
                    model = KernelRidge(RBF(scale), m, alpha=share * len(X), **options)
                    exact = model.fit(X.astype(float), y).predict(X_test.astype(float))
                    least = error(name, exact, y_test)
                    for precision in worst:
                        single = model.set_params(precision=precision).fit(X, y).predict(X_test).astype(float)
                        moved = float(np.sqrt(np.mean((single - exact) ** 2)) / exact.std())
                        change = abs(error(name, single, y_test) - least)
                        found[precision] = tuple(np.maximum(found[precision], (moved, change)))
                    model.set_params(precision="full")
            for precision, values in found.items():
                print(
                    f"{name}, {features}, {precision}: predictions move by {values[0]:.1e} of their spread at most, "
                    f"test errors by {values[1]:.1e}",
                    flush=True,
                )
                worst[precision] = tuple(np.maximum(worst[precision], values))
    for precision, values in worst.items():
        print(f"precision={precision!r}, largest change of a test error: {values[1]:.1e}")
    moved = worst["full"][0]
    verdict("precision='full', largest move of predictions", f"{moved:.1e} of their spread", "1e-4", moved <= 1e-4)


def automatic(names=NAMES[:1], m=2048):
    for name in names:
        X, y, X_test, y_test = load(name)
        labels = name in ("letter", "ijcnn1")  # the peer regresses signs of labels, and so does this classifier
        model = KernelClassifier(loss="squared", random_state=0) if labels else KernelRidge(random_state=0)
        targets = np.argmax(y, axis=1) if y.ndim > 1 else y
        start = clock()
        model.fit(X, targets)
        seconds = clock() - start
        found = error(name, model.decision_function(X_test) if y.ndim > 1 else model.predict(X_test), y_test)
        print(
            f"\n{name}: {model}: error {found:.4f} in {seconds:.1f} s, {model.n_components_} columns of "
            f"{type(model.features_).__name__}, alpha {model.alpha_:.2g}, {model.features_.kernel_}",
            flush=True,
        )
        start = clock()
        gammas = 0.5 / (X.shape[1] * np.geomspace(0.1, 10.0, 5))
        alphas = np.geomspace(1e-4, 10.0, 5)
        best = (np.inf, 0.0, 0.0)
        for gamma in gammas:
            for alpha in alphas:
                made = make_pipeline(
                    RBFSampler(gamma=gamma, n_components=m, random_state=0), Ridge(alpha, solver="cholesky")
                )
                folds = KFold(5, shuffle=True, random_state=0).split(X)
                values = [error(name, made.fit(X[a], y[a]).predict(X[b]), y[b]) for a, b in folds]
                best = min(best, (float(np.mean(values)), gamma, alpha))
        final = make_pipeline(
            RBFSampler(gamma=best[1], n_components=m, random_state=0), Ridge(best[2], solver="cholesky")
        )
        theirs = error(name, final.fit(X, y).predict(X_test), y_test)
        spent = clock() - start
        scale = np.sqrt(0.5 / best[1])
        print(f"{name}: 5 × 5 grid, 5 folds: error {theirs:.4f} in {spent:.0f} s, {scale=:.2f}, alpha {best[2]:.2g}")
        verdict(f"{name}, auto: test error", f"{found:.4f}", f"{theirs:.4f}, the grid's", found <= theirs)
        verdict(f"{name}, auto: time", f"{spent / seconds:.0f} × less than the grid", "10 ×", spent >= 10.0 * seconds)


def scale_by_gcv(X, y, start, m, seed):
    """The length scale of least GCV, of powers of √2 around another one; tuning takes evidence."""

    def least(scale):
        return KernelRidge(RBF(scale), m, alpha="gcv", random_state=seed).fit(X, y).alpha_path_["criterion"].min()

    return min((start * 2.0 ** (step / 2.0) for step in range(-6, 7)), key=least)


def splits(names=("elevators", "cpu", "pol", "wine", "bike_hour", "california", "protein"), m=512, repeats=3):
    """What the three criteria choose: test errors on several random splits, scales tuned by evidence or GCV."""
    for name in names:
        rows = {}
        for split in range(repeats):
            X, y, X_test, y_test = load(name, split)
            for tuned in ("evidence", "gcv"):
                scale = tune_length_scale(RBF(), X[:5000], y[:5000, None], key=Key(split), n_components=m).length_scale
                if tuned == "gcv":
                    scale = scale_by_gcv(X[:5000], y[:5000], scale, m, split)
                for criterion in ("loo", "gcv", "evidence"):
                    model = KernelRidge(RBF(scale), m, alpha=criterion, random_state=split).fit(X, y)
                    found = error(name, model.predict(X_test), y_test)
                    rows.setdefault((tuned, criterion), []).append((found, scale, model.alpha_))
        print(f"{name}: scale by, alpha by: test errors; scales; alphas")
        for (tuned, criterion), values in rows.items():
            errors, scales, alphas = (" ".join(f"{v:.4g}" for v in column) for column in zip(*values, strict=True))
            print(f"  {tuned:9s} {criterion:9s} {np.mean([v[0] for v in values]):.4f}   {errors};  {scales};  {alphas}")


STREAM = """
import resource, sys, time
from bochner import RBF, KernelRidge
start = time.perf_counter()
model = KernelRidge(RBF(4.0), 1024, features="fourier", alpha=1.0, random_state=0, checkpoint=sys.argv[2], verbose=1)
model.fit(sys.argv[1], "y")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(f"{model.component_weights_.tobytes().hex()} {peak} {time.perf_counter() - start:.1f}")
"""


def parquet(rows=1_000_000, d=20, files=500_000):
    """A folder of files, learned from without a break and with one: SIGKILL half way, then again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        data, path = Path(folder) / "data", Path(folder) / "checkpoint"
        data.mkdir()
        for i, first in enumerate(range(0, rows, files)):
            n = min(files, rows - first)
            X = np.random.default_rng(i).standard_normal((n, d), dtype=np.float32)
            columns = {f"x{j}": X[:, j] for j in range(d)} | {"y": np.sin(X[:, 0]) + X[:, 1] * X[:, 2]}
            pq.write_table(
                pa.table(columns),
                data / f"{i:04d}.parquet",
                row_group_size=100_000,
                compression="none",
                use_dictionary=False,
            )
        size = sum(file.stat().st_size for file in data.iterdir())
        command = [sys.executable, "-c", STREAM, str(data), str(path)]
        whole, peak, seconds = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        print(f"{rows:,} rows × {d} from {size / 1e9:.2f} GB of Parquet, 1024 columns: {seconds} s")
        # a checkpoint every second instead of every half minute, so that short runs have one to continue
        quick = "import bochner.data.checkpoints as c; c.Checkpoint.__init__.__defaults__ = (None, 1.0)\n"
        command[2] = quick + STREAM
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.6 * float(seconds))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        killed = path.exists()
        print(f"killed after {0.6 * float(seconds):.1f} s; a checkpoint was there: {killed}")
        again, second, rest = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        print(f"resumed and finished in {rest} s")
        peak = max(int(peak), int(second))
        verdict(f"{rows:,} rows from Parquet: peak memory", f"{peak / 1e9:.2f} GB", "1.5 GB", peak <= 1.5e9)
        same = killed and again == whole
        verdict(f"{rows:,} rows from Parquet, killed and resumed: coefficients", f"same bits {same}", "same bits", same)


def whitening(n=20_000, d=8, m=1024):
    """Rows whitened in float32 (triangular product) or the sums whitened once (float64 products)."""
    X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    for scale in (2.0, 4.0, 8.0):
        features = NystromFeatures(RBF(scale), m, landmarks="uniform", random_state=0).fit(X)
        nystrom = features.feature_map_
        Z, C = np.empty((4096, m), np.float32), np.ascontiguousarray(nystrom.columns(X[:4096]))
        G = np.zeros((m, m), np.float32, order="F")
        H = np.zeros((nystrom.rank, nystrom.rank), order="F")
        columns = best_of(lambda f=nystrom: f.columns(X[:4096]))
        rows = best_of(lambda f=nystrom, Z=Z: f.into(X[:4096], Z)) - columns
        single = best_of(lambda Z=Z, G=G: ssyrk(1.0, Z.T, beta=1.0, c=G, lower=1, overwrite_c=1))
        double = best_of(lambda C=C, H=H: dsyrk(1.0, C.astype(float).T, beta=1.0, c=H, lower=1, overwrite_c=1))
        exact = nystrom.columns(X.astype(float)) @ nystrom.root.astype(float)
        truth = exact.T @ exact
        K = nystrom.columns(X).astype(float)
        once = nystrom.root.T.astype(float) @ (K.T @ K) @ nystrom.root.astype(float)
        by_rows = nystrom(X)[:, : nystrom.rank].astype(float)
        size = np.linalg.norm(truth, 2)
        print(
            f"length_scale {scale}: rank {nystrom.rank}; rows {rows + single:.3f} s, error "
            f"{np.linalg.norm(by_rows.T @ by_rows - truth, 2) / size:.1e}; once {double:.3f} s, error "
            f"{np.linalg.norm(once - truth, 2) / size:.1e}"
        )


PARTS = {
    "efficiency": efficiency,
    "pipelines": pipelines,
    "time_to_error": time_to_error,
    "rounding": rounding,
    "auto": automatic,
    "splits": splits,
    "parquet": parquet,
    "whitening": whitening,
}


def main():
    part, *rest = sys.argv[1:] or ["efficiency"]
    if part not in PARTS:
        sys.exit(f"there is no part {part!r}; choose from {', '.join(PARTS)}.")
    if part == "parquet":
        parquet(*(int(rows) for rows in rest))
    elif part in ("efficiency", "whitening"):
        PARTS[part]()
    else:
        PARTS[part](*([rest] if rest else []))


if __name__ == "__main__":
    main()
