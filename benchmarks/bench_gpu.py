"""The GPU backend against the card's own limits, and against peers on the same card.

    python benchmarks/bench_gpu.py [pairs] [dense] [fwht] [tiles] [sketches] [exact] [ridge] [process] [falkon]
                                   [landmarks] [classes] [stream] [tables] [--quick] [--write]

All parts take four minutes on an H200, some of it compiling kernels; --quick takes an eighth of the rows. MNIST and
ijcnn1 are real where BOCHNER_DATA names a folder that has them; else MNIST is noise of its shape and ijcnn1 is left
out. A part that fails does not stop the others. --write puts the table into benchmarks/results.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

try:
    import torch
    import triton

    from bochner.backends._triton import sketches
    from bochner.backends.torch import cuda
except ImportError:
    print("bench_gpu.py needs torch and triton; nothing was measured.")
    sys.exit(0)

import bochner
from bochner import (
    RBF,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRidge,
    Laplacian,
    Matern,
    Polynomial,
    TabularClassifier,
    exact_kernel_ridge,
)
from bochner.data.devices import on_device
from bochner.data.folds import accumulate
from bochner.data.sources import ArraySource
from bochner.draws.keys import Key
from bochner.landmarks import Gram, RPCholesky
from bochner.ridge.solvers import ConjugateGradient
from bochner.ridge.statistics import RidgeStatistics
from bochner.sketches import CountSketch, SparseSign

QUICK = "--quick" in sys.argv
TABLE: list[tuple[str, str, str, str]] = []  # what, measured, limit or peer, wanted


def say(what: str, measured: str, beside: str = "", wanted: str = "") -> None:
    TABLE.append((what, measured, beside, wanted))
    print(f"{what:58} {measured:28} {beside:44} {wanted}", flush=True)


def holds(condition: bool) -> str:
    return "holds" if condition else "does not hold"


def verdict(seconds_taken: float, limit: float) -> str:
    return f"≤ {limit:g} s: {holds(seconds_taken <= limit)}"


def seconds(function: Any, rep: int = 30) -> float:
    """The median time of a call on the device, after warming up."""
    function()
    return float(triton.testing.do_bench(function, warmup=10, rep=rep, return_mode="median")) * 1e-3


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


COLUMNS = 16_384


USUAL, LARGE = 2.0, 20.0  # standard deviations of phases; of so many 20.0 the largest is about 100


def transformed(rows: str, d: int, n: int, limits: dict[str, float], sd: float = USUAL) -> tuple[float, float, float]:
    """Per cent of fill bandwidth at which features of n × d are written; the error and largest phase of 200 rows."""
    model = FourierFeatures(RBF(np.sqrt(d) / sd), COLUMNS, rows=rows, random_state=0).fit(np.zeros((2, d)))
    X, out = torch.randn(n, d, device="cuda"), torch.empty(n, COLUMNS, device="cuda")
    t = seconds(lambda: model.feature_map_.into(X, out))
    few = X[:200].double()
    largest = float(model.feature_map_.frequencies.on(few)(few).abs().max())
    return 100 * 4 * out.numel() / t / limits["fill"], error(out[:200], model.feature_map_(few)), largest


def bench_pairs(limits: dict[str, float]) -> None:
    n = 262_144 // (8 if QUICK else 1)
    columns = COLUMNS
    for rows, least in (("structured", 50), ("fastfood", 0)):
        for d in (128, 512, 1024, 4096, 8192):
            share, wrong, largest = transformed(rows, d, n, limits)
            say(
                f"{rows} pairs {n:,} × {d:,} → {columns:,}",
                f"{share:.0f} % of fill",
                f"error {wrong:.1e}, largest phase {largest:.0f}",
                f"≥ {least} %: {holds(share >= least)}; aim 75 %" if least else "",
            )
            share, wrong, largest = transformed(rows, d, n, limits, LARGE)
            say(
                "the same at large phases",
                f"{share:.0f} % of fill",
                f"error {wrong:.1e}, largest phase {largest:.0f}",
                f"error ≤ 2e-6: {holds(wrong <= 2e-6)}",
            )


def bench_dense(limits: dict[str, float]) -> None:
    n, columns, d = 262_144 // (8 if QUICK else 1), COLUMNS, 90
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
    for precision, least, times, aim in (("full", 50, 1.8, "; aim 55 %"), ("fast", 55, 0.0, "")):
        with bochner.backends.use_precision(precision):
            t = seconds(lambda: model.feature_map_.into(X, out))
        share = 100 * 4 * out.numel() / t / limits["fill"]
        wanted = f"≥ {least} %" + (f" and ≥ {times} × torch.compile" if times else "")
        say(
            f"dense pairs {n:,} × {d} → {columns:,}, precision={precision!r}",
            f"{share:.0f} % of fill",
            f"error {error(out[:200], exact):.1e}; {peer / t:.1f} × torch.compile",
            f"{wanted}: {holds(share >= least and peer / t >= times)}{aim}",
        )
    X = X[:2000] * (100.0 / float((X[:2000] @ W.T).abs().max()))
    wrong = error(model.transform(X), model.feature_map_(X.double()))
    say("dense pairs, float32, largest phase 100", f"error {wrong:.1e}", "", f"≤ 2e-6: {holds(wrong <= 2e-6)}")


def bench_tiles(limits: dict[str, float]) -> None:
    """Kernel values times a column, never stored, against plain torch, which stores blocks of them."""
    n, m, d = 262_144 // (8 if QUICK else 1), 20_000, 28
    X, Y, V = torch.randn(n, d, device="cuda"), torch.randn(m, d, device="cuda"), torch.randn(m, 1, device="cuda")
    wide = V.double()

    root3, root5 = float(np.sqrt(3.0)), float(np.sqrt(5.0))

    def squares(A: Any) -> Any:  # torch.compile makes one program of differences, sums and what follows
        return (A[:, None, :] - Y[None, :, :]).square().sum(2)

    def matern(a: Any, root: float) -> Any:
        return (1 + a + (a * a / 3 if root == root5 else 0)) * torch.exp(-a)

    cases = [
        (RBF(5.0), lambda A: torch.exp(squares(A) * -0.02)),
        (Matern(5.0, nu=0.5), lambda A: torch.exp(squares(A).sqrt() * -0.2)),
        (Matern(5.0, nu=1.5), lambda A: matern(squares(A).sqrt() * (root3 / 5.0), root3)),
        (Matern(5.0, nu=2.5), lambda A: matern(squares(A).sqrt() * (root5 / 5.0), root5)),
        (Laplacian(20.0), lambda A: torch.exp((A[:, None, :] - Y[None, :, :]).abs().sum(2) * -0.05)),
        (Polynomial(3, 0.05), lambda A: (0.05 * (A @ Y.T) + 1.0) ** 3),
    ]
    rows = X[:8192]
    for kernel, formula in cases:
        t = seconds(lambda kernel=kernel: kernel.product(X, Y, wide), rep=10)
        compiled = torch.compile(lambda A, formula=formula: formula(A) @ V)
        peer = seconds(lambda compiled=compiled: compiled(rows), rep=10) * len(X) / len(rows)
        stored = seconds(lambda kernel=kernel: kernel(rows, Y) @ V, rep=10) * len(X) / len(rows)
        exact = kernel(X[:500].double(), Y.double()) @ wide
        wrong = error(kernel.product(X[:500], Y, wide), exact)
        operations = (2 if isinstance(kernel, Polynomial) else 3) * float(n) * m * d
        share = 100 * operations / t / limits["float32"]
        say(
            f"{kernel!r}: k(X, Y) v, {n:,} × {d} by {m:,}",
            f"{1e3 * t:.1f} ms, {share:.0f} % of float32",
            f"stored {1e3 * stored:.0f} ms; torch.compile, float32: {1e3 * peer:.0f} ms; error {wrong:.1e}",
            f"≥ 60 % and error ≤ 1e-6: {holds(share >= 60 and wrong <= 1e-6)}",
        )


def gpytorch_exact(X: Any, y: Any, Q: Any, length_scale: float, noise: float) -> tuple[float, Any]:
    """Seconds of gpytorch's exact process by conjugate gradients, and its means."""
    import gpytorch

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, x: Any, t: Any, likelihood: Any) -> None:
            super().__init__(x, t, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.RBFKernel()
            self.covar_module.lengthscale = length_scale

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    started = time.perf_counter()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().cuda()
    likelihood.noise = noise
    model = Model(torch.from_numpy(X).cuda(), torch.from_numpy(y).cuda().float(), likelihood).cuda()
    model.eval()
    # the accuracy of ours; and no variances
    with (
        torch.no_grad(),
        gpytorch.settings.eval_cg_tolerance(1e-4),
        gpytorch.settings.skip_posterior_variances(),
        gpytorch.settings.max_cholesky_size(0),
        gpytorch.settings.max_preconditioner_size(100),
        gpytorch.settings.max_cg_iterations(1000),
    ):
        mean = model(torch.from_numpy(Q).cuda()).mean.cpu().numpy()
    return time.perf_counter() - started, mean


def block_descent(X: Any, y: Any, kernel: Any, alpha: float, tol: float, most: float) -> tuple[float, float]:
    """Seconds and residual of accelerated block coordinate descent, blocks of 4,096 rows solved exactly.

    It is Nesterov's acceleration as ASkotch has it (Rathore, Frangella, Yang, Dereziński & Udell 2025), with the
    products of this library, and stops at a residual or after so many seconds.
    """
    started = time.perf_counter()
    n, size, T, t = len(X), 4096, torch.from_numpy(X).cuda(), torch.from_numpy(y).cuda()[:, None]
    many = n / size
    mu = min(alpha / (alpha + 1.0), 1.0 / many)
    beta, gamma = 1.0 - (mu / many) ** 0.5, 1.0 / (mu * many) ** 0.5
    share = 1.0 / (1.0 + gamma * many)
    w, v, z = (torch.zeros_like(t) for _ in range(3))
    residual, steps = 1.0, 0
    while residual > tol and time.perf_counter() - started < most:
        for _ in range(int(3 * many)):
            block = torch.randperm(n, device="cuda")[:size]
            K = kernel(T[block].double())
            K.diagonal().add_(alpha)
            gradient = kernel.product(T[block], T, z) + alpha * z[block] - t[block]
            step = torch.cholesky_solve(gradient, torch.linalg.cholesky(K))
            w = z.clone()
            w[block] -= step
            v = beta * v + (1.0 - beta) * z
            v[block] -= gamma * step
            z = share * v + (1.0 - share) * w
            steps += 1
        residual = float((kernel.product(T, T, w) + alpha * w - t).norm() / t.norm())
    return time.perf_counter() - started, residual


def bench_exact() -> None:
    """Ridge regression with the full kernel, of which nothing is stored."""
    few = 20_000
    X, y = higgs_like(few + 2000)
    options: dict[str, Any] = {"alpha": 1.0, "fit_intercept": False}
    direct = exact_kernel_ridge(RBF(5.0), X[:4000], y[:4000], X[few:], **options, solver="direct")
    there = exact_kernel_ridge(RBF(5.0), X[:4000], y[:4000], X[few:], **options, device="cuda")
    wrong = np.linalg.norm(there - direct) / np.linalg.norm(direct)
    say(
        "exact_kernel_ridge on the card, against the host's Cholesky",
        f"{wrong:.1e}",
        "4,000 rows",
        holds(wrong <= 1e-5),
    )
    shrink = 8 if QUICK else 1
    for kernel, n, alpha, limit in (
        (RBF(5.0), 100_000, 1.0, 2.0),
        (RBF(5.0), 100_000, 0.01, 5.0),
        (Matern(5.0, nu=1.5), 100_000, 1.0, 2.0),
        (Laplacian(20.0), 100_000, 1.0, 5.0),
        (RBF(5.0), 1_000_000, 10.0, 60.0),
    ):
        n = n // shrink
        X, y = higgs_like(n + 5000)
        y = y - y.mean()
        exact_kernel_ridge(kernel, X[:2000], y[:2000], X[n:], alpha, fit_intercept=False, device="cuda")  # compile
        t = time.perf_counter()
        found = exact_kernel_ridge(kernel, X[:n], y[:n], X[n:], alpha, fit_intercept=False, device="cuda")
        t = time.perf_counter() - t
        beside = f"test error {np.mean((found - y[n:]) ** 2):.4f}, noise 0.25"
        if n * shrink == 100_000 and isinstance(kernel, RBF):
            peer, left = block_descent(X[:n], y[:n], kernel, alpha, 1e-6, 6.0)
            beside += f"; block coordinate descent: residual {left:.0e} after {peer:.1f} s"
        torch.cuda.empty_cache()
        say(f"exact_kernel_ridge {kernel!r}, {n:,} × 28, alpha={alpha:g}", f"{t:.2f} s", beside, verdict(t, limit))
    n = 50_000 // shrink
    X, y = higgs_like(n + 5000)
    y = y - y.mean()
    t = time.perf_counter()
    found = exact_kernel_ridge(RBF(5.0), X[:n], y[:n], X[n:], 0.25, fit_intercept=False, device="cuda")
    t = time.perf_counter() - t
    try:
        peer, means = gpytorch_exact(X[:n], y[:n], X[n:], 5.0, 0.25)
        beside = f"gpytorch, conjugate gradients: {peer:.1f} s, test error {np.mean((means - y[n:]) ** 2):.4f}"
    except Exception as reason:
        beside = f"gpytorch: {type(reason).__name__}: {str(reason)[:60]}"
    torch.cuda.empty_cache()
    mse = np.mean((found - y[n:]) ** 2)
    say(f"means of an exact Gaussian process, {n:,} × 28, noise 0.25", f"{t:.2f} s, test error {mse:.4f}", beside)


def bench_sketches(limits: dict[str, float]) -> None:
    """Sparse sketches against the time in which X is read and the result written once."""
    n = 262_144 // (8 if QUICK else 1)
    for law, d, T in (
        (CountSketch(), 128, 64),
        (CountSketch(), 1024, 256),
        (SparseSign(), 128, 64),
        (SparseSign(), 1024, 256),
        (SparseSign(), 4096, 1024),
    ):
        X, S = torch.randn(n, d, device="cuda"), law.sample(d, T, Key(0))
        W = torch.from_numpy(S.to_dense().astype(np.float32)).cuda()
        t, ideal = seconds(lambda X=X, S=S: S(X)), 4.0 * n * (d + T) / limits["copy"]
        product, wrong = seconds(lambda X=X, W=W: X @ W.T), error(S(X[:100]), X[:100].double() @ W.double().T)
        rule, ways = sketches.dense_pays, {}
        for name, way in (("all entries", True), ("non-zeros", False)):
            sketches.dense_pays = lambda *sizes, way=way: way
            ways[name] = seconds(lambda X=X, S=S: S(X))
        sketches.dense_pays = rule
        say(
            f"{law!r} of {n:,} × {d:,} → {T:,}",
            f"{1e3 * t:.2f} ms, {t / ideal:.1f} × a copy of as many bytes",
            ", ".join(f"{name} {1e3 * t:.2f} ms" for name, t in ways.items())
            + f"; torch's float32 product {1e3 * product:.2f} ms; error {wrong:.0e}",
        )


def bench_fwht() -> None:
    ratios = []
    for q in range(7, 16):
        X = torch.randn(1 << (26 if QUICK else 29), device="cuda").view(-1, 1 << q)
        Y = torch.empty_like(X)
        copy = seconds(lambda X=X, Y=Y: Y.copy_(X))
        ratios.append(seconds(lambda X=X: cuda.fwht(X)) / copy)
    say(
        "fwht, widths 2^7 … 2^15, time / copy",
        ", ".join(f"{r:.2f}" for r in ratios),
        "",
        f"≤ 1.5: {holds(max(ratios) <= 1.5)}; aim 1.15",
    )


def plain_ridge(X: Any, y: Any, m: int, alpha: float, length_scale: float) -> float:
    """Seconds of ridge regression on random Fourier features in plain torch: float32, factored in float64."""
    started = time.perf_counter()
    T, t = torch.from_numpy(X).cuda() / length_scale, torch.from_numpy(y).cuda().float()
    W = torch.randn(T.shape[1], m // 2, device="cuda")
    G, b = torch.zeros(m, m, device="cuda"), torch.zeros(m, device="cuda")
    for i in range(0, len(T), 65_536):
        A = T[i : i + 65_536] @ W
        Z = torch.hstack([A.cos(), A.sin()]) * (2 / m) ** 0.5
        G.addmm_(Z.T, Z)
        b += Z.T @ t[i : i + 65_536]
    wide = G.double()
    wide.diagonal().add_(alpha)
    torch.cholesky_solve(b.double()[:, None], torch.linalg.cholesky(wide)).cpu()
    return time.perf_counter() - started


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
            f"{times[1]:.2f} s; the first {times[0]:.2f} s",
            f"n m² at {100 * share:.0f} % of the float16 rate; a fit of 20,000 rows before compiled kernels; "
            f"predictions finite: {bool(np.isfinite(last).all())}",
            verdict(max(times), wanted),
        )
        if m == 16_384:
            say(
                "the same in plain torch, float32 features and products, from rows on the device",
                f"{plain_ridge(X, y, m, 1.0, 9.0):.2f} s",
            )
            torch.cuda.empty_cache()
    sums_alone(X, y, limits)
    # against the host, on fewer rows and columns
    few, new = slice(0, 20_000), X[20_000:25_000]
    for features in ("fourier", "nystrom"):
        model = KernelRidge(RBF(9.0), 2048, features=features, alpha=1.0, random_state=0)
        host = model.fit(X[few], y[few]).predict(new)
        wide = model.fit(X[few].astype(float), y[few]).predict(new.astype(float))
        there = KernelRidge(RBF(9.0), 2048, features=features, **options).fit(X[few], y[few]).predict(new)
        differences = [float(np.linalg.norm(a - b) / np.linalg.norm(wide)) for a, b in ((there, host), (there, wide))]
        say(
            f"KernelRidge, {features}, predictions against the host's",
            f"{differences[0]:.1e}; against float64 {differences[1]:.1e}",
            "20,000 rows, 2,048 features",
            f"≤ 1e-4: {holds(max(differences) <= 1e-4)}",
        )


def sums_alone(X: Any, y: Any, limits: dict[str, float]) -> None:
    """The pass of a ridge regression, features and sums, without the solution."""
    n, m = len(X), 16_384
    few = slice(0, 20_000)
    model = KernelRidge(RBF(9.0), m, alpha=1.0, random_state=0, device="cuda").fit(X[few], y[few])
    source = on_device(ArraySource(X, y[:, None]), "cuda")
    for what, penalty, precision in (
        ("alpha=1", 1.0 / n, "full"),
        ("alpha=100", 100.0 / n, "full"),
        ("alpha chosen later", None, "full"),
        ("alpha=1, precision='fast'", 1.0 / n, "fast"),
    ):
        times = []
        for _ in range(2):
            sums = RidgeStatistics(m, 1, penalty=penalty, precision=precision)
            torch.cuda.synchronize()
            t = time.perf_counter()
            accumulate(source, model.feature_map_, sums, np.asarray)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - t)
            del sums
        share = 100 * n * m**2 / times[1] / limits["float16"]
        say(
            f"features and sums alone, {n:,} × {X.shape[1]} → {m:,}, {what}",
            f"{times[1]:.2f} s; the first {times[0]:.2f} s",
            f"n m² at {share:.0f} % of the float16 rate",
            f"aim 40 %: {holds(share >= 40)}",
        )


def higgs_like(n: int) -> tuple[Any, Any]:
    """28 features and a smooth function of three of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 28), dtype=np.float32)
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(n)


def plain_falkon(X: Any, y: Any, m: int, alpha: float, length_scale: float, steps: int) -> tuple[float, float, Any]:
    """Falkon in plain torch, float32 (factors float64): seconds to set up, seconds a step, and a predictor."""
    started = time.perf_counter()
    T, t = torch.from_numpy(X).cuda() / length_scale, torch.from_numpy(y).cuda().float()[:, None]
    n = len(T)
    C = T[torch.randperm(n, device="cuda")[:m]]

    def kernel(A: Any, B: Any) -> Any:
        return torch.cdist(A, B).square_().mul_(-0.5).exp_()

    def transposed_product(right: Any) -> Any:  # KᵀK v, or Kᵀ y
        total = torch.zeros(m, 1, device="cuda")
        for i in range(0, n, 32_768):
            K = kernel(T[i : i + 32_768], C)
            total += K.T @ (right[i : i + 32_768] if len(right) == n else K @ right)
        return total

    K = kernel(C.double(), C.double())
    K.diagonal().add_(1e-6 * m)
    upper = torch.linalg.cholesky(K, upper=True)
    inner = upper @ upper.T / m
    inner.diagonal().add_(alpha / n)
    inner = torch.linalg.cholesky(inner, upper=True)

    def solve(A: Any, v: Any, *, transposed: bool = False) -> Any:
        A = A.T if transposed else A
        return torch.linalg.solve_triangular(A, v.double(), upper=not transposed)

    def product(v: Any) -> Any:
        w = solve(inner, v)
        raw = transposed_product(solve(upper, w).float())
        return solve(inner, solve(upper, raw, transposed=True) / n + alpha / n * w, transposed=True)

    r = solve(inner, solve(upper, transposed_product(t), transposed=True) / n, transposed=True)
    torch.cuda.synchronize()
    setup = time.perf_counter() - started
    x, p, rho = torch.zeros_like(r), r.clone(), float((r * r).sum())
    started = time.perf_counter()
    for _ in range(steps):
        q = product(p)
        step = rho / float((p * q).sum())
        x, r = x + step * p, r - step * q
        fresh = float((r * r).sum())
        p, rho = r + fresh / rho * p, fresh
    each = (time.perf_counter() - started) / steps
    weights = solve(upper, solve(inner, x)).float()
    return setup, each, lambda Q: (kernel(torch.from_numpy(Q).cuda() / length_scale, C) @ weights)[:, 0].cpu().numpy()


def gpytorch_process(X: Any, y: Any, Q: Any, points: Any, length_scale: float, noise: float) -> tuple[float, Any]:
    """Seconds of gpytorch's inducing points with fixed numbers, and its predictions."""
    import gpytorch

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, x: Any, t: Any, likelihood: Any) -> None:
            super().__init__(x, t, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            base = gpytorch.kernels.RBFKernel()
            base.lengthscale = length_scale
            self.covar_module = gpytorch.kernels.InducingPointKernel(base, points.clone(), likelihood)

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    started = time.perf_counter()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().cuda()
    likelihood.noise = noise
    model = Model(torch.from_numpy(X).cuda(), torch.from_numpy(y).cuda().float(), likelihood).cuda()
    model.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        mean = model(torch.from_numpy(Q).cuda()).mean.cpu().numpy()
    return time.perf_counter() - started, mean


def bench_process() -> None:
    n, m = 400_000 // (8 if QUICK else 1), 4096 // (8 if QUICK else 1)
    X, y = higgs_like(n + 10_000)
    y = y - y.mean()
    options: dict[str, Any] = {"noise_variance": 0.25, "amplitude": 1.0, "random_state": 0, "fit_intercept": False}
    model = GaussianProcessRegressor(RBF(5.0), m, device="cuda", **options)
    model.fit(X[:20_000], y[:20_000])  # compile
    t0 = time.perf_counter()
    model.fit(X[:n], y[:n])
    t1 = time.perf_counter()
    mean, std = model.predict(X[n:], return_std=True, include_noise=True)
    t2 = time.perf_counter()
    inside = 100 * np.mean(np.abs(mean - y[n:]) <= 1.96 * std)
    try:
        points = torch.from_numpy(model.feature_map_.landmarks).cuda()
        t, found = gpytorch_process(X[:n], y[:n], X[n:], points, 5.0, 0.25)
        beside = f"gpytorch, same inducing points: {t:.1f} s, test error {np.mean((found - y[n:]) ** 2):.4f}"
    except Exception as reason:
        beside = f"gpytorch: {type(reason).__name__}: {str(reason)[:60]}"
    torch.cuda.empty_cache()
    say(
        f"GaussianProcessRegressor.fit {n:,} × 28, {m:,} landmarks",
        f"fit {t1 - t0:.1f} s, predict {t2 - t1:.2f} s, test error {np.mean((mean - y[n:]) ** 2):.4f}",
        beside,
        f"95 % intervals hold {inside:.1f} %",
    )
    few = slice(0, 20_000)
    small = GaussianProcessRegressor(RBF(5.0), 1024, **options)
    host, there = (small.set_params(device=d).fit(X[few], y[few]).predict(X[n:]) for d in (None, "cuda"))
    difference = np.linalg.norm(there - host) / np.linalg.norm(host)
    say(
        "GaussianProcessRegressor, means against the host's",
        f"{difference:.1e}",
        "20,000 rows, 1,024 landmarks",
        f"≤ 1e-4: {holds(difference <= 1e-4)}",
    )


def bench_falkon() -> None:
    n, m, steps = 1_000_000 // (8 if QUICK else 1), 20_000 // (8 if QUICK else 1), 20
    X, y = higgs_like(n + 10_000)
    train, test = slice(0, n), slice(n, None)
    options: dict[str, Any] = {"features": "nystrom", "alpha": 10.0, "random_state": 0, "device": "cuda"}
    KernelRidge(RBF(5.0), 2048, solver="cg", **options).fit(X[:20_000], y[:20_000])  # compile
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # so many iterations are asked for
        t = time.perf_counter()
        rule = ConjugateGradient(tol=1e-30, max_iter=steps)
        model = KernelRidge(RBF(5.0), m, solver=rule, **options).fit(X[train], y[train])
        t = time.perf_counter() - t
    found, error = model.report_.iterations, np.mean((model.predict(X[test]) - y[test]) ** 2)
    del model
    torch.cuda.empty_cache()
    t_cg = time.perf_counter()
    model = KernelRidge(RBF(5.0), m, solver="cg", **options).fit(X[train], y[train])
    t_cg = time.perf_counter() - t_cg
    settled, passes = np.mean((model.predict(X[test]) - y[test]) ** 2), model.report_.iterations
    del model
    torch.cuda.empty_cache()
    setup, each, predict = plain_falkon(X[train], y[train], m, 10.0, 5.0, steps)
    plain = np.mean((predict(X[test]) - y[test]) ** 2)
    torch.cuda.empty_cache()
    say(
        f"Falkon, KernelRidge.fit {n:,} × 28, {m:,} landmarks, {found} iterations",
        f"{t:.1f} s, test error {error:.4f}",
        f"plain torch, {steps} iterations: {setup + steps * each:.1f} s ({each:.2f} s each), test error {plain:.4f}",
        verdict(t, 15.0),
    )
    say(f"the same to a residual of 1e-6, {passes} iterations", f"{t_cg:.1f} s, test error {settled:.4f}", "noise 0.25")


def plain_pivots(X: Any, k: int, length_scale: float) -> float:
    """Seconds of randomly pivoted Cholesky in plain torch, float32, a pivot at a time."""
    T = X / length_scale
    F = torch.empty(len(T), k, device="cuda")
    left = torch.ones(len(T), device="cuda")
    torch.cuda.synchronize()
    t = time.perf_counter()
    for j in range(k):
        i = int(torch.searchsorted(left.cumsum(0), left.sum() * torch.rand(1, device="cuda")).clamp_max(len(T) - 1))
        column = torch.exp(-0.5 * (T - T[i]).square().sum(1)) - F[:, :j] @ F[i, :j]
        F[:, j] = column / column[i].clamp_min(1e-12).sqrt()
        left = (left - F[:, j].square()).clamp_min_(0.0)
    torch.cuda.synchronize()
    return time.perf_counter() - t


def bench_landmarks() -> None:
    n, k = 1_000_000 // (8 if QUICK else 1), 5000 // (8 if QUICK else 1)
    X = torch.from_numpy(higgs_like(n)[0]).cuda()
    gram = Gram(X[:20_000].cpu().numpy(), RBF(5.0), X[:20_000])
    RPCholesky().factor(gram, 500, Key(0))  # compile
    gram = Gram(X.cpu().numpy(), RBF(5.0), X)
    fewer = 2 * k // 5
    plain = plain_pivots(X, fewer, 5.0)
    torch.cuda.empty_cache()
    for method in ("pooled", "accelerated"):
        t = time.perf_counter()
        factor = RPCholesky(method).factor(gram, k, Key(0))
        t = time.perf_counter() - t
        left = factor.residual.sum() / factor.trace
        del factor
        torch.cuda.empty_cache()
        say(
            f"RPCholesky {n:,} × 28, {k:,} landmarks, {method}",
            f"{t:.1f} s, trace error {left:.3f}",
            f"plain torch, float32, one at a time: {plain:.1f} s for {fewer:,}",
            verdict(t, 5.0),
        )
    few = Gram(gram.X[:20_000], RBF(5.0), X[:20_000])
    host = RPCholesky().factor(replace(few, there=None), 400, Key(0)).pivots
    same = np.array_equal(host, RPCholesky().factor(few, 400, Key(0)).pivots)
    say(
        "RPCholesky, pivots those of the host",
        "the same" if same else "others",
        "20,000 rows, 400 landmarks",
        f"the same: {holds(same)}",
    )


def mnist() -> tuple[Any, Any, int, str]:
    """Pixels in [0, 1], digits, how many of the rows are for training, and what it is."""
    try:
        data = bochner.datasets.load("mnist")
        return data.X / np.float32(255.0), data.y, data.n_train, "MNIST"
    except Exception:  # not on this machine
        rng = np.random.default_rng(0)
        y = rng.integers(0, 10, 70_000)
        noise = rng.random((70_000, 784), dtype=np.float32)
        return 0.5 * noise + 0.5 * rng.random((10, 784), dtype=np.float32)[y], y, 60_000, "noise of MNIST's shape"


def plain_logistic(X: Any, y: Any, n: int, m: int, alpha: float, length_scale: float) -> tuple[float, float]:
    """Seconds and test error of logistic regression on random Fourier features by torch's L-BFGS, in float32."""
    t = time.perf_counter()
    T = torch.from_numpy(X).cuda() @ (torch.randn(X.shape[1], m // 2, device="cuda") / length_scale)
    Z, labels = torch.hstack([T.cos(), T.sin()]) * (2 / m) ** 0.5, torch.from_numpy(np.asarray(y, np.int64)).cuda()
    P = torch.zeros(m, 10, device="cuda", requires_grad=True)
    b = torch.zeros(10, device="cuda", requires_grad=True)
    rule = torch.optim.LBFGS([P, b], max_iter=200, history_size=30, line_search_fn="strong_wolfe")

    def loss() -> Any:
        rule.zero_grad()
        value = torch.nn.functional.cross_entropy(Z[:n] @ P + b, labels[:n], reduction="sum")
        value = value + 0.5 * alpha * P.square().sum()
        value.backward()
        return value

    rule.step(loss)
    torch.cuda.synchronize()
    t = time.perf_counter() - t
    return t, float(((Z[n:] @ P + b).argmax(1) != labels[n:]).float().mean())


def bench_classes() -> None:
    X, y, n, name = mnist()
    options: dict[str, Any] = {"random_state": 0, "device": "cuda"}
    for loss in ("squared", "log_loss"):  # compile
        KernelClassifier(RBF(5.0), 2048, loss=loss, alpha=0.1, **options).fit(X[:5000], y[:5000])
    t, error = plain_logistic(X, y, n, 2048, 0.1, 5.0)
    say(
        f"{name}, 2,048 features, log_loss in plain torch, 200 steps of L-BFGS",
        f"{t:.1f} s",
        f"test error {100 * error:.2f} %",
    )
    cases: list[tuple[str, Any, Any, int, Any]] = [
        (f"{name} {n:,} × {X.shape[1]}, 10 classes", X, y, n, KernelClassifier(RBF(5.0), m, **rule, **options))
        for m, rule in (
            (16_384, {"loss": "squared", "alpha": 0.1}),
            (16_384, {"loss": "squared", "alpha": 0.1, "features": "nystrom"}),
            (2048, {"loss": "log_loss", "alpha": 0.1, "solver_tol": 1e-2}),
            (2048, {"loss": "squared_hinge", "alpha": 0.1, "solver_tol": 1e-2}),
        )
    ]
    n = 1_000_000 // (8 if QUICK else 1)
    P, t = higgs_like(n + 100_000)
    cases += [
        (f"{n:,} × 28, 2 classes", P, (t > 0.0).astype(int), n, KernelClassifier(RBF(5.0), m, **rule, **options))
        for m, rule in (
            (16_384, {"loss": "squared", "alpha": 1.0}),
            (4096, {"loss": "log_loss", "alpha": 1.0, "solver_tol": 1e-3}),
        )
    ]
    for what, rows, labels, n, model in cases:
        t0 = time.perf_counter()
        model.fit(rows[:n], labels[:n])
        t1 = time.perf_counter()
        error = float(np.mean(model.predict(rows[n:]) != labels[n:]))
        t2 = time.perf_counter()
        say(
            f"KernelClassifier {what}, {model.n_components_:,} {model.features} features, {model.loss}",
            f"fit {t1 - t0:.1f} s, predict {t2 - t1:.2f} s",
            f"test error {100 * error:.2f} %",
            "end to end",
        )


def bench_stream() -> None:
    """A pass over a file that is mapped into memory, against the rates of copies."""
    n, d = 2_000_000 // (8 if QUICK else 1), 90
    with tempfile.TemporaryDirectory() as folder:
        X = np.memmap(Path(folder) / "X", np.float32, "w+", shape=(n, d))
        rng = np.random.default_rng(0)
        for start in range(0, n, 100_000):
            X[start : start + 100_000] = rng.standard_normal((min(100_000, n - start), d), dtype=np.float32)
        y = np.sin(X[:, 0]) + 0.5 * rng.standard_normal(n)
        pinned, there = torch.empty(65_536 * d, pin_memory=True), torch.empty(65_536 * d, device="cuda")
        copy = 4 * there.numel() / seconds(lambda: there.copy_(pinned, non_blocking=True))
        out = pinned.numpy().reshape(-1, d)
        t = time.perf_counter()
        for start in range(0, n - 65_536, 65_536):
            np.copyto(out, X[start : start + 65_536])
        read = 4 * (n // 65_536) * 65_536 * d / (time.perf_counter() - t)
        for m in (256, 2048):
            KernelRidge(RBF(9.0), m, alpha=1.0, random_state=0, device="cuda").fit(X[:200_000], y[:200_000])  # compile
            t = time.perf_counter()
            KernelRidge(RBF(9.0), m, alpha=1.0, random_state=0, device="cuda").fit(X, y)
            t = time.perf_counter() - t
            say(
                f"KernelRidge.fit of a mapped file, {n:,} × {d}, {m:,} features",
                f"{t:.2f} s, {4 * n * d / t / 1e9:.1f} GB/s",
                f"pinned copy to the card {copy / 1e9:.0f} GB/s; one thread reads the file at {read / 1e9:.1f} GB/s",
                "the checks of X read it once more",
            )
        del X


def bench_tables() -> None:
    """A model of a table whose exact leaves are fitted on the device."""
    data = bochner.datasets.load("ijcnn1")
    order = np.random.default_rng(0).permutation(len(data.X))
    X, y, n = data.X[order].astype(float), data.y[order], int(0.8 * len(data.X))
    TabularClassifier(random_state=0, device="cuda").fit(X[:3000], y[:3000])  # compile
    t0 = time.perf_counter()
    model = TabularClassifier(random_state=0, device="cuda").fit(X[:n], y[:n])
    t1 = time.perf_counter()
    error = float(np.mean(model.predict(X[n:]) != y[n:]))
    t2 = time.perf_counter()
    beside = "lightgbm is not installed"
    if importlib.util.find_spec("lightgbm") is not None:
        import lightgbm

        peer = lightgbm.LGBMClassifier(n_estimators=1000, num_leaves=127, verbose=-1)
        t = time.perf_counter()
        peer.fit(X[:n], y[:n])
        t = time.perf_counter() - t
        beside = f"lightgbm, 1,000 trees: {t:.1f} s, test error {100 * np.mean(peer.predict(X[n:]) != y[n:]):.2f} %"
    say(
        f"TabularClassifier.fit ijcnn1, {n:,} × {X.shape[1]}",
        f"fit {t1 - t0:.1f} s, predict {t2 - t1:.1f} s, test error {100 * error:.2f} %",
        beside,
        "end to end",
    )


PARTS: dict[str, Any] = {
    "pairs": bench_pairs,
    "dense": bench_dense,
    "fwht": lambda limits: bench_fwht(),
    "tiles": bench_tiles,
    "sketches": bench_sketches,
    "exact": lambda limits: bench_exact(),
    "ridge": bench_ridge,
    "process": lambda limits: bench_process(),
    "falkon": lambda limits: bench_falkon(),
    "landmarks": lambda limits: bench_landmarks(),
    "classes": lambda limits: bench_classes(),
    "stream": lambda limits: bench_stream(),
    "tables": lambda limits: bench_tables(),
}


def write() -> None:
    """The table so far, under benchmarks/results."""
    today = datetime.now(UTC).date().isoformat()
    lines = [
        f"# GPU backend, {today}",
        "",
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}; "
        f"`python benchmarks/bench_gpu.py {' '.join(sys.argv[1:])}`.",
        "",
        "| what | measured | beside it | wanted |",
        "|---|---|---|---|",
        *("| " + " | ".join(row) + " |" for row in TABLE),
        "",
    ]
    path = Path(__file__).parent / "results" / f"gpu-{today}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines))


def main() -> None:
    parts = [a for a in sys.argv[1:] if not a.startswith("-")] or list(PARTS)
    if not torch.cuda.is_available():
        print("bench_gpu.py needs a CUDA device; nothing was measured.")
        return
    limits = ceilings()
    for part in parts:
        t = time.perf_counter()
        try:
            PARTS[part](limits)
        except Exception:
            traceback.print_exc()
            say(part, "failed")
        torch.cuda.empty_cache()
        print(f"[{part}: {time.perf_counter() - t:.0f} s]", flush=True)
        if "--write" in sys.argv:
            write()


if __name__ == "__main__":
    main()
