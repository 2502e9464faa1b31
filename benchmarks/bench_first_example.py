"""The first example of the README, over five seeds: test RMSE on Friedman's function, and CPU seconds of `fit`.

    python benchmarks/bench_first_example.py    # half a minute on one core

10,000 rows, three quarters of them for training, and noise with a standard deviation of 1, below which no RMSE of many
rows falls. All models have their default parameters. Set OMP_NUM_THREADS=1 for CPU seconds of one thread.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.svm import SVR

from bochner import KernelRidge

MODELS = {
    "SVR": lambda seed: SVR(),
    "boosting": lambda seed: HistGradientBoostingRegressor(random_state=seed),
    "bochner": lambda seed: KernelRidge(random_state=seed),
}


def measure(seed):
    """Return the test RMSE and the CPU seconds of each model."""
    X, y = make_friedman1(10_000, noise=1.0, random_state=seed)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed)
    found = {}
    for name, make in MODELS.items():
        begun = time.process_time()
        model = make(seed).fit(X_train, y_train)
        seconds = time.process_time() - begun
        found[name] = root_mean_squared_error(y_test, model.predict(X_test)), seconds
    return found


if __name__ == "__main__":
    print("| seed | " + " | ".join(MODELS) + " |")
    runs = []
    for seed in range(5):
        runs.append(measure(seed))
        print(f"| {seed} | " + " | ".join(f"{runs[-1][name][0]:.3f}" for name in MODELS) + " |", flush=True)
    for name in MODELS:
        errors, seconds = np.array([run[name] for run in runs]).T
        print(f"{name}: RMSE {errors.min():.2f} to {errors.max():.2f}, {np.median(seconds):.2g} CPU s")
