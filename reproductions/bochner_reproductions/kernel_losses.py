"""Regression and two classes of one variable: a linear and a Gaussian kernel, with three losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from bochner.estimators.classifier import KernelClassifier
from bochner.estimators.exact import exact_kernel_classifier, exact_kernel_ridge
from bochner.estimators.ridge import KernelRidge
from bochner.kernels.stationary import RBF
from bochner_reproductions.findings import Claim, Findings, Row, both, mean, plus_minus, values, within

LOSSES = ("squared", "log_loss", "squared_hinge")
TASKS = ("regression", *LOSSES)
COMPONENTS, ALPHA = 60, 0.1
LINEAR, KERNEL, CONSTANT = "linear", "Gaussian kernel", "constant"


def _problem(n: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Points, noisy values of a wave, labels (inside of an interval or not, one in ten wrong), and the wave itself."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, n)
    wave = np.sin(2.0 * x)
    inside = (np.abs(x) < 1.2) ^ (rng.uniform(size=n) < 0.1)
    return x[:, None], wave + 0.3 * rng.normal(size=n), inside, wave


def kernel_losses(quick: bool) -> Findings:
    """Errors of both kernels for every loss, and how far features are from the exact solution in the kernel's space."""
    n, runs = (100, 3) if quick else (200, 10)
    kernel = RBF(0.7)
    rows: list[Row] = []
    shown: dict[str, Any] = {}
    grid = np.linspace(-3, 3, 200)[:, None]
    truth, inside = np.sin(2.0 * grid[:, 0]), np.abs(grid[:, 0]) < 1.2
    for seed in range(runs):
        X, y, labels, _ = _problem(n, seed)
        fixed: dict[str, Any] = {"features": "nystrom", "alpha": ALPHA, "random_state": seed}
        exact = exact_kernel_ridge(kernel, X, y, grid, ALPHA)
        found = KernelRidge(kernel, COMPONENTS, **fixed).fit(X, y).predict(grid)
        errors = {
            LINEAR: float(np.mean((Ridge(ALPHA).fit(X, y).predict(grid) - truth) ** 2)),
            KERNEL: float(np.mean((found - truth) ** 2)),
            CONSTANT: float(np.mean((y.mean() - truth) ** 2)),
        }
        distance = float(np.abs(found - exact).max() / np.ptp(exact))
        rows.append({"task": "regression", "run": seed, "distance to exact": distance} | errors)
        line = LogisticRegression().fit(X, labels).predict(grid)
        for loss in LOSSES:
            model = KernelClassifier(kernel, COMPONENTS, loss=loss, solver_tol=1e-8, **fixed).fit(X, labels)
            scores = model.decision_function(grid)
            exact_scores = exact_kernel_classifier(kernel, X, labels, grid, ALPHA, loss=loss)
            errors = {
                LINEAR: float(np.mean(line != inside)),
                KERNEL: float(np.mean((scores > 0) != inside)),
                CONSTANT: float(min(inside.mean(), 1.0 - inside.mean())),
            }
            distance = float(np.abs(scores - exact_scores).max() / np.ptp(exact_scores))
            rows.append({"task": loss, "run": seed, "distance to exact": distance} | errors)
            if not seed:
                shown[loss] = scores
        if not seed:
            shown["data"] = X[:, 0], y, labels, found, Ridge(ALPHA).fit(X, y).predict(grid)

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        x, y, labels, curve, line = shown["data"]
        left.plot(x, y, ".", color="#8a98a5", markersize=3)
        left.plot(grid[:, 0], curve, label=KERNEL)
        left.plot(grid[:, 0], line, "--", label=LINEAR)
        left.set(title="regression", xlabel="x")
        right.plot(x, np.where(labels, 1.0, -1.0), ".", color="#8a98a5", markersize=3)
        for loss in LOSSES:
            right.plot(grid[:, 0], shown[loss], label=loss)
        right.axhline(0.0, color="#8a98a5", linewidth=0.8)
        right.set(title="scores of two classes", xlabel="x", ylim=(-3, 3))
        left.legend()
        right.legend()

    return Findings(
        title="One variable, three losses",
        source="a lecture on sketching: kernel ridge regression and kernel classification of one variable",
        question=f"{n} noisy points of a wave, and labels that say whether x lies in an interval, one in ten of them "
        f"wrong; {runs} draws. A linear model against the Gaussian kernel: ridge regression, and classification with "
        "squared, logistic and squared hinge loss. Errors are against the wave and the interval without noise. "
        f"{COMPONENTS} landmarks; the distance to the exact minimiser, with its n coefficients, is relative to its "
        "range.",
        rows=rows,
        claims=claims(rows),
        draw=draw,
        summary=[
            {"task": task, **{m: mean(rows, m, task=task) for m in (CONSTANT, LINEAR, KERNEL, "distance to exact")}}
            for task in TASKS
        ],
        size=(9.0, 3.6),
    )


def claims(rows: list[Row]) -> list[Claim]:
    """Learned: at most half the error of the better of line and constant, within 1 % of the exact minimiser's range."""
    verdicts = []
    for task in TASKS:
        kernel = values(rows, KERNEL, task=task)
        lines = np.minimum(values(rows, LINEAR, task=task), values(rows, CONSTANT, task=task))
        distance = values(rows, "distance to exact", task=task)
        verdicts.append(
            Claim(
                f"{task}: a Gaussian kernel learns what no line can",
                "by eye",
                f"error {plus_minus(kernel, 3)}, of the better of line and constant {plus_minus(lines, 3)}; at most "
                f"{distance.max():.0e} from the exact minimiser",
                both(within(kernel - 0.5 * lines, high=0.0), within(distance, high=0.01)),
            )
        )
    return verdicts
