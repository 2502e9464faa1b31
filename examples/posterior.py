"""Gaussian process posteriors from 3, 4, 5, 10, 20 and 200 random features, beside the exact one.

Each panel shows the posterior mean and two standard deviations of m Fourier features (weight space), with the exact
posterior dashed; the last one draws from the posterior by pathwise conditioning. Few waves repeat themselves and are
far too sure of themselves away from the data; the exact kernel on the landmarks mends that.

Run: python examples/posterior.py [posterior.png]   (without matplotlib or a file name, a table is printed alone)
"""

import sys

import numpy as np

from bochner import RBF, GaussianProcessRegressor, exact_gaussian_process

SIZES = (3, 4, 5, 10, 20, 200)
NOISE, SCALE = 0.05, 0.7


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.uniform(0, 2, 20), rng.uniform(3.5, 5, 15)])[:, None]
    return X, np.sin(2.5 * X[:, 0]) + np.sqrt(NOISE) * rng.normal(size=len(X))


def posteriors(X, y, grid, seed=0):
    """Mean and standard deviation of the exact process, and of m waves for every m."""
    mean, covariance, _ = exact_gaussian_process(RBF(SCALE), X, y, grid, NOISE)
    exact = mean, np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    fixed = {"noise_variance": NOISE, "amplitude": 1.0, "fit_intercept": False, "random_state": seed}
    waves = {
        m: GaussianProcessRegressor(RBF(SCALE), m, features="fourier", **fixed).fit(X, y).predict(grid, return_std=True)
        for m in SIZES
    }
    draws = GaussianProcessRegressor(RBF(SCALE), len(X), **fixed).fit(X, y).sample_functions(5, random_state=seed)
    return exact, waves, draws(grid)


def table(grid, exact, waves):
    near = (grid[:, 0] >= 0) & (grid[:, 0] <= 5)
    print(f"{'features':>9} {'mean error':>11} {'std error':>10}   {'…away from the data':>20}")
    for m, (mean, std) in waves.items():
        errors = [np.sqrt(np.mean((a - b)[near] ** 2)) for a, b in ((mean, exact[0]), (std, exact[1]))]
        far = np.sqrt(np.mean((std - exact[1])[~near] ** 2))
        print(f"{m:9d} {errors[0]:11.3f} {errors[1]:10.3f}   {far:20.3f}")


def figure(path, X, y, grid, exact, waves, draws):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(16, 6), sharex=True, sharey=True)
    x = grid[:, 0]
    for axis, (m, (mean, std)) in zip(axes.flat, waves.items(), strict=False):
        axis.fill_between(x, mean - 2 * std, mean + 2 * std, alpha=0.3)
        axis.plot(x, mean)
        axis.set_title(f"{m} features")
    exact_axis, draws_axis = axes.flat[6], axes.flat[7]
    exact_axis.fill_between(x, exact[0] - 2 * exact[1], exact[0] + 2 * exact[1], alpha=0.3)
    exact_axis.set_title("exact")
    draws_axis.plot(x, draws, linewidth=0.8)
    draws_axis.set_title("draws by pathwise conditioning")
    for axis in axes.flat:
        for sign in (-2, 0, 2):
            axis.plot(x, exact[0] + sign * exact[1], "k--", linewidth=0.6)
        axis.plot(X[:, 0], y, "k.", markersize=4)
        axis.set_ylim(-4, 4)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"wrote {path}")


def main(arguments):
    X, y = data()
    grid = np.linspace(-3, 8, 400)[:, None]
    exact, waves, draws = posteriors(X, y, grid)
    table(grid, exact, waves)
    if arguments:
        figure(arguments[0], X, y, grid, exact, waves, draws)


if __name__ == "__main__":
    main(sys.argv[1:])
