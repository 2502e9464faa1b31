"""Kernel error at equal columns: every row law against scikit-learn's RBFSampler, and the rule behind rows="auto".

Relative Frobenius error of the RBF kernel (median length scale) over seeds; ratios below 1 are better than RBFSampler.
Real data through BOCHNER_DATA; without it only the synthetic table is printed.
"""

import argparse

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from bochner import RBF, FourierFeatures, datasets
from bochner.sampling import ROW_LAWS


def relative_error(Z, K):
    return np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)


def errors(X, n_components, seeds, laws):
    kernel = RBF("median").resolve(X)
    K = kernel(X)
    gamma = 0.5 / kernel.length_scale**2
    peer = [
        relative_error(RBFSampler(gamma=gamma, n_components=n_components, random_state=s).fit_transform(X), K)
        for s in range(seeds)
    ]
    table = {"RBFSampler": np.mean(peer)}
    for law in laws:
        runs = [
            relative_error(FourierFeatures(kernel, n_components, rows=law, random_state=s).fit_transform(X), K)
            for s in range(seeds)
        ]
        table[law] = np.mean(runs)
    return table


def show(title, table):
    peer = table["RBFSampler"]
    print(f"\n{title}: RBFSampler's error {peer:.4f}")
    for name, value in sorted(table.items(), key=lambda item: item[1]):
        print(f"  {name:14s} error {value:.4f}   ratio {value / peer:.2f}")


def bias_table(seeds):
    """Root mean square error and bias of every law: 60 rows at which RBFSampler's error is 0.029 to 0.030."""
    print(f"{'law':14s} exact   d=4: rmse   bias (noise)     d=16: rmse   bias (noise)")
    laws = {"RBFSampler": None, **ROW_LAWS}
    for name, law in laws.items():
        line = f"{name:14s} {'yes' if law is None or law.exact else 'no ':3s}"
        for d, spread in ((4, 0.65), (16, 0.33)):
            X = spread * np.random.default_rng(1).normal(size=(60, d))
            maps = [
                RBFSampler(gamma=0.5, n_components=1024, random_state=s).fit(X)
                if law is None
                else FourierFeatures(RBF(1.0), 1024, rows=law, random_state=s).fit(X)
                for s in range(seeds)
            ]
            errors = np.array([m.transform(X) @ m.transform(X).T for m in maps]) - RBF(1.0)(X)
            bias = np.sqrt(np.mean(errors.mean(axis=0) ** 2))
            line += f"   {np.sqrt(np.mean(errors**2)):9.4f} {bias:8.4f} ({np.std(errors) / np.sqrt(seeds):.4f})"
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--sweep", action="store_true", help="the table from which the rule of rows='auto' was read")
    parser.add_argument("--bias", type=int, metavar="DRAWS", help="print the table of errors and biases, and stop")
    options = parser.parse_args()
    if options.bias:
        bias_table(options.bias)
        return
    laws = ["auto", *[name for name in ROW_LAWS if name != "sobol"]]
    for name in ("usps", "letter", "protein", "kin40k"):
        if datasets.folder() is None:
            print("BOCHNER_DATA is not set: no real data")
            break
        X = datasets.load(name).X
        X = X[np.random.default_rng(0).choice(len(X), options.rows, replace=False)].astype(float)
        show(
            f"{name} ({X.shape[1]} features), 1024 columns, {options.seeds} seeds", errors(X, 1024, options.seeds, laws)
        )
    for d in (4, 16):
        X = np.random.default_rng(1).normal(size=(60, d))
        show(f"60 normal rows, {d} features, 1024 columns", errors(X, 1024, options.seeds, laws))
    if options.sweep:
        for d in (2, 4, 6, 8, 12, 16, 20, 24, 32):
            for n_components in (32, 128, 512, 2048):
                X = np.random.default_rng(2).normal(size=(200, d))
                table = errors(X, n_components, 10, ["quasi", "halton", "lattice", "orthogonal", "structured"])
                best = min(table, key=table.get)
                ratios = "  ".join(f"{name} {value / table['RBFSampler']:.2f}" for name, value in table.items())
                print(f"d={d:3d} columns={n_components:5d}  best {best:10s}  {ratios}")


if __name__ == "__main__":
    main()
