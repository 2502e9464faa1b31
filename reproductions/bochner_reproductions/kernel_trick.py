"""Two rings in the plane, and the coordinate x₁² + x₂² that a plane can cut."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import make_circles
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from bochner.backends import Array
from bochner.estimators.classifier import KernelClassifier
from bochner.estimators.dot_products import MonomialFeatures
from bochner.kernels.dot_products import Polynomial
from bochner_reproductions.findings import Claim, Findings, Row, mean, plus_minus, values, within

LINE, PLANE, KERNEL = "a line in the plane", "a plane after lifting to (x₁, x₂, x₁² + x₂²)", "the kernel, never lifted"
CONSTANT, TRICK = "the class of most points", "ridge on all six monomials against the kernel's"


def _rings(n: int, seed: int) -> tuple[Array, Array]:
    """Points of two noisy rings, n to learn from and n new ones, and which ring they are of."""
    return make_circles(2 * n, noise=0.08, factor=0.45, random_state=seed)


def _lift(X: Array) -> Array:
    return np.column_stack([X, (X**2).sum(axis=1)])


def _run(n: int, seed: int) -> list[Row]:
    """Accuracies of every classifier on new points, and how far monomials and the kernel are apart."""
    X, y = _rings(n, seed)
    train, test = slice(0, n), slice(n, None)
    kernel = Polynomial(2, gamma=1.0, coef0=1.0)
    models: dict[str, tuple[Any, Array]] = {
        CONSTANT: (DummyClassifier(), X),
        LINE: (LogisticRegression(), X),
        PLANE: (LogisticRegression(), _lift(X)),
        KERNEL: (KernelClassifier(kernel, 32, random_state=seed), X),
    }
    scores = {name: model.fit(A[train], y[train]).score(A[test], y[test]) for name, (model, A) in models.items()}
    rows: list[Row] = [{"classifier": name, "run": seed, "accuracy": float(v)} for name, v in scores.items()]
    # the trick itself: Z_new (ZᵀZ + I)⁻¹ Zᵀ s with six weights, and K_new (K + I)⁻¹ s with one for each row
    signs = 2.0 * y[train] - 1.0
    Z = MonomialFeatures(kernel).fit_transform(X)
    primal = Z[test] @ np.linalg.solve(Z[train].T @ Z[train] + np.eye(Z.shape[1]), Z[train].T @ signs)
    dual = kernel(X[test], X[train]) @ np.linalg.solve(kernel(X[train]) + np.eye(n), signs)
    accuracy = float(np.mean((dual > 0) == (y[test] == 1)))
    difference = float(np.abs(primal - dual).max())
    return [*rows, {"classifier": TRICK, "run": seed, "accuracy": accuracy, "difference": difference}]


def kernel_trick(quick: bool) -> Findings:
    """Accuracies of a line, of a plane after lifting, and of the kernel that never lifts."""
    n, runs = (200, 3) if quick else (1000, 10)
    rows = [row for run in range(runs) for row in _run(n, run)]
    X, y = _rings(n, 0)
    lifted = _lift(X)
    line, plane = (mean(rows, "accuracy", classifier=name) for name in (LINE, PLANE))

    def draw(figure: Any) -> None:
        flat, deep = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2, projection="3d")
        for label, colour in ((0, "#d1582c"), (1, "#1f6fb2")):
            chosen = y[:400] == label
            flat.scatter(*X[:400][chosen].T, s=8, color=colour)
            deep.scatter(*lifted[:400][chosen].T, s=6, color=colour)
        sides = np.meshgrid(np.linspace(-1.2, 1.2, 2), np.linspace(-1.2, 1.2, 2))
        deep.plot_surface(*sides, np.full((2, 2), 0.6), color="#8a98a5", alpha=0.25)
        flat.set(title=f"no line parts the rings ({line:.0%})", aspect="equal", xlabel="x₁", ylabel="x₂")
        deep.set(title=f"a plane does, one dimension up ({plane:.0%})", xlabel="x₁", ylabel="x₂", zlabel="x₁² + x₂²")
        deep.view_init(18, -60)

    return Findings(
        title="The kernel trick in one picture",
        source="a textbook figure",
        question="Two noisy rings cannot be parted by a line. With x₁² + x₂² as a third coordinate a plane parts them, "
        "and the kernel (x·y + 1)², which is the dot product of all monomials up to degree two with the right weights "
        "(`MonomialFeatures`), gives the same classifier without ever computing a coordinate. "
        f"{runs} draws of {n} points to learn from and as many new ones.",
        rows=rows,
        claims=claims(rows),
        draw=draw,
        summary=[
            {"classifier": name, "accuracy": plus_minus(values(rows, "accuracy", classifier=name), 4)}
            for name in (CONSTANT, LINE, PLANE, KERNEL, TRICK)
        ],
        size=(9.0, 4.2),
    )


def claims(rows: list[Row]) -> list[Claim]:
    """A line is right in less than 70 % of the cases, a plane after the lift in more than 97 %.

    The kernel is right as often as the plane within 2 %, and ridge on the monomials has the kernel's predictions to
    1e-9. A constant is right in half of the cases.
    """
    line, plane, kernel = (values(rows, "accuracy", classifier=name) for name in (LINE, PLANE, KERNEL))
    difference = float(values(rows, "difference", classifier=TRICK).max())

    def right(accuracies: Array) -> str:
        return f"{plus_minus(100 * accuracies, 1)} % right"

    return [
        Claim("not separable by a line", "—", right(line), within(line, high=0.7)),
        Claim("separable after the lift", "—", right(plane), within(plane, low=0.97)),
        Claim("the kernel does the same without lifting", "—", right(kernel), within(kernel - plane, -0.02, 0.02)),
        Claim(
            "the dot product of the monomials is the kernel",
            "exactly",
            f"predictions differ by {difference:.0e} at most",
            bool(difference < 1e-9),
        ),
    ]
