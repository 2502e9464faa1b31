"""Random Fourier features: the native backend against scikit-learn, a memory fill, torch and itself.

Prints ratios measured side by side in one run, each from the best of several repetitions. Usage:
``python benchmarks/bench_features.py [row] [bandwidth] [torch] [crossover]`` (no argument: all of them).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from bochner.backends import limit_threads, n_cores
from bochner.backends.native import native

RNG = np.random.default_rng(0)
Functions = dict[str, Callable[[], object]]


def best(functions: Functions, repetitions: int = 9, seconds: float = 0.02) -> dict[str, float]:
    """Return the least seconds a call of each function, taking turns so that noise falls on all alike."""
    least = dict.fromkeys(functions, np.inf)
    counts = {}
    for name, function in functions.items():
        start = time.perf_counter()
        function()
        counts[name] = max(1, int(seconds / (time.perf_counter() - start)))
    for _ in range(repetitions):
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                function()
            least[name] = min(least[name], (time.perf_counter() - start) / counts[name])
    return least


def structured(n: int, d: int, T: int, out: np.ndarray | None = None) -> Callable[[], None]:
    """Return a call of structured_pairs on n rows."""
    p = 1 << (d - 1).bit_length()
    blocks = -(-T // p)
    X = RNG.standard_normal((n, d), np.float32)
    signs = RNG.choice(np.array([-1, 1], np.int8), (blocks, 3, p))
    lengths = np.sqrt(RNG.chisquare(p, T)).astype(np.float32) / np.float32(d**0.5)
    out = np.zeros((n, 2 * T), np.float32) if out is None else out
    return lambda: native.structured_pairs(X, signs, lengths, 1.0, 0.0, out)


def fastfood(n: int, d: int, T: int, out: np.ndarray) -> Callable[[], None]:
    """Return a call of fastfood_pairs on n rows."""
    blocks = -(-T // d)
    X = RNG.standard_normal((n, d), np.float32)
    signs = RNG.choice(np.array([-1, 1], np.int8), (blocks, d))
    orders = np.stack([RNG.permutation(d) for _ in range(blocks)]).astype(np.int32)
    gains = RNG.standard_normal((blocks, d), np.float32)
    lengths = np.full(T, 1.0 / d, np.float32)
    return lambda: native.fastfood_pairs(X, signs, orders, gains, lengths, 1.0, 0.0, out)


def dense(n: int, d: int, T: int, out: np.ndarray | None = None) -> Callable[[], None]:
    """Return a call of dense_pairs on n rows, W.T contiguous."""
    X = RNG.standard_normal((n, d), np.float32)
    W = np.asfortranarray(RNG.standard_normal((T, d), np.float32) / np.float32(d**0.5))
    out = np.zeros((n, 2 * T), np.float32) if out is None else out
    return lambda: native.dense_pairs(X, W, 1.0, 0.0, out)


def bench_row() -> None:
    """One row at a time against RBFSampler with as many frequencies."""
    print("one float32 row: RBFSampler.transform / structured_pairs (same number of frequencies)")
    for d, T in ((1024, 16384), (4096, 32768), (8192, 65536)):
        sampler = RBFSampler(gamma=0.5 / d, n_components=T).fit(np.zeros((1, 1), np.float32))
        # Its own draw would pass through float64 (4 GB at the largest size).
        sampler.random_weights_ = RNG.standard_normal((d, T), np.float32)
        sampler.n_features_in_ = d
        x = RNG.standard_normal((1, d), np.float32)
        assert sampler.transform(x).dtype == np.float32
        seconds = best({"sklearn": lambda s=sampler, x=x: s.transform(x), "native": structured(1, d, T)}, 7)
        ratio = seconds["sklearn"] / seconds["native"]
        print(f"  d={d:5d} T={T:6d}: {ratio:7.0f}x  ({1e6 * seconds['native']:.0f} µs a row)")


def bench_bandwidth() -> None:
    """Output written against a fill of the same array by one thread."""
    print("batched float32, 16384 columns, 4096 rows: output rate / fill rate of one thread")
    out = np.zeros((4096, 16384), np.float32)
    for threads in (1, n_cores()):
        for d in (128, 512, 1024):
            functions: Functions = {
                "fill": lambda: out.fill(1.0),
                "structured": structured(len(out), d, 8192, out),
                "fastfood": fastfood(len(out), d, 8192, out),
            }
            with limit_threads(threads):
                seconds = best(functions)
            fill = seconds.pop("fill")
            ratios = "  ".join(f"{name} {fill / value:5.2f}" for name, value in seconds.items())
            print(f"  threads={threads} d={d:5d}: {ratios}  (fill {1e-9 * out.nbytes / fill:.1f} GB/s)")


def bench_torch() -> None:
    """Fused pairs against torch's product, cosine and sine, one thread each."""
    print("d=256, 1024 frequencies, 4096 rows, one thread: torch matmul + cos + sin / native")
    try:
        import torch
    except ImportError:
        print("  torch is not installed: not measured")
        return
    torch.set_num_threads(1)
    n, d, T = 4096, 256, 1024
    X, W = torch.randn(n, d), torch.randn(T, d)
    out = torch.empty(n, 2 * T)

    def eager() -> None:
        phases = X @ W.T
        torch.cos(phases, out=out[:, :T])
        torch.sin(phases, out=out[:, T:])

    with limit_threads(1):
        seconds = best({"torch": eager, "structured": structured(n, d, T), "dense": dense(n, d, T)})
    for name in ("structured", "dense"):
        print(f"  {name}_pairs: {seconds['torch'] / seconds[name]:.1f}x")


def bench_crossover() -> None:
    """Dense against structured pairs over d and the number of columns."""
    for threads in sorted({1, n_cores()}):
        for n in (1, 1024):
            print(f"{n} rows, {threads} threads: µs a row of dense_pairs / structured_pairs = ratio")
            for columns in (256, 2048, 16384):
                out = np.zeros((n, columns), np.float32)
                for d in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
                    with limit_threads(threads):
                        functions = {
                            "dense": dense(n, d, columns // 2, out),
                            "structured": structured(n, d, columns // 2, out),
                        }
                        seconds = best(functions, 5, 0.005)
                    one, other = (1e6 * seconds[name] / n for name in ("dense", "structured"))
                    print(f"  columns={columns:6d} d={d:5d}: {one:8.2f} / {other:8.2f} = {one / other:6.2f}")


def main() -> None:
    """Run the parts named on the command line, or all."""
    parts = {
        "row": bench_row,
        "bandwidth": bench_bandwidth,
        "torch": bench_torch,
        "crossover": bench_crossover,
    }
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
