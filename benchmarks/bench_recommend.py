"""Does `recommend` say what `fit` does? Components and processor time side by side, within a factor of two.

For every dataset: the components that `recommend` predicts and those that `KernelRidge()` or `KernelClassifier()`
chooses; the seconds predicted for that fit, search and all, and those it takes; the seconds predicted for fitting the
model that is recommended and those it takes; and what `recommend` itself took. Processor time of one thread, because
other work on the machine does not count in it. Real rows where BOCHNER_DATA names a folder of them, else mixtures.

Run ``OMP_NUM_THREADS=1 python benchmarks/bench_recommend.py [quick] [data=A,B,…]``. Five minutes on a quiet core,
quick half a minute: fewer datasets, 5,000 rows of each.
"""

import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bochner import KernelClassifier, KernelRidge, datasets, recommend

REGRESSION = {"elevators": 18, "california": 8, "cpu": 21, "bike_hour": 12, "wine": 11, "pol": 26, "protein": 9,
              "kin40k": 8, "kegg_undirected": 27}  # fmt: skip
LABELLED = {"flow_fsom": 18, "letter": 16, "ijcnn1": 22}
DATA = REGRESSION | LABELLED
QUICK_ROWS, MOST_ROWS = 5_000, 100_000


def rows_of(name, most=None):
    """Standardised rows in random order, and targets: numbers, or labels as strings."""
    rng = np.random.default_rng(0)
    if name in datasets.available():
        data = datasets.load(name)
        X, y = np.asarray(data.X, dtype=np.float64), np.asarray(data.y)
    else:
        centres = 3.0 * rng.normal(size=(10, DATA.get(name, 12)))
        X = centres[rng.integers(0, 10, 20_000)] + rng.normal(size=(20_000, centres.shape[1]))
        y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=len(X))
        y = y > 0 if name in LABELLED else y
    order = rng.permutation(len(y))[:most]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = y[order].astype(str if name in LABELLED else np.float64)
    return X[order].astype(np.float32), y


def timed(work):
    start = time.process_time()
    out = work()
    return out, time.process_time() - start


def compared(name, X, y):
    """The recommendation and its seconds; a default fit and its seconds; the seconds of the model recommended."""
    made = KernelClassifier if name in LABELLED else KernelRidge
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        advice, own = timed(lambda: recommend(X, y))
        model, searching = timed(lambda: made(n_jobs=1, random_state=1).fit(X, y))
        again = advice.model(1).set_params(n_jobs=1)
        taken = min(timed(lambda: again.fit(X, y))[1] for _ in range(2))
    return advice, own, model, searching, taken


def main(names=tuple(DATA), most=MOST_ROWS):
    ratios = []
    print("                               components              seconds of fit         of the model              own")
    print("data                  n    d recommend   fit ratio  predicted  taken ratio  predicted  taken ratio  seconds")
    for name in names:
        X, y = rows_of(name, most)
        advice, own, model, searching, taken = compared(name, X, y)
        pairs = (
            (advice.n_components, model.n_components_),
            (advice.search_seconds, searching),
            (advice.seconds, taken),
        )
        ratios.append([ours / theirs for ours, theirs in pairs])
        texts = [f"{pairs[0][0]:9d} {pairs[0][1]:5d}", *(f"{ours:9.2f} {theirs:6.2f}" for ours, theirs in pairs[1:])]
        line = "  ".join(f"{text} {ratio:5.2f}" for text, ratio in zip(texts, ratios[-1], strict=True))
        print(f"{name:16s} {len(X):6d} {X.shape[1]:4d} {line}  {own:7.2f}", flush=True)
    for what, found in zip(("components", "seconds of fit", "seconds of the model"), np.transpose(ratios), strict=True):
        inside = np.sum((found >= 0.5) & (found <= 2.0))
        print(f"{what} within a factor of 2: {inside} of {len(found)} datasets")


if __name__ == "__main__":
    chosen = [a.removeprefix("data=").split(",") for a in sys.argv[1:] if a.startswith("data=")]
    quick = "quick" in sys.argv[1:]
    main(tuple(chosen[0]) if chosen else tuple(DATA)[: 3 if quick else None], QUICK_ROWS if quick else MOST_ROWS)
