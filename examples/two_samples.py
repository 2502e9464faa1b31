"""Do two samples come from the same distribution?

The maximum mean discrepancy compares means of features, and permutations give an exact p-value. Both samples have mean
zero and variance one in every column; what differs is how the two columns hang together.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import mmd_test

rng = np.random.default_rng(0)
correlations, p_values = (0.0, 0.15, 0.3, 0.45, 0.6), []
for r in correlations:
    X = rng.normal(size=(400, 2))
    Y = rng.normal(size=(400, 2)) @ np.linalg.cholesky([[1.0, r], [r, 1.0]]).T
    p_values.append(mmd_test(X, Y, n_components=256, random_state=0).p_value)
    print(f"correlation {r:.2f}: p = {p_values[-1]:.3f}")
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
axes[0].scatter(*X.T, s=5, label="first sample")
axes[0].scatter(*Y.T, s=5, label="second, correlation 0.6")
axes[0].legend(frameon=False)
axes[1].semilogy(correlations, p_values, "o-")
axes[1].axhline(0.05, color="0.6", linestyle="--")
axes[1].set(xlabel="correlation in the second sample", ylabel="p-value")
plt.show()
