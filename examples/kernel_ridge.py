"""Kernel ridge regression that chooses for itself.

A smooth function of two columns, with noise. `KernelRidge()` chooses length scales, penalty and number of components;
`summary()` says what it chose. Boosting draws steps where the function is smooth.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from bochner import KernelRidge


def truth(X):
    return np.sin(X[:, 0] * 1.5) * np.cos(X[:, 1]) + 0.3 * X[:, 0]


rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(1500, 2))
y = truth(X) + 0.2 * rng.normal(size=len(X))
grid = np.stack(np.meshgrid(np.linspace(-3, 3, 80), np.linspace(-3, 3, 80)), -1).reshape(-1, 2)
models = {"KernelRidge()": KernelRidge(random_state=0), "boosting": HistGradientBoostingRegressor(random_state=0)}
errors = {}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
pictures = {"the function": truth(grid)} | {name: model.fit(X, y).predict(grid) for name, model in models.items()}
for axis, (name, values) in zip(axes, pictures.items(), strict=True):
    errors[name] = float(np.sqrt(np.mean((values - truth(grid)) ** 2)))
    axis.imshow(values.reshape(80, 80), cmap="RdBu", vmin=-2, vmax=2, origin="lower")
    axis.set(title=name + (f": error {errors[name]:.3f}" if errors[name] else ""), xticks=[], yticks=[])
print(models["KernelRidge()"].summary())
plt.show()
