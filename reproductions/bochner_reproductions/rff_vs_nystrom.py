"""Fourier features against landmarks where the spectrum has a gap and where it decays slowly (Yang et al. 2012)."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.estimators import FourierFeatures, KernelRidge, NystromFeatures, exact_kernel_ridge
from bochner.kernels import RBF
from bochner_reproductions.findings import Claim, Findings, mean, slope

COLUMNS = (8, 16, 32, 64, 128, 256)
NOISE = 0.1


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
    rows: list[dict[str, Any]] = []
    spectra: dict[str, Any] = {}
    for spectrum, law in {"eigengap": _gap, "slow decay": _slow}.items():
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            X = law(2 * n, rng)
            centres = X[rng.choice(len(X), 40, replace=False)]
            f = kernel(X, centres) @ rng.normal(size=40)
            y = f[:n] + NOISE * rng.normal(size=n)
            exact = exact_kernel_ridge(kernel, X[:n], y, X[n:], alpha)
            if seed == 0:
                spectra[spectrum] = np.linalg.eigvalsh(kernel(X[: min(n, 1000)]))[::-1] / min(n, 1000)
            for features in ("fourier", "nystrom"):
                for m in columns:
                    model = KernelRidge(kernel, m, features=_transformer(features, kernel, m, seed), alpha=alpha)
                    gap = model.fit(X[:n], y).predict(X[n:]) - exact
                    rows.append(
                        {
                            "spectrum": spectrum,
                            "features": features,
                            "components": m,
                            "run": seed,
                            "distance to exact ridge": float(np.sqrt(np.mean(gap**2)) / np.std(f)),
                        }
                    )

    def curve(spectrum: str, features: str) -> list[float]:
        where = {"spectrum": spectrum, "features": features}
        return [mean(rows, "distance to exact ridge", components=m, **where) for m in columns]

    def draw(figure: Any) -> None:
        first, *others = figure.subplots(1, 3)
        for spectrum, values in spectra.items():
            first.loglog(np.arange(1, len(values) + 1), np.maximum(values, 1e-9), label=spectrum)
        first.set(title="eigenvalues of K/n", xlabel="index", ylim=(1e-7, 2))
        first.legend()
        for axis, spectrum in zip(others, spectra, strict=True):
            for features in ("fourier", "nystrom"):
                axis.loglog(columns, curve(spectrum, features), "o-", label=features)
            axis.set(title=spectrum, xlabel="components", ylabel="distance to exact kernel ridge")
            axis.legend()

    rates = {features: slope(columns, curve("eigengap", features)) for features in ("fourier", "nystrom")}
    gains = {s: curve(s, "fourier")[-1] / curve(s, "nystrom")[-1] for s in spectra}
    return Findings(
        title="Fourier features against landmarks, with and without an eigengap",
        source="Yang, Li, Mahdavi, Jin & Zhou 2012 (Nyström against random Fourier features)",
        question=f"Kernel ridge on {n} rows with a target in the kernel's space: distance of the predictions on new "
        f"rows to "
        f"those of exact kernel ridge, in units of the target's spread, mean of {runs} draws. Independent "
        "frequencies and uniform landmarks, as published.",
        rows=rows,
        claims=[
            Claim(
                "with an eigengap Nyström wins by far",
                "O(1/m) against O(1/√m)",
                f"{gains['eigengap']:.0f} times closer at {columns[-1]} components; slopes "
                f"{rates['nystrom']:.2f} against {rates['fourier']:.2f}",
                bool(gains["eigengap"] > 2 and rates["nystrom"] < rates["fourier"]),
            ),
            Claim(
                "without one the difference is small",
                "—",
                f"{gains['slow decay']:.1f} times closer at {columns[-1]} components",
                bool(gains["slow decay"] < gains["eigengap"] / 2),
            ),
        ],
        draw=draw,
        summary=[
            {"components": m, **{f"{f}, {s}": curve(s, f)[i] for s in spectra for f in ("fourier", "nystrom")}}
            for i, m in enumerate(columns)
        ],
        size=(11.0, 3.4),
    )


def _transformer(features: str, kernel: Any, m: int, seed: int) -> Any:
    if features == "nystrom":
        return NystromFeatures(kernel, m, landmarks="uniform", random_state=seed)
    return FourierFeatures(kernel, m, rows="iid", random_state=seed)
