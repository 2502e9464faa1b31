"""A trend and a season: a Gaussian process with a sum of kernels.

A curve like the CO₂ record. The kernel is a sum, as one would write it down: something smooth and slow, and something
that repeats every year for a while. Some years are kept back, and the intervals should hold them.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import RBF, GaussianProcessRegressor

rng, n_years = np.random.default_rng(0), 20
t = np.arange(12 * n_years) / 12
season = 2.8 * np.sin(2 * np.pi * t) + 0.8 * np.cos(4 * np.pi * t)
y = 315 + 0.8 * t + 0.012 * t**2 + season + 0.3 * rng.normal(size=len(t))
X = np.column_stack([t, np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)])  # the year as a point on a circle
hidden = ((t > 8) & (t < 10)) | (t > n_years - 2)
kernel = 900.0 * RBF(25.0).on([0]) + 9.0 * RBF([60.0, 1.0, 1.0])
model = GaussianProcessRegressor(kernel, 200, noise_variance=0.09, random_state=0).fit(X[~hidden], y[~hidden])
mean = model.predict(X)
low, high = model.predict_interval(X, coverage=0.95).T
error = float(np.sqrt(np.mean((y - mean)[hidden] ** 2)))
covered = float(np.mean((low <= y) & (y <= high), where=hidden))
print(f"{hidden.sum()} hidden months: error {error:.2f} ppm, {covered:.0%} inside the 95 % interval")
plt.figure(figsize=(9, 3.5), layout="constrained")
plt.fill_between(t, low, high, alpha=0.3, linewidth=0, label="95 % interval")
plt.plot(t, mean, linewidth=1)
plt.plot(t[~hidden], y[~hidden], "k.", markersize=3, label="seen")
plt.plot(t[hidden], y[hidden], "r.", markersize=3, label="kept back")
plt.xlabel("years")
plt.ylabel("parts per million")
plt.legend(frameon=False)
plt.show()
