"""K and ZZᵀ side by side as frequencies are added, and the rate at which the difference goes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from bochner.estimators import FourierFeatures
from bochner.kernels import RBF
from bochner_reproductions.findings import Claim, Findings, mean, slope

FRAMES = (1, 4, 16, 64, 256, 1024)
LAWS = ("iid", "orthogonal")


def gram_convergence(quick: bool) -> Findings:
    """Relative Frobenius errors over draws, and the slopes of their logarithms."""
    n, runs = (60, 3) if quick else (400, 20)
    X, y = load_digits(return_X_y=True)
    order = np.argsort(y[:n], kind="stable")
    X = X[:n][order]
    kernel = RBF(20.0)
    K = kernel(X)

    def features(T: int, law: str, seed: int) -> Any:
        return FourierFeatures(kernel, 2 * T, rows=law, random_state=seed).fit_transform(X)

    def error(T: int, law: str, seed: int) -> float:
        Z = features(T, law, seed)
        return float(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))

    rows = [
        {"rows": law, "frequencies": T, "run": run, "relative Frobenius error": error(T, law, run)}
        for law in LAWS
        for T in FRAMES
        for run in range(runs)
    ]
    column = "relative Frobenius error"
    means = {law: np.array([mean(rows, column, rows=law, frequencies=T) for T in FRAMES]) for law in LAWS}
    rate = slope(FRAMES, means["iid"])
    frames = {T: features(T, "iid", 0) for T in FRAMES}

    def draw(figure: Any) -> None:
        top, bottom = figure.subfigures(2, 1, height_ratios=(1.0, 1.4))
        axes = top.subplots(1, len(FRAMES) + 1)
        for axis, (T, Z) in zip(axes, frames.items(), strict=False):
            axis.imshow(Z @ Z.T, vmin=0, vmax=1, cmap="Blues")
            axis.set_title(f"{T}")
        axes[-1].imshow(K, vmin=0, vmax=1, cmap="Blues")
        axes[-1].set_title("exact")
        for axis in axes:
            axis.set_axis_off()
        axis = bottom.subplots()
        for law, values in means.items():
            axis.loglog(FRAMES, values, "o-", label=law)
        axis.loglog(FRAMES, means["iid"][0] / np.sqrt(FRAMES), "--", color="#8a98a5", label="1/√T")
        axis.set(xlabel="frequencies T", ylabel="relative Frobenius error")
        axis.legend()

    return Findings(
        title="The kernel matrix appears as Fourier features are added",
        source="Rahimi & Recht 2007 (random Fourier features); the frames of a lecture on them",
        question=f"The Gaussian kernel of {n} handwritten digits, sorted by digit, and its approximation from T random "
        f"frequencies (cosine and sine pairs); the error over {runs} draws.",
        rows=rows,
        claims=[
            Claim("the error goes as T^(-1/2)", "slope -0.5", f"slope {rate:.2f}", bool(abs(rate + 0.5) < 0.05)),
        ],
        draw=draw,
        summary=[{"frequencies": T, **{law: float(means[law][i]) for law in LAWS}} for i, T in enumerate(FRAMES)],
        size=(10.0, 5.2),
        notes="Orthogonal rows (with lengths spread evenly) are not in the source: they are what bochner draws by "
        "default, and are shown beside it.",
    )
