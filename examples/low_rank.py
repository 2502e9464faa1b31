"""A matrix from a few of its columns, and from a few products.

The randomized SVD is nearly as good as the best approximation of its rank; CX takes columns of the matrix itself,
which people can read. Both report their error with the result.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from bochner import linalg

A = load_digits().data[:800]
exact = np.linalg.svd(A, compute_uv=False)
ranks = (2, 4, 8, 16, 32)
errors = {"best": [float(np.sqrt((exact[k:] ** 2).sum()) / np.linalg.norm(A)) for k in ranks]}
for name, function in {"randomized_svd": linalg.randomized_svd, "cx": linalg.cx}.items():
    found = [function(A, k, random_state=0) for k in ranks]
    errors[name] = [found.report.estimates["relative_error"].value for found in found]
    print(f"{name:15s}" + ", ".join(f"rank {k}: {e:.3f}" for k, e in zip(ranks, errors[name], strict=True)))
for name, style in {"best": "k-", "randomized_svd": "C0o--", "cx": "C1s-"}.items():
    plt.semilogx(ranks, errors[name], style, base=2, label=name)
plt.xticks(ranks, ranks)
plt.xlabel("rank")
plt.ylabel("relative error")
plt.title("800 digits of 64 pixels")
plt.legend(frameon=False)
plt.show()
