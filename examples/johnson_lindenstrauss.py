"""How well do random projections keep distances? 20 newsgroups to 0.3 %, 1 % and 10 % of its terms, and PCA beside it.

Part one: ratios of squared distances after and before the projection, for random pairs of posts, as a histogram in the
terminal, beside the interval that the chi-squared law promises. Part two: the same number of columns from PCA, which
looks at the data: seconds and distortion. PCA finds the directions of largest variance, and distances within what it
drops are lost; a projection keeps all of them to the same relative error.

Run ``python examples/johnson_lindenstrauss.py [--rows N] [--picture FILE]``. The posts are read from BOCHNER_DATA;
without it a Zipf bag of words of the same shape takes their place.
"""

import argparse
import time

import numpy as np
import scipy.sparse
from scipy.stats import chi2
from sklearn.decomposition import TruncatedSVD

from bochner import RandomProjection, datasets

SHARES = (0.003, 0.01, 0.1)
N_PAIRS = 20_000


def posts(n_rows):
    """Counts of words, a row a post, and where they come from."""
    if datasets.folder() is not None and "news20_counts" in datasets.available():
        X = datasets.load("news20_counts").X
        X, source = X[X.getnnz(axis=1) > 0], "20 newsgroups"
    else:
        X = zipf_posts(min(n_rows or 18_846, 18_846), 31_121)
        source = "synthetic Zipf bag of words (set BOCHNER_DATA for 20 newsgroups)"
    if n_rows is not None and n_rows < X.shape[0]:
        X = X[np.random.default_rng(0).permutation(X.shape[0])[:n_rows]]
    return X, source


def zipf_posts(n, n_terms, words=125):
    """Posts of about 125 different words, the j-th word drawn in proportion to 1/j."""
    rng = np.random.default_rng(0)
    p = 1.0 / np.arange(1, n_terms + 1)
    lengths = rng.poisson(1.6 * words, n) + 1
    terms = rng.choice(n_terms, lengths.sum(), p=p / p.sum())
    rows = np.repeat(np.arange(n), lengths)
    X = scipy.sparse.coo_array((np.ones(len(terms), np.float32), (rows, terms)), shape=(n, n_terms)).tocsr()
    X.sum_duplicates()
    return X


def squared_distances(X, pairs):
    D = X[pairs[0]] - X[pairs[1]]
    return np.asarray(D.multiply(D).sum(axis=1)).ravel() if scipy.sparse.issparse(D) else np.einsum("ij,ij->i", D, D)


def random_pairs(X, rng):
    """Random pairs of different posts."""
    pairs = rng.integers(0, X.shape[0], (2, N_PAIRS))
    return pairs[:, squared_distances(X, pairs) > 0]


def histogram(ratios, low, high, bins=15, width=50):
    counts, edges = np.histogram(ratios, bins=bins, range=(low, high))
    for count, left, right in zip(counts, edges, edges[1:], strict=False):
        print(f"    {left:5.2f} … {right:5.2f}  {'█' * round(width * count / max(1, counts.max()))}")


def distortion(X, Z, pairs):
    """Ratios of squared distances, after over before."""
    return squared_distances(Z, pairs) / squared_distances(X, pairs)


def johnson_lindenstrauss(X, pairs):
    """Ratios for each share of the columns, the law's interval for 99 % of the pairs beside them."""
    results = {}
    for share in SHARES:
        k = max(1, round(share * X.shape[1]))
        Z = RandomProjection(k, dense_output=True, random_state=0).fit_transform(X)
        ratios = distortion(X, Z, pairs)
        low, high = chi2.ppf([0.005, 0.995], k) / k
        inside = np.mean((ratios >= low) & (ratios <= high))
        bottom, top = np.quantile(ratios, [0.005, 0.995])
        print(f"\n  {share:.1%} of the terms, {k} columns: squared distances after / before")
        print(f"    99 % of the pairs in {bottom:.2f} … {top:.2f}, mean {ratios.mean():.3f}")
        print(f"    the chi-squared law says {low:.2f} … {high:.2f}, where {inside:.1%} of the pairs are")
        histogram(ratios, 1 - 2.5 * (high - 1), 1 + 2.5 * (high - 1))
        results[share] = ratios
    return results


def against_pca(X, pairs, columns=(10, 93)):
    """Seconds and distortion of PCA (uncentred, as for any sparse data) and of projections at equal columns."""
    print(f"\n  {'columns':>7s}  {'method':18s} {'seconds':>8s} {'mean ratio':>11s} {'rms error of the ratio':>23s}")
    table = []
    for k in columns:
        for name, transformer in (
            ("truncated SVD", TruncatedSVD(k, algorithm="randomized", random_state=0)),
            ("sparse signs", RandomProjection(k, dense_output=True, random_state=0)),
            ("gaussian", RandomProjection(k, law="gaussian", random_state=0)),
        ):
            start = time.perf_counter()
            Z = transformer.fit_transform(X)
            seconds = time.perf_counter() - start
            ratios = distortion(X, Z, pairs)
            error = np.sqrt(np.mean((ratios - 1.0) ** 2))
            print(f"  {k:7d}  {name:18s} {seconds:8.3f} {ratios.mean():11.3f} {error:23.3f}")
            table.append((k, name, seconds, ratios.mean(), error))
    return table


def picture(results, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(4 * len(results), 3), sharey=True)
    for axis, (share, ratios) in zip(axes, results.items(), strict=True):
        axis.hist(ratios, bins=60, range=(0.5, 1.5), density=True)
        axis.set(title=f"{share:.1%} of the terms", xlabel="squared distance, after / before")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"\n  picture: {path}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=None, help="posts to use (all)")
    parser.add_argument("--picture", default=None, help="file for a picture of the histograms")
    options = parser.parse_args(arguments)
    X, source = posts(options.rows)
    pairs = random_pairs(X, np.random.default_rng(1))
    print(f"{source}: {X.shape[0]} posts, {X.shape[1]} terms, {X.nnz / X.shape[0]:.0f} different terms a post")
    results = johnson_lindenstrauss(X, pairs)
    table = against_pca(X, pairs)
    if options.picture:
        picture(results, options.picture)
    return results, table


if __name__ == "__main__":
    main()
