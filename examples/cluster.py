"""Dask: the same bits for any number of workers.

Each worker adds up its chunks and sends back sums, never rows or features. The tree of sums depends on the chunks
alone, so one thread and four give the same coefficients to the last bit. With a `Client`, the same lines run on its
cluster.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from bochner import RBF, KernelRidge

X = da.random.default_rng(0).standard_normal((40_000, 6), chunks=(5_000, 6), dtype=np.float32)
y = da.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
coefficients = []
for workers in (1, 2, 4):
    with dask.config.set(scheduler="threads", num_workers=workers):
        model = KernelRidge(RBF(2.0), 256, alpha=0.1, random_state=0).fit(X, y)
        predictions = model.predict(X[:5_000]).compute()  # lazy until now
    coefficients.append(model.component_weights_)
    print(f"{workers} threads: {model.n_samples_seen_:,} rows, first coefficient {model.component_weights_[0]!r}")
same = all(np.array_equal(coefficients[0], other) for other in coefficients[1:])
print("the same bits" if same else "the coefficients differ")
plt.figure(figsize=(4.5, 4), layout="constrained")
plt.scatter(y[:5_000].compute(), predictions, s=2)
plt.xlabel("target")
plt.ylabel("prediction")
plt.show()
