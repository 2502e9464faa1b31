"""Which landmarks? Error against columns for every law on real data; speed and memory against scikit-learn.

``python benchmarks/bench_landmarks.py errors`` prints, for usps, letter, kin40k and protein (4,000 random rows,
standardised; ``raw`` as a second argument leaves them as they are; RBF, median length scale), the relative Frobenius
error of every law over uniform's (which is scikit-learn's Nystroem), means over seeds with the seconds of
`fit_transform` beside it. It needs BOCHNER_DATA. ``quick`` as an argument does 200 columns only.

``python benchmarks/bench_landmarks.py speed`` times `fit_transform` of 30,000 × 16 float32 rows with 1,000 landmarks
against scikit-learn side by side, and measures the peak memory of each in a process of its own.

``python benchmarks/bench_landmarks.py rows`` shows what the number of rows that "refined" looks at buys.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.kernel_approximation import Nystroem

from bochner import RBF, NystromFeatures, as_kernel
from bochner.landmarks import LANDMARK_LAWS, KMeans

DATASETS = ("usps", "letter", "kin40k", "protein")
COLUMNS = (50, 100, 200, 400)


def load(name, n_rows, standardise, seed=0):
    with np.load(Path(os.environ["BOCHNER_DATA"]) / f"{name}.npz") as file:
        X = file["X"].astype(float)
    X = X[np.random.default_rng(seed).permutation(len(X))[:n_rows]]
    if standardise:
        scale = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return X


def errors(standardise, columns, n_seeds=3):
    beats, default, pivots = {}, {}, {}
    for name in DATASETS:
        X = load(name, 4000, standardise)
        kernel = as_kernel("rbf").resolve(X, 0)
        K = kernel(X)
        size = np.linalg.norm(K)
        print(f"\n{name}: relative Frobenius error over uniform's (uniform's own in the first line), seconds at 200")
        print(f"{'':20s}" + "".join(f"{m:>18d}" for m in columns) + f"{'trace at 200':>18s}{'seconds':>9s}")
        base = {}
        for law in LANDMARK_LAWS:
            line = f"{law:20s}"
            for m in columns:
                found, traces, seconds = [], [], []
                for seed in range(n_seeds):
                    features = NystromFeatures(kernel, m, landmarks=law, random_state=seed)
                    start = time.perf_counter()
                    Z = features.fit_transform(X)
                    seconds.append(time.perf_counter() - start)
                    found.append(np.linalg.norm(K - Z @ Z.T) / size)
                    traces.append(features.trace_error_)
                mean, error = np.mean(found), np.std(found, ddof=1) / np.sqrt(n_seeds)
                base.setdefault(m, (mean, np.mean(traces)))
                if law == "uniform":
                    line += f"{mean:10.2e} ±{error / mean:4.0%} "
                else:
                    line += f"{mean / base[m][0]:11.3f} ±{error / mean:4.0%}"
                if m == 200:
                    trace, least, ratio = np.mean(traces) / base[m][1], min(seconds), mean / base[m][0]
            print(f"{line}{trace:18.3f}{least:9.2f}", flush=True)
            if law == "kmeans":
                beats[name] = ratio
            elif law == "refined":
                default[name] = ratio
            elif law == "rpcholesky":
                pivots[name] = ratio
    print("\nat 200 columns, over uniform:")
    for title, ratios, limit in (
        ("the default (refined)", default, 0.6),
        ("rpcholesky", pivots, 0.85),
        ("k-means beats random?", beats, 1.0),
    ):
        row = "  ".join(f"{name} {ratio:.3f} {'yes' if ratio <= limit else 'no '}" for name, ratio in ratios.items())
        print(f"{title:24s} <= {limit:.2f}:  {row}")


def contestants():
    return {
        "scikit-learn": Nystroem(gamma=1.0 / 32.0, n_components=1000, random_state=0),
        **{
            law: NystromFeatures(RBF(4.0), 1000, landmarks=law, random_state=0)
            for law in ("uniform", "rpcholesky", "refined")
        },
    }


def rows():
    return np.random.default_rng(0).normal(size=(30_000, 16)).astype(np.float32)


def speed(repetitions=3):
    X = rows()
    least = {}
    for _ in range(repetitions):
        for name, model in contestants().items():
            start = time.perf_counter()
            model.fit_transform(X)
            least[name] = min(least.get(name, np.inf), time.perf_counter() - start)
    print(f"fit_transform, {X.shape[0]} × {X.shape[1]} float32, 1000 landmarks; output {X.shape[0] * 4e3 / 1e6:.0f} MB")
    print(
        f"{'':14s}{'seconds':>9s}{'over uniform':>14s}{'scikit-learn over it':>22s}{'peak MB':>9s}"
        f"{'beyond output':>15s}"
    )
    for name, seconds in least.items():
        code = [sys.executable, __file__, "memory", name]
        peak = float(subprocess.run(code, capture_output=True, text=True, check=True).stdout)
        beyond = peak - X.shape[0] * 4e3 / 1e6
        print(
            f"{name:14s}{seconds:9.2f}{seconds / least['uniform']:14.2f}{least['scikit-learn'] / seconds:22.2f}"
            f"{peak:9.0f}{beyond:15.0f}",
            flush=True,
        )
    print("limits: uniform >= 2 × faster than scikit-learn and <= 200 MB beyond its output; rpcholesky <= 6 × uniform")


def memory(name):
    """Peak resident megabytes of one fit_transform, beyond what the process held before it."""
    X, model = rows(), contestants()[name]
    model.set_params(n_components=8).fit_transform(X[:64])  # every library is loaded
    before = resident("VmRSS")
    model.set_params(n_components=1000).fit_transform(X)
    print(resident("VmHWM") - before)


def resident(what):
    """Megabytes from the kernel's account of this process; ru_maxrss would begin with the parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(what)) * 1024 / 1e6


def sample_sizes(n_columns=200):
    for name in DATASETS:
        X = load(name, 10**6, True).astype(np.float32)
        kernel = as_kernel("rbf").resolve(X, 0)
        laws = {"uniform": "uniform", "rpcholesky": "rpcholesky"}
        laws |= {f"refined, {n} rows": KMeans("rpcholesky", 2, n) for n in (4000, 10_000, 20_000)}
        for title, law in laws.items():
            seconds, traces = [], []
            for seed in range(3):
                features = NystromFeatures(kernel, n_columns, landmarks=law, random_state=seed)
                start = time.perf_counter()
                features.fit_transform(X)
                seconds.append(time.perf_counter() - start)
                traces.append(features.trace_error_)
            print(
                f"{name:8s} {len(X):6d} rows  {title:20s} trace error {np.mean(traces):.2e}  {min(seconds):6.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    what = sys.argv[1:] or ["errors", "speed", "rows"]
    if what[0] == "memory":
        memory(what[1])
    if "errors" in what:
        errors("raw" not in what, (200,) if "quick" in what else COLUMNS)
    if "speed" in what:
        speed()
    if "rows" in what:
        sample_sizes()
