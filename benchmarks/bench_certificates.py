"""How often do the certificates' intervals contain the truth, how long are they, and what do they cost?

For every dataset, features and norm: the share of trials whose 95 % interval contains the true value (from the dense
matrices), the median of its ends and of its value over the truth, and processor time over that of the dense matrices.
Real datasets (2000 rows each) where BOCHNER_DATA names a folder of them, else scikit-learn's bundled and synthetic
ones.

The trials look at a few draws of the features: the interval is over the rows that a certificate samples, and the truth
of a draw costs as much as hundreds of certificates.

Run ``OMP_NUM_THREADS=1 python benchmarks/bench_certificates.py [quick] [trials]``; quick makes 40 of them.
"""

import sys
import time

import numpy as np
import scipy.linalg
from sklearn import datasets as bundled

from bochner import FourierFeatures, NystromFeatures, datasets
from bochner.certificates import kernel_error

REAL = ("california", "protein", "letter", "elevators", "cpu")
NORMS = ("frobenius", "relative_frobenius", "spectral", "relative_spectral", "max")
ROWS, ENTRIES, ALPHA, DRAWS = 2000, 1 << 18, 1.0, 4


def standardised(X):
    X = np.asarray(X, dtype=np.float64)
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def sets():
    rng = np.random.default_rng(0)
    if set(REAL) <= set(datasets.available()):
        for name in REAL:
            X = datasets.load(name).X
            yield name, standardised(X[rng.permutation(X.shape[0])[:ROWS]])
        return
    heavy = rng.standard_t(3, size=(ROWS, 6))
    for name, X in {
        "normal": rng.normal(size=(ROWS, 3)),
        "heavy tails": heavy,
        "digits": bundled.load_digits().data,
        "diabetes": bundled.load_diabetes().data,
        "breast cancer": bundled.load_breast_cancer().data,
    }.items():
        yield name, standardised(X)


def truths(E, K):
    whitened = scipy.linalg.eigh(E, K + ALPHA * np.eye(len(K)), eigvals_only=True)
    return {
        "frobenius": np.linalg.norm(E),
        "relative_frobenius": np.linalg.norm(E) / np.linalg.norm(K),
        "spectral": np.abs(scipy.linalg.eigvalsh(E)).max(),
        "relative_spectral": np.abs(whitened).max(),
        "max": np.abs(E).max(),
    }


def main(trials=400):
    print(f"{'data':14s} {'features':8s} {'norm':18s}  covered   low/truth  value/truth  high/truth   time/dense")
    worst = dict.fromkeys(NORMS, 1.0)
    for name, X in sets():
        for label, made in (
            ("fourier", FourierFeatures(n_components=256)),
            ("nystrom", NystromFeatures(n_components=100)),
        ):
            found = {norm: [] for norm in NORMS}
            dense, own = 0.0, dict.fromkeys(NORMS, 0.0)
            for draw in range(DRAWS):
                features = made.set_params(random_state=draw).fit(X)
                start = time.process_time()
                Z, K = features.transform(X), features.kernel_(X)
                right = truths(Z @ Z.T - K, K)
                dense += (time.process_time() - start) / DRAWS
                for norm in NORMS:
                    start = time.process_time()
                    for seed in range(trials // DRAWS):
                        options = {"alpha": ALPHA} if norm == "relative_spectral" else {}
                        c = kernel_error(
                            features, X, norm=norm, max_entries=ENTRIES, random_state=1000 * draw + seed, **options
                        )
                        slack = 1e-9 * right[norm]
                        hit = c.low - slack <= right[norm] <= c.high + slack
                        found[norm].append((hit, *(np.array([c.low, c.value, c.high]) / right[norm])))
                    own[norm] += (time.process_time() - start) / trials
            for norm in NORMS:
                table = np.array(found[norm], dtype=float)
                covered = table[:, 0].mean()
                worst[norm] = min(worst[norm], covered)
                low, value, high = np.median(table[:, 1:], axis=0)
                case = f"{name:14s} {label:8s} {norm:18s} {100 * covered:6.1f} %"
                print(
                    f"{case}  {low:10.3f}  {value:11.3f}  {high:10.3f}   {own[norm] / dense:10.3f}",
                    flush=True,
                )
    print()
    for norm, share in worst.items():
        verdict = "holds" if share >= 0.95 else "does not hold"
        print(
            f"{norm}: interval contains the truth, worst case: {100 * share:.1f} % of {trials}, limit 95 %: {verdict}"
        )


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:] if a.isdigit()]
    main(numbers[0] if numbers else 40 if "quick" in sys.argv[1:] else 400)
