"""The kernel trick, without the kernel matrix.

Two rings cannot be separated by a line. A kernel sees them in another space, in which a plane separates them.
Random Fourier features are coordinates of that space: 50 of them, and a linear classifier is right everywhere.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from bochner import RBF, FourierFeatures

X, y = make_circles(400, factor=0.5, noise=0.07, random_state=0)
grid = np.stack(np.meshgrid(np.linspace(-1.5, 1.5, 120), np.linspace(-1.5, 1.5, 120)), -1)
models = {
    "the two columns": LogisticRegression(),
    "50 Fourier features": make_pipeline(FourierFeatures(RBF(0.5), 50, random_state=0), LogisticRegression(C=100.0)),
}
scores = {}
figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for axis, (name, model) in zip(axes, models.items(), strict=True):
    scores[name] = model.fit(X[:200], y[:200]).score(X[200:], y[200:])
    axis.contourf(
        *np.moveaxis(grid, -1, 0), model.decision_function(grid.reshape(-1, 2)).reshape(120, 120), cmap="RdBu"
    )
    axis.scatter(*X[200:].T, c=y[200:], cmap="RdBu", s=12, edgecolor="white", linewidth=0.4)
    axis.set(title=f"{name}: {scores[name]:.0%} right", aspect="equal", xticks=[], yticks=[])
    print(f"{name}: {scores[name]:.0%} right")
plt.show()
