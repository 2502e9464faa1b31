"""Gaussian process posteriors from few and many Fourier features beside the exact one."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.estimators import GaussianProcessRegressor, exact_gaussian_process
from bochner.kernels import RBF
from bochner_reproductions.findings import Claim, Findings, mean

SIZES = (3, 4, 5, 10, 20, 200)
NOISE, SCALE = 0.05, 0.7


def gp_posterior(quick: bool) -> Findings:
    """Errors of mean and standard deviation, near the data and away from it, over draws of the frequencies."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(0, 2, 20), rng.uniform(3.5, 5, 15)])[:, None]
    y = np.sin(2.5 * X[:, 0]) + np.sqrt(NOISE) * rng.normal(size=len(X))
    grid = np.linspace(-3, 8, 400)[:, None]
    x = grid[:, 0]
    near = (x >= 0) & (x <= 5)
    centre, covariance, _ = exact_gaussian_process(RBF(SCALE), X, y, grid, NOISE)
    exact = centre, np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    fixed: dict[str, Any] = {"noise_variance": NOISE, "amplitude": 1.0, "fit_intercept": False}

    def posterior(m: int, seed: int) -> Any:
        model = GaussianProcessRegressor(RBF(SCALE), m, features="fourier", random_state=seed, **fixed)
        return model.fit(X, y).predict(grid, return_std=True)

    def rms(values: Any) -> float:
        return float(np.sqrt(np.mean(values**2)))

    rows: list[dict[str, Any]] = []
    for m in SIZES:
        for seed in range(2 if quick else 20):
            mean_m, std_m = posterior(m, seed)
            rows.append(
                {
                    "components": m,
                    "run": seed,
                    "mean error near the data": rms((mean_m - exact[0])[near]),
                    "std error near the data": rms((std_m - exact[1])[near]),
                    "std error away from it": rms((std_m - exact[1])[~near]),
                }
            )
    names = list(rows[0])[2:]
    summary = [{"components": m, **{k: mean(rows, k, components=m) for k in names}} for m in SIZES]
    shown = {m: posterior(m, 0) for m in SIZES}
    path = GaussianProcessRegressor(RBF(SCALE), len(X), random_state=0, **fixed).fit(X, y)
    draws = path.sample_functions(5, random_state=0)(grid)

    def draw(figure: Any) -> None:
        axes = figure.subplots(2, 4, sharex=True, sharey=True)
        panels = [(f"{m} components", *values) for m, values in shown.items()] + [("exact", *exact)]
        for axis, (title, centre, spread) in zip(axes.flat, panels, strict=False):
            axis.fill_between(x, centre - 2 * spread, centre + 2 * spread, alpha=0.25, linewidth=0)
            axis.plot(x, centre)
            axis.set_title(title)
        axes.flat[7].plot(x, draws, linewidth=0.8)
        axes.flat[7].set_title("five draws, landmarks")
        for axis in axes.flat:
            for sign in (-2, 0, 2):
                axis.plot(x, exact[0] + sign * exact[1], "--", color="#22303c", linewidth=0.5)
            axis.plot(X[:, 0], y, ".", color="#22303c", markersize=3)
            axis.set_ylim(-4, 4)

    last = summary[-1]
    return Findings(
        title="A Gaussian process from 3 to 200 Fourier features",
        source="a lecture on random kitchen sinks; frames with 3, 4, 5, 10, 20 and 200 features",
        question="35 noisy points of a sine with a gap; the weight-space posterior (mean, two standard deviations) "
        "from m Fourier features against the exact process (dashed).",
        rows=rows,
        claims=[
            Claim(
                "200 components look like the exact posterior",
                "by eye",
                f"mean within {last[names[0]]:.3f}, std within {last[names[1]]:.3f} near the data",
                bool(last[names[0]] < 0.1 and last[names[1]] < 0.05),
            ),
            Claim(
                "with few components the error bars are too small away from the data",
                "—",
                f"std error away: {summary[0][names[2]]:.2f} with 3 components, {last[names[2]]:.2f} with 200",
                bool(summary[0][names[2]] > 2 * last[names[2]]),
            ),
        ],
        draw=draw,
        summary=summary,
        size=(12.0, 5.2),
        notes="Fourier features are periodic, so the variance they predict is too small far from the data; draws by "
        "pathwise conditioning on landmarks (last panel) do not have that fault. The published code lacked the factor "
        "1/√T, which silently changes the noise with T, and used complex ridge, another estimator; here both are "
        "corrected.",
    )
