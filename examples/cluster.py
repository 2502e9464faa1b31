"""Kernel ridge on a Dask cluster: the same bits for any number of workers.

Rows are made on the workers, chunk by chunk; each sends back sums of its chunks, never rows or features.

Run ``python examples/cluster.py [ROWS]`` (needs ``pip install 'bochner[dask]'``).
"""

import logging
import sys

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from bochner import KernelRidge

SILENT = logging.ERROR


def main(n_rows=1_000_000, n_components=256, workers=(1, 2)):
    coefficients = []
    for n_workers in workers:
        with (
            LocalCluster(n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=SILENT) as cluster,
            Client(cluster),
        ):
            X = da.random.default_rng(0).standard_normal((n_rows, 8), chunks=(n_rows // 8, 8), dtype=np.float32)
            y = da.sin(X[:, 0]) + X[:, 1] * X[:, 2]
            model = KernelRidge(n_components=n_components, random_state=0).fit(X, y)
            score = model.score(X[: n_rows // 8], y[: n_rows // 8])
        coefficients.append(model.coef_)
        print(f"{n_workers} workers: {model.n_samples_seen_:,} rows, R² {float(score):.4f}")
    same = all(np.array_equal(coefficients[0], other) for other in coefficients[1:])
    print("the same bits for every number of workers" if same else "the coefficients differ")
    return same


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
