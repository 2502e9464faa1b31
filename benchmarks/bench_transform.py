"""FourierFeatures as a user calls it: single rows, batches against a memory fill, a given array and torch, rows="auto".

Prints ratios measured side by side in one run, each from the best of several repetitions. Usage:
``python benchmarks/bench_transform.py [row] [fill] [fresh] [torch] [auto]`` (no argument: all of them).
"""

import pickle
import sys
import time
from functools import partial

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from bochner import RBF, FourierFeatures
from bochner.backends import limit_threads
from bochner.backends.memory import empty_columns


def best(*functions, repetitions=9, seconds=0.05, clock=time.perf_counter):
    """Least seconds a call of each function, taking turns in every order so that noise falls on all alike."""
    counts, least = [], [np.inf] * len(functions)
    for function in functions:
        start = clock()
        function()
        counts.append(max(1, int(seconds / max(clock() - start, 1e-6))))
    for repetition in range(repetitions):
        for turn in range(len(functions)):  # nobody always comes after the same one, whose results fill the caches
            i = (repetition + (turn if repetition % 2 else -turn)) % len(functions)
            start = clock()
            for _ in range(counts[i]):
                functions[i]()
            least[i] = min(least[i], (clock() - start) / counts[i])
    return least


def rbf_sampler(d, T):
    """A float32 RBFSampler without the float64 draw of its matrix, which would not fit at the largest size."""
    sampler = RBFSampler(n_components=T, random_state=0).fit(np.zeros((1, d), np.float32)[:, :1])
    rng = np.random.default_rng(0)
    sampler.random_weights_ = rng.standard_normal((d, T), np.float32)
    sampler.random_offset_ = rng.uniform(0, 2 * np.pi, T).astype(np.float32)
    sampler.n_features_in_ = d
    return sampler


def bench_row():
    print("one float32 row, T frequencies: RBFSampler.transform / ours")
    for d, T, public, direct in ((1024, 16384, 24, 60), (4096, 32768, 90, 150), (8192, 65536, 200, 500)):
        x = np.random.default_rng(1).normal(size=(1, d)).astype(np.float32)
        ours = FourierFeatures(RBF(np.sqrt(d)), 2 * T, rows="structured", random_state=0).fit(x)
        calls = [partial(f, x) for f in (rbf_sampler(d, T).transform, ours.transform, ours.feature_map_)]
        peer, shell, core = best(*calls)
        smaller = d * T * 4 / len(pickle.dumps(ours.feature_map_))
        print(
            f"  d={d:5d} T={T:6d}: transform {peer / shell:6.0f}× (published {public}×)   "
            f"feature_map_ {peer / core:6.0f}× (aim {direct}×)   map {smaller:6.0f}× smaller (d/4 = {d // 4})"
        )


def bench_fill():
    n, columns = 4096, 16384
    out = empty_columns(n, columns, np.float32)
    out[:] = 0
    print(f"float32, {n} rows to {columns} columns in a given array: output rate / one thread's fill rate")
    for d in (128, 512, 1024):
        X = np.random.default_rng(1).normal(size=(n, d)).astype(np.float32)
        for law in ("structured", "fastfood"):
            W = FourierFeatures(RBF(1.0), columns, rows=law, random_state=0).fit(X[:1]).feature_map_.frequencies
            line = f"  d={d:5d} {law:10s}"
            for threads in (1, 2):
                with limit_threads(threads):
                    fill, ours = best(lambda: out.fill(1.0), lambda W=W, X=X: W.pairs_into(X, 1.0, 0.0, out))
                line += f"   {threads} thread(s): {fill / ours:5.0%} of {out.nbytes / fill / 1e9:.1f} GB/s"
            print(line)


def bench_fresh():
    n, d, columns = 4096, 128, 8192
    X = np.random.default_rng(1).normal(size=(n, d)).astype(np.float32)
    out = empty_columns(n, columns, np.float32)
    out[:] = 0
    laws = ("orthogonal", "structured", "fastfood")
    maps = {law: FourierFeatures(RBF(12.0), columns, rows=law, random_state=0) for law in laws}
    maps["RBFSampler"] = RBFSampler(gamma=0.5 / 12.0**2, n_components=columns, random_state=0)
    print(f"float32, {n} rows of {d} to {columns} columns ({out.nbytes >> 20} MiB): GB/s, processor seconds of a GB")
    print(f"{'':14s}threads     fill   given   fresh   fresh / given   processor: given   fresh")
    for name, made in maps.items():
        fitted = made.fit(X)
        for threads in (1, 2):
            with limit_threads(threads):
                calls = [lambda: out.fill(1.0), lambda fitted=fitted: fitted.transform(X)]
                if hasattr(fitted, "feature_map_"):
                    calls.append(lambda fitted=fitted: fitted.feature_map_.into(X, out))
                seconds = best(*calls)
                spent = best(*calls, clock=time.process_time)
            fill, fresh, given = [*(out.nbytes / s / 1e9 for s in seconds), np.nan][:3]
            _, fresh_cpu, given_cpu = [*(1e9 * s / out.nbytes for s in spent), np.nan][:3]
            line = f"{name:14s}{threads:7d} {fill:8.1f}{given:8.2f}{fresh:8.2f}{fresh / given:16.0%}"
            line += f"{given_cpu:19.3f}{fresh_cpu:8.3f}"
            print(line.replace("nan%", "   –").replace("nan", "  –"), flush=True)


def bench_torch():
    try:
        import torch
    except ImportError:
        print("torch is not installed: no comparison with torch")
        return
    torch.set_num_threads(1)
    n, d, columns = 4096, 256, 2048
    X = np.random.default_rng(1).normal(size=(n, d)).astype(np.float32)
    ours = FourierFeatures(RBF(16.0), columns, random_state=0, n_jobs=1).fit(X)
    W, T = torch.randn(d, columns // 2), torch.from_numpy(X)
    out = torch.empty(n, columns)

    def theirs():
        A = T @ W
        torch.cos(A, out=out[:, : columns // 2])
        torch.sin(A, out=out[:, columns // 2 :])

    peer, shell = best(theirs, lambda: ours.transform(X))
    print(f"d={d}, {columns} columns, {n} rows, one thread, rows chosen: {ours.rows_}")
    print(f"  torch matmul + cos + sin / transform = {peer / shell:.1f}×")


def bench_auto():
    print('rows="auto": seconds over the better of orthogonal and structured rows, 1,024 rows, all threads')
    worst = 0.0
    for columns in (256, 2048, 16384):
        for d in (2, 4, 8, 16, 24, 32, 64, 128, 256, 512, 1024):
            X = np.random.default_rng(1).normal(size=(1024, d)).astype(np.float32)
            maps = []
            for law in ("auto", "orthogonal", "structured"):
                rows = "iid" if law == "orthogonal" else law  # the same dense product, drawn sooner
                maps.append(FourierFeatures(RBF(1.0), columns, rows=rows, random_state=0).fit(X[:2]))
            auto, dense, fast = best(*[lambda m=m, X=X: m.feature_map_(X) for m in maps], repetitions=30, seconds=0.01)
            loss = auto / min(dense, fast) - 1.0
            worst = max(worst, loss)
            ratios = f"dense/structured {dense / fast:6.2f}   loss {loss:5.0%}"
            print(f"  columns={columns:6d} d={d:5d}: auto is {maps[0].rows_:10s} {ratios}")
    print(f"  worst loss {worst:.0%} (limit 15 %)")


def main():
    parts = {"row": bench_row, "fill": bench_fill, "fresh": bench_fresh, "torch": bench_torch, "auto": bench_auto}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
