"""K and ZZᵀ side by side as frequencies are added, and the rate at which the difference goes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from bochner.estimators.fourier import FourierFeatures
from bochner.kernels.stationary import RBF
from bochner_reproductions.findings import Claim, Findings, Row, linear_in, mean, plus_minus, slope, values, within

FRAMES = (1, 4, 16, 64, 256, 1024)
LAWS = ("iid", "orthogonal")
ERROR = "relative Frobenius error"


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

    # of one frequency: the variance of cos w(x - y) is (1 + k(2x, 2y)) / 2 - k²
    norm = float(np.linalg.norm(K))
    one = float(np.sqrt(np.sum((1.0 + kernel(2.0 * X)) / 2.0 - K**2))) / norm
    constant = float(np.linalg.norm(K - K.mean())) / norm
    linear = float(np.linalg.norm(K - linear_in(X @ X.T, K))) / norm
    rows: list[Row] = [
        {"rows": law, "frequencies": T, "run": run, ERROR: error(T, law, run), "from the variance": one * T**-0.5}
        for law in LAWS
        for T in FRAMES
        for run in range(runs)
    ]
    means = {law: np.array([mean(rows, ERROR, rows=law, frequencies=T) for T in FRAMES]) for law in LAWS}
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
        for law, found in means.items():
            axis.loglog(FRAMES, found, "o-", label=law)
        axis.loglog(FRAMES, means["iid"][0] / np.sqrt(FRAMES), "--", color="#8a98a5", label="1/√T")
        axis.set(xlabel="frequencies T", ylabel="relative Frobenius error")
        axis.legend()

    return Findings(
        title="The kernel matrix appears as Fourier features are added",
        source="Rahimi & Recht 2007 (random Fourier features); the frames of a lecture on them",
        question=f"The Gaussian kernel of {n} handwritten digits, sorted by digit, and its approximation from T random "
        f"frequencies (cosine and sine pairs); the error over {runs} draws.",
        rows=rows,
        claims=claims(rows),
        draw=draw,
        summary=[
            {"frequencies": T, **{law: float(means[law][i]) for law in LAWS}}
            | {"from the variance": one * T**-0.5, "constant matrix": constant, "linear kernel": linear}
            for i, T in enumerate(FRAMES)
        ],
        size=(10.0, 5.2),
        notes="Orthogonal rows (with lengths spread evenly) are not in the source: they are what bochner draws by "
        "default, and are shown beside it.",
    )


def claims(rows: list[Row]) -> list[Claim]:
    """The exponent is -1/2 within 0.05, and the squared error that of the variance within a tenth, either way."""
    sizes = sorted({row["frequencies"] for row in rows})
    runs = sorted({row["run"] for row in rows})
    rates = [slope(sizes, [mean(rows, ERROR, rows="iid", frequencies=T, run=r) for T in sizes]) for r in runs]
    shares = [
        values(rows, ERROR, rows="iid", run=r) / values(rows, "from the variance", rows="iid", run=r) for r in runs
    ]
    squares = np.array([np.mean(share**2) for share in shares])
    return [
        Claim("the error goes as T^(-1/2)", "slope -0.5", f"slope {plus_minus(rates)}", within(rates, -0.55, -0.45)),
        Claim(
            "the squared error is the variance of cosine and sine pairs, (1 + k(2x, 2y)) / 2 - k² for each frequency",
            "1 times",
            f"{plus_minus(squares)} times",
            within(squares, 0.9, 1.1),
        ),
    ]
