"""How loose are the uniform bounds? Largest error of the pair map over a ball, against every bound.

For each dimension: the 95 % quantile, over draws, of the largest error of cosine and sine pairs for the
Gaussian kernel (length_scale 1) on a ball of diameter 4, and the eps each bound promises at delta = 0.05. A
looseness of 3 in eps is one of about 9 in the number of frequencies. The largest error is found on a grid
(one dimension) or by gradient ascent from the worst of many random lags (more), so it is a lower bound on the
truth and looseness an upper bound.

Run ``python benchmarks/bench_bounds.py [n_frequencies] [n_draws]``.
"""

import sys

import numpy as np

from bochner import theory

DIAMETER, DELTA = 4.0, 0.05
NAMES = (
    "classical, as printed",
    "Sutherland-Schneider",
    "the same + variance",
    "corrected",
    "corrected + variance",
    "gaussian_uniform_error",
)


def errors_at(W, lags):
    return np.cos(lags @ W.T).mean(axis=1) - np.exp(-(lags**2).sum(axis=1) / 2)


def gradients_at(W, lags):
    return -np.sin(lags @ W.T) @ W / len(W) + lags * np.exp(-(lags**2).sum(axis=1, keepdims=True) / 2)


def random_lags(rng, n, d):
    lags = rng.standard_normal((n, d))
    # Half of them uniform in the ball, half uniform in radius: large errors also sit at moderate lags.
    radii = DIAMETER * rng.uniform(size=(n, 1)) ** np.where(np.arange(n)[:, None] % 2, 1.0, 1 / d)
    return lags * radii / np.linalg.norm(lags, axis=1, keepdims=True)


def largest_error(W, rng):
    d = W.shape[1]
    if d == 1:
        return abs(errors_at(W, np.linspace(0, DIAMETER, 2001)[:, None])).max()
    lags = random_lags(rng, 4000, d)
    lags = lags[np.argsort(-abs(errors_at(W, lags)))[:20]]
    best, step = abs(errors_at(W, lags)), np.full(len(lags), 0.5)
    for _ in range(60):  # ascent on |error| with a step for each start, projected on the ball
        direction = gradients_at(W, lags) * np.sign(errors_at(W, lags))[:, None]
        direction /= np.linalg.norm(direction, axis=1, keepdims=True).clip(1e-12)
        trial = lags + step[:, None] * direction
        trial *= np.minimum(1, DIAMETER / np.linalg.norm(trial, axis=1, keepdims=True).clip(1e-12))
        value = abs(errors_at(W, trial))
        better = value > best
        lags[better], best[better] = trial[better], value[better]
        step = np.where(better, step * 1.3, step / 2)
    return best.max()


def main(n_frequencies=1000, n_draws=100):
    setting = f"length_scale 1, diameter {DIAMETER:g}, {n_frequencies} frequencies, delta {DELTA}"
    print(f"Gaussian kernel, {setting}: eps promised, and its ratio to the error seen\n")
    print(f"{'d':>3} {'seen 95%':>9}", *(f"{name:>22}" for name in NAMES))
    for d in (1, 5, 20):
        rng = np.random.default_rng(d)
        draws = [largest_error(rng.standard_normal((n_frequencies, d)), rng) for _ in range(n_draws)]
        seen = np.quantile(draws, 1 - DELTA)
        domain = {"n_features": d, "diameter": DIAMETER, "second_moment": float(d), "delta": DELTA}
        bounds = [
            theory.uniform_error(n_frequencies, **domain, rule="rahimi-recht"),
            theory.uniform_error(n_frequencies, **domain, rule="sutherland-schneider"),
            theory.uniform_error(n_frequencies, **domain, rule="sutherland-schneider", variance=0.5),
            theory.uniform_error(n_frequencies, **domain),
            theory.uniform_error(n_frequencies, **domain, variance=0.5),
            theory.gaussian_uniform_error(n_frequencies, delta=DELTA, n_features=d, diameter=DIAMETER),
        ]
        print(f"{d:>3} {seen:>9.4f}", *(f"{eps:>13.3f} ({eps / seen:>5.1f}x)" for eps in bounds))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
