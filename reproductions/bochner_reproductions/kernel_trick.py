"""Two rings in the plane, and the coordinate x₁² + x₂² that a plane can cut."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import make_circles
from sklearn.linear_model import LogisticRegression

from bochner.estimators import KernelClassifier, MonomialFeatures
from bochner.kernels import Polynomial
from bochner_reproductions.findings import Claim, Findings, Row, mean

LINE, PLANE, KERNEL = "a line in the plane", "a plane after lifting to (x₁, x₂, x₁² + x₂²)", "the kernel, never lifted"
TRICK = "ridge on all six monomials against the kernel's"


def kernel_trick(quick: bool) -> Findings:
    """Accuracies of a line, of a plane after lifting, and of the kernel that never lifts."""
    n = 200 if quick else 1000
    X, y = make_circles(2 * n, noise=0.08, factor=0.45, random_state=0)
    lifted = np.column_stack([X, (X**2).sum(axis=1)])
    train, test = slice(0, n), slice(n, None)
    kernel = Polynomial(2, gamma=1.0, coef0=1.0)
    models: dict[str, tuple[Any, Any]] = {
        LINE: (LogisticRegression(), X),
        PLANE: (LogisticRegression(), lifted),
        KERNEL: (KernelClassifier(kernel, 32, random_state=0), X),
    }
    scores = {name: model.fit(A[train], y[train]).score(A[test], y[test]) for name, (model, A) in models.items()}
    rows: list[Row] = [{"classifier": name, "accuracy": float(value)} for name, value in scores.items()]
    line, plane = scores[LINE], scores[PLANE]

    # the trick itself: Z_new (ZᵀZ + I)⁻¹ Zᵀ s with six weights, and K_new (K + I)⁻¹ s with one for each row
    signs = 2.0 * y[train] - 1.0
    Z = MonomialFeatures(kernel).fit_transform(X)
    primal = Z[test] @ np.linalg.solve(Z[train].T @ Z[train] + np.eye(Z.shape[1]), Z[train].T @ signs)
    dual = kernel(X[test], X[train]) @ np.linalg.solve(kernel(X[train]) + np.eye(n), signs)
    accuracy = float(np.mean((dual > 0) == (y[test] == 1)))
    rows.append({"classifier": TRICK, "accuracy": accuracy, "difference": float(np.abs(primal - dual).max())})

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
        "(`MonomialFeatures`), gives the same classifier without ever computing a coordinate.",
        rows=rows,
        claims=claims(rows),
        draw=draw,
        summary=rows,
        size=(9.0, 4.2),
    )


def claims(rows: list[Row]) -> list[Claim]:
    """The verdicts; a constant is right in half of the cases."""
    line, plane, kernel = (mean(rows, "accuracy", classifier=name) for name in (LINE, PLANE, KERNEL))
    difference = mean(rows, "difference", classifier=TRICK)
    return [
        Claim("not separable by a line", "—", f"{line:.0%} right", bool(line < 0.7)),
        Claim("separable after the lift", "—", f"{plane:.0%} right", bool(plane > 0.97)),
        Claim("the kernel does the same without lifting", "—", f"{kernel:.0%} right", bool(abs(kernel - plane) < 0.02)),
        Claim(
            "the dot product of the monomials is the kernel",
            "exactly",
            f"predictions differ by {difference:.0e}",
            bool(difference < 1e-9),
        ),
    ]
