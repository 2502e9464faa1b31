"""Kernel ridge regression: rate of the fit against the rank-k update, against scikit-learn pipelines, and streams.

    python benchmarks/bench_ridge.py efficiency              # share of scipy's ssyrk rate; memory beyond the data
    python benchmarks/bench_ridge.py pipelines [NAMES]       # against RBFSampler / Nystroem + Ridge (BOCHNER_DATA)
    python benchmarks/bench_ridge.py auto [NAMES]            # against a 5 × 5 grid under 5-fold cross-validation
    python benchmarks/bench_ridge.py stream [--rows 10000000]  # Parquet, killed half way, resumed
    python benchmarks/bench_ridge.py whitening               # where to whiten Nyström columns

Without arguments: efficiency, pipelines, auto on the smallest set, a short stream and whitening. Everything is a ratio
measured side by side in one run. With OMP_NUM_THREADS=1 the clock counts CPU seconds, which other programs on the same
machine do not disturb.
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

from bochner import RBF, KernelRidge, NystromFeatures

clock = time.process_time if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter
NAMES = ("california", "letter", "kin40k", "protein", "ijcnn1")


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
    print(f"share of the ssyrk rate: {100 * update / fit:.0f} %   (limit: 75 %)")
    print(f"memory beyond the data: {memory.extra / 2**20:.0f} MiB   (limit: 400 MB)")


def load(name):
    folder = os.environ.get("BOCHNER_DATA")
    if not folder:
        sys.exit("set BOCHNER_DATA to the folder of the datasets.")
    with np.load(Path(folder) / f"{name}.npz") as file:
        X, y = file["X"].astype(np.float32), file["y"]
        n_train = int(file["n_train"]) if "n_train" in file else None
    if name == "letter":
        y = np.eye(26)[np.unique(y, return_inverse=True)[1]]
    y = y.astype(np.float64)
    order = np.random.default_rng(0).permutation(len(X))
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


def pipelines(names=NAMES, m=2048, alpha=0.1):
    for name in names:
        X, y, X_test, y_test = load(name)
        scale = np.sqrt(X.shape[1] / 2.0)
        gamma = 0.5 / scale**2
        models = {
            "RBFSampler + Ridge": lambda m=m, g=gamma: make_pipeline(
                RBFSampler(gamma=g, n_components=m, random_state=0), Ridge(alpha, solver="cholesky")
            ),
            "ours, fourier": lambda m=m, s=scale: KernelRidge(
                RBF(s), m, features="fourier", alpha=alpha, random_state=0
            ),
            "Nystroem + Ridge": lambda m=m, g=gamma: make_pipeline(
                Nystroem(gamma=g, n_components=m, random_state=0), Ridge(alpha, solver="cholesky")
            ),
            "ours, nystrom": lambda m=m, s=scale: KernelRidge(
                RBF(s), m, features="nystrom", alpha=alpha, random_state=0
            ),
        }
        seconds, errors = dict.fromkeys(models, np.inf), {}
        for _ in range(2):
            for label, make in models.items():
                model = make()
                seconds[label] = min(seconds[label], timed(model, X, y))
                errors[label] = error(name, model.predict(X_test), y_test)
        print(f"\n{name}: {X.shape[0]:,} × {X.shape[1]}, m = {m}, alpha = {alpha}, length_scale = {scale:.2f}")
        for label in models:
            print(f"  {label:20s} {seconds[label]:7.2f} s   test error {errors[label]:.4f}")
        fourier = seconds["RBFSampler + Ridge"] / seconds["ours, fourier"]
        nystrom = seconds["Nystroem + Ridge"] / seconds["ours, nystrom"]
        print(f"  fit faster by {fourier:.2f} (Fourier; limit 1.7) and {nystrom:.2f} (Nyström; limit 2)")
        for columns in (
            256,
            384,
            512,
            640,
            768,
            896,
            1024,
            1536,
            2048,
        ):  # the same error in less time, with fewer columns
            for feature in ("fourier", "nystrom"):
                model = KernelRidge(RBF(scale), columns, features=feature, alpha=alpha, random_state=0)
                spent = timed(model, X, y)
                reached = error(name, model.predict(X_test), y_test) <= errors["RBFSampler + Ridge"]
                if reached:
                    spent = min(spent, timed(model, X, y))
                    break
            if reached:
                ratio = seconds["RBFSampler + Ridge"] / spent
                print(f"  its error is reached with {columns} {feature} columns, {ratio:.1f} × sooner (limit 3)")
                break


def automatic(names=NAMES[:1], m=2048):
    for name in names:
        X, y, X_test, y_test = load(name)
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
        print(f"\n{name}: scikit-learn, 5 × 5 grid, 5 folds: error {theirs:.4f} in {spent:.0f} s", flush=True)
        for options in ({}, {"length_scales": "per_feature"}):
            model = KernelRidge(random_state=0, **options)
            ours = timed(model, X, y)
            found = error(name, model.predict(X_test), y_test)
            shown = ", ".join(f"{k}={v!r}" for k, v in options.items())
            print(
                f"  KernelRidge({shown}): error {found:.4f} in {ours:.1f} s "
                f"({spent / ours:.0f} × sooner; limit 10), {model.n_components_} columns, alpha {model.alpha_:.2g}",
                flush=True,
            )


STREAM = """
import resource, sys, time
from bochner import RBF, KernelRidge
start = time.perf_counter()
model = KernelRidge(RBF(4.0), 1024, features="fourier", alpha=1.0, random_state=0, checkpoint=sys.argv[2], verbose=1)
model.fit(sys.argv[1], "y")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"{model.coef_.tobytes().hex()} {peak:.2f} {time.perf_counter() - start:.1f}")
"""


def stream(rows=500_000, d=20):
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        data, path = Path(folder) / "data", Path(folder) / "checkpoint"
        data.mkdir()
        for i, first in enumerate(range(0, rows, 500_000)):
            n = min(500_000, rows - first)
            X = np.random.default_rng(i).standard_normal((n, d), dtype=np.float32)
            columns = {f"x{j}": X[:, j] for j in range(d)} | {"y": np.sin(X[:, 0]) + X[:, 1] * X[:, 2]}
            pq.write_table(pa.table(columns), data / f"{i:04d}.parquet", row_group_size=100_000)
        command = [sys.executable, "-c", STREAM, str(data), str(path)]
        whole, peak, seconds = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        print(f"{rows:,} rows × {d} from Parquet, 1024 columns: {seconds} s, peak memory {peak} GiB (limit 1.5 GB)")
        quick = "import bochner.streaming.checkpoints as c; c.Checkpoint.__init__.__defaults__ = (None, 1.0)\n"
        command[2] = quick + STREAM
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(0.55 * float(seconds))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        print(f"killed after {0.55 * float(seconds):.1f} s; checkpoint written: {path.exists()}")
        again, _, rest = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        print(f"resumed in {rest} s; the same coefficients to the last bit: {again == whole}")


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


def main():
    what, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if what in ("", "efficiency"):
        efficiency()
    if what in ("", "pipelines"):
        pipelines(rest or NAMES)
    if what in ("", "auto"):
        automatic(rest or NAMES[: None if what else 1])
    if what in ("", "stream"):
        stream(int(rest[rest.index("--rows") + 1]) if "--rows" in rest else 500_000)
    if what in ("", "whitening"):
        whitening()


if __name__ == "__main__":
    main()
