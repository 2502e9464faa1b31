"""A Gaussian process: mean, error bars, and functions drawn from it.

The dark band is where the function is, the light one where new observations fall: with the noise. Functions drawn from
the posterior pass through the data's neighbourhood and go their own ways where there is none.
"""

import matplotlib.pyplot as plt
import numpy as np

import bochner
from bochner import GaussianProcessRegressor

rng = np.random.default_rng(1)
x = np.sort(np.r_[rng.uniform(0, 4, 40), rng.uniform(6.5, 10, 35)])[:, None]
y = np.sin(1.5 * x[:, 0]) + 0.2 * x[:, 0] + 0.2 * rng.normal(size=len(x))
model = GaussianProcessRegressor("rbf", n_components=60, random_state=0).fit(x, y)
axes = bochner.plot_intervals(model, x, y, coverage=0.95, n_functions=4)
axes.figure.set_size_inches(8, 3.8)
_, std = model.predict([[5.25], [2.0]], return_std=True)  # of the function; include_noise=True: of observations
print(f"noise: {np.sqrt(model.noise_variance_):.2f} (0.20 was added)")
print(f"deviation of the function: {std[0]:.2f} in the gap, {std[1]:.2f} among the data")
plt.show()
