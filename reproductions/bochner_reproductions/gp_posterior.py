"""Gaussian process posteriors from few and many Fourier features beside the exact one."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.estimators.exact import exact_gaussian_process
from bochner.estimators.gaussian_process import GaussianProcessRegressor
from bochner.kernels.stationary import RBF
from bochner_reproductions.findings import Claim, Findings, Row, both, mean, plus_minus, values, within

SIZES = (3, 4, 5, 10, 20, 200)
NOISE, SCALE = 0.05, 0.7
NEAR, NEAR_STD, AWAY_STD = "mean error near the data", "std error near the data", "std error away from it"
BIAS = "std too large away from it by"


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

    rows: list[Row] = []
    line = np.polyfit(X[:, 0], y, 1)
    guesses = {
        "constant": (np.full(len(x), y.mean()), np.full(len(x), y.std())),
        "linear": (np.polyval(line, x), np.full(len(x), np.std(y - np.polyval(line, X[:, 0])))),
    }

    def record(m: Any, seed: int, centre: Any, spread: Any) -> None:
        rows.append(
            {
                "components": m,
                "run": seed,
                NEAR: rms((centre - exact[0])[near]),
                NEAR_STD: rms((spread - exact[1])[near]),
                AWAY_STD: rms((spread - exact[1])[~near]),
                BIAS: float((spread - exact[1])[~near].mean()),
                "std of the exact posterior near the data": rms(exact[1][near]),
            }
        )

    for guess, posterior_of in guesses.items():
        record(guess, 0, *posterior_of)
    for m in SIZES:
        for seed in range(2 if quick else 20):
            record(m, seed, *posterior(m, seed))
    names = (NEAR, NEAR_STD, AWAY_STD, BIAS)
    summary = [{"components": m, **{k: mean(rows, k, components=m) for k in names}} for m in (*guesses, *SIZES)]
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

    return Findings(
        title="A Gaussian process from 3 to 200 Fourier features",
        source="a lecture on random kitchen sinks; frames with 3, 4, 5, 10, 20 and 200 features",
        question="35 noisy points of a sine with a gap; the weight-space posterior (mean, two standard deviations) "
        "from m Fourier features against the exact process (dashed).",
        rows=rows,
        claims=claims(rows),
        draw=draw,
        summary=summary,
        size=(12.0, 5.2),
        notes="Fourier features are periodic, so the variance they predict is too small far from the data; draws by "
        "pathwise conditioning on landmarks (last panel) do not have that fault. The published code lacked the factor "
        "1/√T, which silently changes the noise with T, and used complex ridge, another estimator; here both are "
        "corrected.",
    )


def claims(rows: list[Row]) -> list[Claim]:
    """200 components look exact if, near the data, their mean is within half of its standard deviation.

    Their standard deviation must be within a quarter of it, and the mean five times as near as that of the better of
    constant and line. Away from the data, error bars are too small by 0.1 or more with 3 components, and right within
    0.05 with 200; the prior's is 1.
    """
    most = max(row["components"] for row in rows if not isinstance(row["components"], str))
    few = min(row["components"] for row in rows if not isinstance(row["components"], str))
    spread = rows[0]["std of the exact posterior near the data"]
    found = {name: values(rows, name, components=most) for name in (NEAR, NEAR_STD, BIAS)}
    line = min(mean(rows, NEAR, components=guess) for guess in ("constant", "linear"))
    biases = values(rows, BIAS, components=few)
    return [
        Claim(
            f"{most} components look like the exact posterior",
            "by eye",
            f"near the data, in units of its standard deviation: mean off by {plus_minus(found[NEAR] / spread)}, "
            f"standard deviation by {plus_minus(found[NEAR_STD] / spread)}; a straight line's mean by "
            f"{line / spread:.1f}",
            both(
                within(found[NEAR], high=0.5 * spread),
                within(found[NEAR_STD], high=0.25 * spread),
                within(found[NEAR], high=0.2 * line),
            ),
        ),
        Claim(
            f"with {few} components the error bars are too small away from the data, with {most} they are not",
            "by eye",
            f"too large by {plus_minus(biases)} and by {plus_minus(found[BIAS])}; the prior's is 1",
            both(within(biases, high=-0.1), within(found[BIAS], -0.05, 0.05)),
        ),
    ]
