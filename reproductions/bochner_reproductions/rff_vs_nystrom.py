"""Fourier features against landmarks where the spectrum has a gap and where it decays slowly (Yang et al. 2012)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import Ridge

from bochner.estimators.exact import exact_kernel_ridge
from bochner.estimators.fourier import FourierFeatures
from bochner.estimators.nystrom import NystromFeatures
from bochner.estimators.ridge import KernelRidge
from bochner.kernels.stationary import RBF
from bochner_reproductions.findings import Claim, Findings, Row, both, mean, plus_minus, slope, values, within

COLUMNS = (8, 16, 32, 64, 128, 256)
NOISE = 0.1
SPECTRA = ("eigengap", "slow decay")
DISTANCE = "distance to exact ridge"


def _gap(n: int, rng: Any) -> Any:
    """Twelve tight clusters: twelve large eigenvalues and then nothing."""
    return rng.normal(size=(12, 5))[rng.integers(0, 12, n)] * 2.0 + 0.05 * rng.normal(size=(n, 5))


def _slow(n: int, rng: Any) -> Any:
    """Even points in five dimensions and a short length scale: eigenvalues that go down slowly."""
    return rng.uniform(-2, 2, size=(n, 5))


def rff_vs_nystrom(quick: bool) -> Findings:
    """Excess error over exact kernel ridge against the number of components, for both spectra and both maps."""
    n, runs, columns = (300, 2, COLUMNS[:3]) if quick else (2000, 10, COLUMNS)
    kernel, alpha = RBF(1.0), n * 1e-3
    rows: list[Row] = []
    spectra: dict[str, Any] = {}
    for spectrum, law in zip(SPECTRA, (_gap, _slow), strict=True):
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            X = law(2 * n, rng)
            centres = X[rng.choice(len(X), 40, replace=False)]
            f = kernel(X, centres) @ rng.normal(size=40)
            y = f[:n] + NOISE * rng.normal(size=n)
            exact = exact_kernel_ridge(kernel, X[:n], y, X[n:], alpha)
            if seed == 0:
                spectra[spectrum] = np.linalg.eigvalsh(kernel(X[: min(n, 1000)]))[::-1] / min(n, 1000)
            for features in ("constant", "linear", "fourier", "nystrom"):
                for m in columns if features in ("fourier", "nystrom") else (0,):
                    found = _predictions(features, kernel, m, seed, alpha, X[:n], y, X[n:])
                    distance = float(np.sqrt(np.mean((found - exact) ** 2)) / np.std(f))
                    rows.append({"spectrum": spectrum, "features": features, "components": m, "run": seed})
                    rows[-1][DISTANCE] = distance

    def curve(spectrum: str, features: str) -> list[float]:
        where = {"spectrum": spectrum, "features": features}
        return [mean(rows, DISTANCE, components=m, **where) for m in columns]

    def draw(figure: Any) -> None:
        first, *others = figure.subplots(1, 3)
        for spectrum, eigenvalues in spectra.items():
            first.loglog(np.arange(1, len(eigenvalues) + 1), np.maximum(eigenvalues, 1e-9), label=spectrum)
        first.set(title="eigenvalues of K/n", xlabel="index", ylim=(1e-7, 2))
        first.legend()
        for axis, spectrum in zip(others, spectra, strict=True):
            for features in ("fourier", "nystrom"):
                axis.loglog(columns, curve(spectrum, features), "o-", label=features)
            axis.set(title=spectrum, xlabel="components", ylabel="distance to exact kernel ridge")
            axis.legend()

    return Findings(
        title="Fourier features against landmarks, with and without an eigengap",
        source="Yang, Li, Mahdavi, Jin & Zhou 2012 (Nyström against random Fourier features)",
        question=f"Kernel ridge on {n} rows with a target in the kernel's space: distance of the predictions on new "
        f"rows to those of exact kernel ridge, in units of the target's spread, mean of {runs} draws. Independent "
        "frequencies and uniform landmarks, as published.",
        rows=rows,
        claims=claims(rows),
        draw=draw,
        summary=[
            {"components": m, **{f"{f}, {s}": curve(s, f)[i] for s in spectra for f in ("fourier", "nystrom")}}
            | {
                f"{f}, {s}": mean(rows, DISTANCE, spectrum=s, features=f)
                for s in spectra
                for f in ("constant", "linear")
            }
            for i, m in enumerate(columns)
        ],
        size=(11.0, 3.4),
    )


def _predictions(features: str, kernel: Any, m: int, seed: int, alpha: float, X: Any, y: Any, X_new: Any) -> Any:
    if features == "constant":
        return np.full(len(X_new), y.mean())
    if features == "linear":
        return Ridge(alpha).fit(X, y).predict(X_new)
    transformer = (
        NystromFeatures(kernel, m, landmarks="uniform", random_state=seed)
        if features == "nystrom"
        else FourierFeatures(kernel, m, rows="iid", random_state=seed)
    )
    return KernelRidge(kernel, m, features=transformer, alpha=alpha).fit(X, y).predict(X_new)


def claims(rows: list[Row]) -> list[Claim]:
    """Exponents, of each draw and the three largest numbers of components, are at most -1 and -1/2 within 1/4.

    "By far" is ten times as near or more with the largest number, "small" less than two times, either way. Where a
    constant or a line is nearer than Fourier features, neither is decided.
    """
    sizes = sorted({row["components"] for row in rows if row["components"]})[-3:]
    runs = sorted({row["run"] for row in rows})

    def distances(spectrum: str, features: str, run: int) -> Any:
        where = {"spectrum": spectrum, "features": features, "run": run}
        return [mean(rows, DISTANCE, components=m, **where) for m in sizes]

    def rates(features: str) -> list[float]:
        return [slope(sizes, distances("eigengap", features, run)) for run in runs]

    def gains(spectrum: str) -> Any:
        return np.log2([distances(spectrum, "fourier", r)[-1] / distances(spectrum, "nystrom", r)[-1] for r in runs])

    gap, slow = gains("eigengap"), gains("slow decay")
    lines = [min(mean(rows, DISTANCE, spectrum=s, features=f) for f in ("constant", "linear")) for s in SPECTRA]
    told = all(
        values(rows, DISTANCE, spectrum=s, features="fourier", components=sizes[-1]).mean() < line
        for s, line in zip(SPECTRA, lines, strict=True)
    )
    return [
        Claim(
            "with an eigengap the distance of landmarks goes as 1/m or faster",
            "O(1/m)",
            f"exponent {plus_minus(rates('nystrom'))}",
            within(rates("nystrom"), high=-1.0),
        ),
        Claim(
            "that of Fourier features as 1/√m",
            "O(1/√m)",
            f"exponent {plus_minus(rates('fourier'))}",
            within(rates("fourier"), -0.75, -0.25),
        ),
        Claim(
            "with an eigengap Nyström wins by far",
            "by far",
            f"{2 ** gap.mean():.0f} times nearer with {sizes[-1]} components",
            both(within(gap, low=np.log2(10.0)), told or None),
        ),
        Claim(
            "without one the difference is small",
            "small",
            f"{2 ** slow.mean():.1f} times nearer with {sizes[-1]} components",
            both(within(slow, -1.0, 1.0), told or None),
        ),
    ]
