"""A Gaussian process: mean, error bars, and functions drawn from it.

The dark band is where the function is, the light one where new observations fall: with the noise. Functions drawn from
the posterior pass through the data's neighbourhood and go their own ways where there is none.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import GaussianProcessRegressor

rng = np.random.default_rng(1)
x = np.sort(np.r_[rng.uniform(0, 4, 40), rng.uniform(6.5, 10, 35)])[:, None]
y = np.sin(1.5 * x[:, 0]) + 0.2 * x[:, 0] + 0.2 * rng.normal(size=len(x))
model = GaussianProcessRegressor("rbf", n_components=60, random_state=0).fit(x, y)
grid = np.linspace(-1, 11, 300)[:, None]
mean, std = model.predict(grid, return_std=True)  # of the function
low, high = model.predict_interval(grid, coverage=0.95).T  # of observations
paths = model.sample_functions(4, random_state=0)(grid)
plt.figure(figsize=(8, 3.8), layout="constrained")
plt.fill_between(grid[:, 0], low, high, color="C0", alpha=0.12, linewidth=0, label="95 % of observations")
plt.fill_between(grid[:, 0], mean - 1.96 * std, mean + 1.96 * std, color="C0", alpha=0.3, linewidth=0, label="function")
plt.plot(grid, paths, color="C1", linewidth=0.8)
plt.plot(grid, mean, color="C0")
plt.plot(x, y, "k.", markersize=4)
plt.legend(frameon=False, loc="upper left")
print(f"noise: {np.sqrt(model.noise_variance_):.2f} (0.20 was added)")
print(f"deviation of the function: {std[150]:.2f} in the gap, {std[75]:.2f} among the data")
plt.show()
