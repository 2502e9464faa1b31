"""How many components? Before, while and after fitting

A theorem promises an error for any data, and is pessimistic. `n_components="auto"` adds components until the error
measured on your rows is small enough. A certificate measures the error of a fitted map, with an interval; of as few
rows as these it is exact, and the interval is a point.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from bochner import RBF, FourierFeatures, certificates, theory

X = load_digits().data[:1200].astype(np.float32)
promised = 2 * theory.AllPairsBound(n_samples=len(X)).size(0.1, delta=0.05)
print(f"theory: {promised:,} components put every entry within 0.1, whatever the data")
chosen = FourierFeatures(n_components="auto", tol=0.05, random_state=0).fit(X)
print(f"auto: {chosen.n_components_} components for a relative error of at most 0.05")
kernel = RBF("median").resolve(X)
sizes, found = (32, 64, 128, 256, 512), []
for m in sizes:
    features = FourierFeatures(kernel, m, random_state=0).fit(X)
    found.append(certificates.kernel_error(features, X, norm="relative_frobenius", random_state=1))
    print(f"{m:5d} components: {found[-1].value:.4f} in [{found[-1].interval[0]:.4f}, {found[-1].interval[1]:.4f}]")
values, ends = np.array([c.value for c in found]), np.array([c.interval for c in found]).T
plt.errorbar(sizes, values, abs(ends - values), fmt="o-", capsize=4, label="certificate")
plt.axvline(chosen.n_components_, color="C1", label='"auto", tol=0.05')
plt.axhline(0.05, color="0.7", linestyle="--")
plt.xscale("log", base=2)
plt.yscale("log")
plt.xticks(sizes, sizes)
plt.xlabel("components")
plt.ylabel("relative error of the kernel matrix")
plt.legend(frameon=False)
plt.show()
