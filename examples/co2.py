"""A Gaussian process with error bars on a curve like the CO₂ record: a trend, a year, and noise.

The kernel is a sum, as one would write it down: something smooth and slow, and something that repeats every year
for a while. Ten years are kept back, and the error bars should cover them. A picture is drawn where matplotlib is
installed and a file is named: ``python examples/co2.py [FILE]``.
"""

import sys

import numpy as np

from bochner import RBF, GaussianProcessRegressor


def measurements(n_years=40, seed=0):
    """Monthly values in parts per million: a bent trend, two harmonics of the year, noise of 0.3."""
    rng = np.random.default_rng(seed)
    t = np.arange(12 * n_years) / 12
    season = 2.8 * np.sin(2 * np.pi * t) + 0.8 * np.cos(4 * np.pi * t)
    return t, 315 + 0.8 * t + 0.012 * t**2 + season + 0.3 * rng.normal(size=len(t))


def rows(t):
    """The year as a point on a circle beside the time itself: a kernel of both repeats and drifts."""
    return np.column_stack([t, np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)])


def main(path=None, n_components=300, n_years=40):
    t, y = measurements(n_years)
    # the gap in the middle and the last two years are kept back
    hidden = ((t > 0.4 * n_years) & (t < 0.5 * n_years)) | (t > n_years - 2)
    trend = RBF(25.0).on([0])
    season = RBF([60.0, 1.0, 1.0])
    model = GaussianProcessRegressor(900.0 * trend + 9.0 * season, n_components, noise_variance=0.09, random_state=0)
    model.fit(rows(t[~hidden]), y[~hidden])
    mean, std = model.predict(rows(t), return_std=True)
    covered = np.mean(np.abs(y - mean)[hidden] <= 1.96 * np.sqrt(std[hidden] ** 2 + 0.09))
    error = np.sqrt(np.mean((y - mean)[hidden] ** 2))
    print(f"{hidden.sum()} hidden months: error {error:.2f} ppm, {covered:.0%} inside the 95 % interval")
    if path:
        draw(path, t, y, hidden, mean, std)
    return error, covered


def draw(path, t, y, hidden, mean, std):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    axis = figure.subplots()
    axis.fill_between(t, mean - 2 * std, mean + 2 * std, alpha=0.3, linewidth=0, label="two standard deviations")
    axis.plot(t, mean, linewidth=1)
    axis.plot(t[~hidden], y[~hidden], "k.", markersize=2, label="seen")
    axis.plot(t[hidden], y[hidden], "r.", markersize=2, label="kept back")
    axis.set(xlabel="years", ylabel="parts per million")
    axis.legend()
    figure.savefig(path, dpi=120)
    print(f"picture: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
