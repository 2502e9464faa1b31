"""Random and quasi-random points in the square, their discrepancy, and the kernel error they lead to."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import qmc

from bochner.estimators import FourierFeatures
from bochner.kernels import RBF
from bochner_reproductions.findings import Claim, Findings, slope, values

SEQUENCES = {"random": "iid", "Sobol'": "quasi", "Halton": "halton", "lattice": "lattice"}


def _points(name: str, n: int, seed: int) -> Any:
    if name == "random":
        return np.random.default_rng(seed).random((n, 2))
    if name == "Sobol'":
        return qmc.Sobol(2, rng=seed).random(n)
    if name == "Halton":
        return qmc.Halton(2, rng=seed).random(n)
    golden = (1 + 5**0.5) / 2  # a rank-one lattice whose ratio is the worst to approximate
    shift = np.random.default_rng(seed).random(2)
    return (np.column_stack([np.arange(n) / n, np.arange(n) * golden]) + shift) % 1.0


def qmc_points(quick: bool) -> Findings:
    """Centred discrepancy against points; kernel error against frequencies for few and many features."""
    sizes = (64, 256) if quick else (64, 256, 1024, 4096)
    runs = 2 if quick else 20
    rows: list[dict[str, Any]] = []
    for name in SEQUENCES:
        for n in sizes:
            found = [qmc.discrepancy(_points(name, n, s), method="CD") ** 0.5 for s in range(min(runs, 5))]
            rows.append({"figure": "discrepancy", "points": name, "d": 2, "n": n, "value": float(np.mean(found))})
    dimensions = (2, 8, 64)
    for d in dimensions:
        X = np.random.default_rng(d).normal(size=(150, d))
        kernel = RBF("median").resolve(X)
        K = kernel(X)
        for name, law in SEQUENCES.items():
            for n in sizes:
                errors = []
                for seed in range(runs):
                    Z = FourierFeatures(kernel, 2 * n, rows=law, random_state=seed).fit_transform(X)
                    errors.append(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))
                rows.append({"figure": "kernel error", "points": name, "d": d, "n": n, "value": float(np.mean(errors))})

    def series(figure: str, name: str, d: int) -> list[float]:
        return values(rows, "value", figure=figure, points=name, d=d).tolist()

    def draw(figure: Any) -> None:
        top, bottom = figure.subfigures(2, 1)
        for axis, name in zip(top.subplots(1, len(SEQUENCES)), SEQUENCES, strict=True):
            axis.scatter(*_points(name, 256, 0).T, s=4)
            axis.set(title=name, aspect="equal", xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])
            axis.grid(False)
        axes = bottom.subplots(1, 1 + len(dimensions))
        for name in SEQUENCES:
            axes[0].loglog(sizes, series("discrepancy", name, 2), "o-", label=name, markersize=3)
            for axis, d in zip(axes[1:], dimensions, strict=True):
                axis.loglog(sizes, series("kernel error", name, d), "o-", markersize=3)
                axis.set(title=f"kernel error, d = {d}", xlabel="frequencies")
        axes[0].set(title="discrepancy, d = 2", xlabel="points")
        axes[0].legend()

    ratio = {d: series("kernel error", "Sobol'", d)[-1] / series("kernel error", "random", d)[-1] for d in dimensions}
    first = {d: series("kernel error", "Sobol'", d)[0] / series("kernel error", "random", d)[0] for d in dimensions}
    sobol, random = (slope(sizes, series("discrepancy", name, 2)) for name in ("Sobol'", "random"))
    return Findings(
        title="Random and quasi-random points",
        source="Yang, Sindhwani, Avron & Mahoney 2014 (quasi-Monte Carlo features); figure 2 of a survey",
        question="Points in the unit square from four sampling schemes, their centred discrepancy, and the error of "
        "the Gaussian kernel (median length scale) when the same points become frequencies through the normal "
        "quantile.",
        rows=rows,
        claims=[
            Claim("random points: discrepancy as n^(-1/2)", "-0.5", f"{random:.2f}", bool(abs(random + 0.5) < 0.1)),
            Claim("Sobol' points: nearly n^(-1)", "-1", f"{sobol:.2f}", bool(sobol < -0.85)),
            Claim(
                "quasi-random features beat random ones",
                "almost always",
                f"error ratio at {sizes[-1]} frequencies: " + ", ".join(f"{v:.2f} (d = {d})" for d, v in ratio.items()),
                bool(max(first.values()) < 1 and max(ratio.values()) < 1),
                f"in few dimensions they do; at d = 64 and {sizes[0]} frequencies the ratio is {first[64]:.2f}: "
                "points that are even in 64 dimensions need far more points than are drawn.",
            ),
        ],
        draw=draw,
        summary=[
            {"d": d, "frequencies": n, **{name: series("kernel error", name, d)[i] for name in SEQUENCES}}
            for d in dimensions
            for i, n in enumerate(sizes)
        ],
        size=(11.0, 5.6),
    )
