"""How many components? Three answers: from theory before, from the data while fitting, from a certificate after.

Run ``python examples/choosing_components.py``.
"""

import numpy as np
from sklearn.datasets import load_digits

from bochner import FourierFeatures, KernelRidge, certificates, recommend, theory


def main(tol=0.05):
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    # before: what a theorem needs for every pair of these rows; true for any data, so pessimistic
    promised = theory.AllPairsBound(n_samples=len(X)).size(0.1, delta=0.05)
    print(f"theory: {2 * promised:,} components put every entry of the kernel matrix within 0.1, whatever the data")
    # while fitting: components are added until the measured error is below tol
    features = FourierFeatures(n_components="auto", tol=tol, random_state=0).fit(X)
    m = features.transform(X[:1]).shape[1]
    print(f"auto: {m} components for a relative error below {tol}")
    # after: the error of those components on these rows, with an interval
    certificate = certificates.kernel_error(features, X, norm="relative_frobenius", random_state=1)
    print(f"certificate: {certificate.value:.4f}, in [{certificate.interval[0]:.4f}, {certificate.interval[1]:.4f}]")
    model = KernelRidge(n_components="auto", random_state=0).fit(X, y)
    print(f"kernel ridge: {model.n_components_} components, effective dimension {model.effective_dimension_:.0f}")
    print(recommend(X, y))
    return m, certificate.value


if __name__ == "__main__":
    main()
