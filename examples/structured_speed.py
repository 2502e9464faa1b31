"""Structured maps: a few bits for each frequency.

A dense map holds m × d numbers and multiplies a row by all of them. A structured map holds signs and lengths, and uses
Hadamard transforms: its memory does not depend on the number of features d, and its time hardly does.
"""

import pickle
import time

import matplotlib.pyplot as plt
import numpy as np

from bochner import RBF, FourierFeatures

widths, m = (64, 256, 1024, 4096), 4096
seconds, megabytes = {}, {}
for rows in ("iid", "structured"):
    for d in widths:
        x = np.random.default_rng(0).normal(size=(20, d)).astype(np.float32)
        features = FourierFeatures(RBF(np.sqrt(d)), m, rows=rows, random_state=0).fit(x)
        times = []
        for row in x:
            start = time.perf_counter()
            features.feature_map_(row[None])
            times.append(time.perf_counter() - start)
        seconds[rows, d] = min(times)
        megabytes[rows, d] = len(pickle.dumps(features)) / 1e6
        print(f"{rows:10s} {d:5d} features: {megabytes[rows, d]:7.3f} MB")
figure, axes = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
for rows in ("iid", "structured"):
    axes[0].loglog(widths, [1e6 * seconds[rows, d] for d in widths], "o-", label=rows)
    axes[1].loglog(widths, [megabytes[rows, d] for d in widths], "o-", label=rows)
axes[0].set(xlabel="features of the data", ylabel="microseconds for one row")
axes[1].set(xlabel="features of the data", ylabel="megabytes of the map")
axes[0].legend(frameon=False)
figure.suptitle(f"{m:,} components")
plt.show()
