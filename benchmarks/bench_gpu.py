"""The GPU backend against the card's own limits.

    python benchmarks/bench_gpu.py [pairs] [fwht] [ridge] [falkon] [--quick] [--write]

All parts take a minute on an H200, half of it compiling kernels; --quick takes an eighth of the rows.
--write puts the table into benchmarks/results.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

try:
    import torch
    import triton

    from bochner.backends.torch import cuda
except ImportError:
    print("bench_gpu.py needs torch and triton; nothing was measured.")
    sys.exit(0)

import bochner
from bochner import RBF, FourierFeatures, KernelRidge

QUICK = "--quick" in sys.argv
TABLE: list[tuple[str, str, str, str]] = []  # what, measured, limit or peer, wanted


def say(what: str, measured: str, beside: str = "", wanted: str = "") -> None:
    TABLE.append((what, measured, beside, wanted))
    print(f"{what:58} {measured:28} {beside:44} {wanted}", flush=True)


def seconds(function: Any, rep: int = 100) -> float:
    """The median time of a call on the device, after warming up."""
    function()
    return float(triton.testing.do_bench(function, warmup=25, rep=rep, return_mode="median")) * 1e-3


def ceilings() -> dict[str, float]:
    """The card's fill bandwidth and matrix rates."""
    found: dict[str, float] = {}
    big = torch.empty(1 << 32, device="cuda")
    found["fill"] = 4 * big.numel() / seconds(lambda: big.fill_(1.0))
    half = big.numel() // 2
    found["copy"] = 8 * half / seconds(lambda: big[:half].copy_(big[half:]))
    A = torch.randn(8192, 8192, device="cuda")
    for name, dtype, tf32 in (
        ("float32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("float16", torch.float16, False),
        ("float64", torch.float64, False),
    ):
        B = A.to(dtype)
        torch.backends.cuda.matmul.allow_tf32 = tf32
        found[name] = 2.0 * 8192**3 / seconds(lambda B=B: B @ B)
        torch.backends.cuda.matmul.allow_tf32 = False
    say("fill, copy", f"{found['fill'] / 1e12:.2f}, {found['copy'] / 1e12:.2f} TB/s")
    rates = ", ".join(f"{name} {found[name] / 1e12:.0f}" for name in ("float32", "tf32", "float16", "float64"))
    say("matmul 8192³, TFLOP/s", rates)
    return found


def error(Z: Any, exact: Any) -> float:
    return float(torch.linalg.norm(Z.double() - exact) / torch.linalg.norm(exact))


def bench_pairs(limits: dict[str, float]) -> None:
    n = 262_144 // (8 if QUICK else 1)
    columns = 16_384
    for d in (128, 256, 512, 1024, 2048, 4096, 8192):
        model = FourierFeatures(RBF(np.sqrt(d) / 10), columns, rows="structured", random_state=0).fit(np.zeros((2, d)))
        X = torch.randn(n, d, device="cuda")
        out = torch.empty(n, columns, device="cuda")
        t = seconds(lambda m=model, X=X, out=out: m.feature_map_.into(X, out))
        exact = model.feature_map_(X[:200].double())
        say(
            f"structured pairs {n:,} × {d:,} → {columns:,}",
            f"{100 * 4 * out.numel() / t / limits['fill']:.0f} % of fill",
            f"error {error(out[:200], exact):.1e} (phases of sd 10)",
            "≥ 50 %, aim 75 %",
        )
    d = 90
    model = FourierFeatures(RBF(np.sqrt(d) / 10), columns, rows="iid", random_state=0).fit(np.zeros((2, d)))
    X = torch.randn(n, d, device="cuda")
    out = torch.empty(n, columns, device="cuda")
    W = torch.from_numpy(model.frequencies().astype(np.float32)).cuda()
    scale = float(np.sqrt(2 / columns))

    def plain(X: Any, W: Any) -> Any:
        A = X @ W.T
        return torch.stack([A.cos(), A.sin()], 2).view(len(X), -1) * scale

    compiled = torch.compile(plain)
    peer = seconds(lambda: compiled(X, W))
    exact = model.feature_map_(X[:200].double())
    for precision, wanted in (("float32", "≥ 35 %, aim 55 %; ≥ 1.8 ×"), ("tf32", "≥ 55 %")):
        with bochner.backends.use_precision(precision):
            t = seconds(lambda: model.feature_map_.into(X, out))
        say(
            f"dense pairs {n:,} × {d} → {columns:,}, {precision}",
            f"{100 * 4 * out.numel() / t / limits['fill']:.0f} % of fill",
            f"error {error(out[:200], exact):.1e}; {peer / t:.1f} × torch.compile",
            wanted,
        )


def bench_fwht() -> None:
    ratios = []
    for q in range(7, 16):
        X = torch.randn(1 << (26 if QUICK else 29), device="cuda").view(-1, 1 << q)
        Y = torch.empty_like(X)
        copy = seconds(lambda X=X, Y=Y: Y.copy_(X))
        ratios.append(seconds(lambda X=X: cuda.fwht(X)) / copy)
    say("fwht, widths 2^7 … 2^15, time / copy", ", ".join(f"{r:.2f}" for r in ratios), "", "≤ 1.5, aim 1.15")


def bench_ridge(limits: dict[str, float]) -> None:
    n, d = 463_715 // (8 if QUICK else 1), 90
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(n)
    options: dict[str, Any] = {"alpha": 1.0, "random_state": 0, "device": "cuda"}
    KernelRidge(RBF(9.0), 16_384, **options).fit(X[:20_000], y[:20_000])  # compile
    for m, wanted in ((16_384, 1.5), (32_768, 5.0)):
        times = []
        for _ in range(2):
            torch.cuda.synchronize()
            t = time.perf_counter()
            model = KernelRidge(RBF(9.0), m, **options).fit(X, y)
            times.append(time.perf_counter() - t)
            last = model.predict(X[:1000])
            del model
        share = n * m**2 / min(times) / limits["float16"]
        say(
            f"KernelRidge.fit {n:,} × {d}, {m:,} Fourier features",
            f"{times[0]:.2f} s, again {times[1]:.2f} s",
            f"n m² at {100 * share:.0f} % of the float16 rate; predictions finite: {bool(np.isfinite(last).all())}",
            f"≤ {wanted} s",
        )
    # against the host, on fewer rows and columns
    few = slice(0, 20_000)
    host = KernelRidge(RBF(9.0), 2048, alpha=1.0, random_state=0).fit(X[few], y[few]).predict(X[20_000:25_000])
    there = KernelRidge(RBF(9.0), 2048, **options).fit(X[few], y[few]).predict(X[20_000:25_000])
    difference = np.linalg.norm(there - host) / np.linalg.norm(host)
    say("KernelRidge, predictions against the host's", f"{difference:.1e}", "20,000 rows, 2,048 features", "≤ 1e-4")


def bench_falkon() -> None:
    n, d, m = 1_000_000 // (8 if QUICK else 1), 28, 5000
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(n)
    options: dict[str, Any] = {"features": "nystrom", "alpha": 10.0, "random_state": 0, "device": "cuda"}
    for solver in ("cg", "cholesky"):
        t = time.perf_counter()
        model = KernelRidge(RBF(5.0), m, solver=solver, **options).fit(X, y)
        t = time.perf_counter() - t
        passes = f"{model.report_.iterations} iterations" if solver == "cg" else "sums and their factor"
        say(f"KernelRidge.fit {n:,} × {d}, {m:,} landmarks, {solver}", f"{t:.1f} s", passes)


def main() -> None:
    parts = [a for a in sys.argv[1:] if not a.startswith("-")] or ["pairs", "fwht", "ridge", "falkon"]
    if not torch.cuda.is_available():
        print("bench_gpu.py needs a CUDA device; nothing was measured.")
        return
    limits = ceilings()
    if "pairs" in parts:
        bench_pairs(limits)
    if "fwht" in parts:
        bench_fwht()
    if "ridge" in parts:
        bench_ridge(limits)
    if "falkon" in parts:
        bench_falkon()
    if "--write" in sys.argv:
        today = datetime.now(UTC).date().isoformat()
        path = Path(__file__).parent / "results" / f"gpu-{today}.md"
        path.parent.mkdir(exist_ok=True)
        lines = [
            f"# GPU backend, {today}",
            "",
            f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}; "
            "`python benchmarks/bench_gpu.py --write`.",
            "",
            "| what | measured | beside it | wanted |",
            "|---|---|---|---|",
            *("| " + " | ".join(row) + " |" for row in TABLE),
            "",
        ]
        path.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
