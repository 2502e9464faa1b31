"""Laws of Nyström points: every law, every kind of kernel."""

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import chi2

from bochner import RBF, Kernel, Laplacian, Linear, Matern
from bochner.draws.keys import Key
from bochner.landmarks import (
    BLESS,
    LANDMARK_LAWS,
    Adaptive,
    Given,
    Gram,
    KMeans,
    RecursiveLeverage,
    RidgeLeverage,
    RPCholesky,
    as_landmark_law,
    grams,
    landmark_law_name,
    leverage_scores,
    pivots,
)
from bochner.landmarks.laws import RowChoice, penalty_for, weighted_choice
from bochner.landmarks.means import lloyd

MEANS = {"kmeans", "minibatch_kmeans", "mixed", "refined"}
ROW_LAWS = sorted(set(LANDMARK_LAWS) - MEANS)


def rows(n=60, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.fixture(params=LANDMARK_LAWS)
def law(request):
    return LANDMARK_LAWS[request.param]


class Counting(Kernel):
    """A kernel that counts the entries it is asked for."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.count = 0

    def block(self, X, Y):
        self.count += X.shape[0] * Y.shape[0]
        return self.kernel.block(X, Y)

    def block_diagonal(self, X):
        self.count += X.shape[0]
        return self.kernel.block_diagonal(X)


def test_as_many_distinct_landmarks_as_asked(law):
    gram = Gram(rows(), RBF(1.0))
    drawn = law.sample(gram, 10, Key(0))
    assert drawn.points.shape == (10, 3)
    if drawn.indices is None:
        assert len(np.unique(drawn.points, axis=0)) == 10
    else:
        assert len(set(drawn.indices.tolist())) == 10
        np.testing.assert_array_equal(drawn.points, gram.X[drawn.indices])


def test_the_seed_decides(law):
    gram = Gram(rows(), RBF(1.0))
    first, again, other = (law.sample(gram, 10, Key(seed)).points for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    if law != LANDMARK_LAWS["greedy"]:
        assert not np.array_equal(first, other)


def test_more_landmarks_than_rows(law):
    drawn = law.sample(Gram(rows(7), RBF(1.0)), 20, Key(0))
    assert drawn.points.shape == (7, 3)


def test_block_size_changes_nothing(law, monkeypatch):
    gram = Gram(rows(), RBF(1.0))
    whole = law.sample(gram, 12, Key(3)).points
    monkeypatch.setattr(grams, "_BLOCK_BYTES", 8 * 12 * 7)  # seven rows at a time
    np.testing.assert_allclose(law.sample(gram, 12, Key(3)).points, whole, atol=1e-12)


@pytest.mark.parametrize("name", ROW_LAWS)
def test_precomputed_chooses_the_same_rows(name):
    X, law = rows(), LANDMARK_LAWS[name]
    by_kernel = law.sample(Gram(X, RBF(1.0)), 10, Key(5))
    by_matrix = law.sample(Gram(RBF(1.0)(X), None), 10, Key(5))
    np.testing.assert_array_equal(by_matrix.indices, by_kernel.indices)
    np.testing.assert_array_equal(by_matrix.points, by_kernel.indices)


@pytest.mark.parametrize("name", sorted(MEANS))
def test_means_of_a_matrix_are_refused(name):
    with pytest.raises(ValueError, match="rpcholesky"):
        LANDMARK_LAWS[name].sample(Gram(np.eye(5), None), 2, Key(0))


def test_sparse_rows_are_the_same_rows(law):
    X = rows() * (rows(seed=1) > 0.3)
    dense = law.sample(Gram(X, RBF(1.0)), 10, Key(2)).points
    sparse = law.sample(Gram(scipy.sparse.csr_matrix(X), RBF(1.0)), 10, Key(2)).points
    sparse = sparse.toarray() if scipy.sparse.issparse(sparse) else sparse
    if law != LANDMARK_LAWS["minibatch_kmeans"]:  # scikit-learn centres dense rows only
        np.testing.assert_allclose(sparse, dense, atol=1e-9)


@pytest.mark.parametrize("name", sorted({*ROW_LAWS, "refined"} - {"uniform"}))
def test_nothing_is_drawn_from_a_zero_kernel(name):
    law = LANDMARK_LAWS[name]
    assert law.sample(Gram(np.zeros((6, 2)), Linear()), 3, Key(0)).points.shape[0] <= 1


@pytest.mark.parametrize("name", ["adaptive", "greedy", "rpcholesky"])
def test_doubled_rows_are_never_chosen_twice(name):
    X = np.repeat(rows(8), 5, axis=0)
    drawn = LANDMARK_LAWS[name].sample(Gram(X, RBF(1.0)), 30, Key(0))
    assert len(drawn.indices) == 8
    assert len(np.unique(X[drawn.indices], axis=0)) == 8


# randomly pivoted Cholesky


def sequence_probabilities(K, k):
    """Exact probability of every sequence of k pivots, by the definition."""
    n, law = len(K), {}
    for sequence in permutations(range(n), k):
        residual, p = K.copy(), 1.0
        for i in sequence:
            p *= residual[i, i] / np.trace(residual)
            residual -= np.outer(residual[:, i], residual[i]) / residual[i, i]
        law[sequence] = p
    return law


@pytest.mark.parametrize("method", ["accelerated", "simple"])
def test_pivots_have_the_law_of_the_definition(method, monkeypatch):
    X = np.array([[0.0], [0.3], [0.5], [2.0], [4.0]])
    K = np.outer([1.0, 2.0, 1.0, 1.0, 0.5], [1.0, 2.0, 1.0, 1.0, 0.5]) * RBF(1.0)(X)
    law = sequence_probabilities(K, 4)
    # blocks as large as they come from the first round on, so that many candidates are rejected
    monkeypatch.setattr(pivots, "_CREDIT", 30)
    draws, gram = 2500, Gram(K, None)
    counts = dict.fromkeys(law, 0)
    for seed in range(draws):
        counts[tuple(RPCholesky(method).sample(gram, 4, Key(seed)).indices.tolist())] += 1
    expected = draws * np.array(list(law.values()))
    observed = np.array(list(counts.values()))
    rare = expected < 10  # pooled, so that χ² is close to its limit
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(observed[~rare], observed[rare].sum())
    statistic = np.sum((observed - expected) ** 2 / expected)
    assert statistic < chi2.isf(1e-6, len(expected) - 1)


def test_every_fourth_pivot_of_a_pool_has_the_law_of_the_definition(monkeypatch):
    X = np.array([[0.0], [0.3], [0.5], [0.9], [2.0], [2.2], [4.0]])
    K = np.outer([1.0, 2.0, 1.0, 1.0, 1.0, 1.5, 0.5], [1.0, 2.0, 1.0, 1.0, 1.0, 1.5, 0.5]) * RBF(1.0)(X)
    monkeypatch.setattr(pivots, "_CREDIT", 400)  # blocks of 20 candidates, 6 of them pivots
    draws, gram = 3000, Gram(K, None)
    sequences = np.array([RPCholesky("pooled").sample(gram, 5, Key(seed)).indices for seed in range(draws)])
    firsts = np.bincount(sequences[:, 0], minlength=7)
    expected = draws * K.diagonal() / np.trace(K)
    statistic, freedom = np.sum((firsts - expected) ** 2 / expected), 6
    pasts, place = np.unique(np.sort(sequences[:, :4], axis=1), axis=0, return_inverse=True)
    for number, past in enumerate(pasts):  # what is left after four pivots does not depend on their order
        left = np.maximum(
            K.diagonal() - np.einsum("ij,ij->i", K[:, past] @ np.linalg.inv(K[past][:, past]), K[:, past]), 0
        )
        left[past] = 0.0
        nexts = sequences[place.ravel() == number, 4]
        expected = len(nexts) * left / left.sum()
        if np.sort(expected)[-2] >= 20:
            pair = np.argsort(expected)[-2:]
            fifths = np.bincount(nexts, minlength=7)[pair]
            shares = fifths.sum() * expected[pair] / expected[pair].sum()
            statistic, freedom = statistic + np.sum((fifths - shares) ** 2 / shares), freedom + 1
    assert freedom >= 9
    assert statistic < chi2.isf(1e-6, freedom)


def test_pools_lower_the_trace_further():
    gram, errors = Gram(RBF(0.5)(rows(500, 2)), None), {}
    for method in ("pooled", "accelerated"):
        draws = [RPCholesky(method).factor(gram, 100, Key(seed)).residual.mean() for seed in range(60)]
        errors[method] = np.mean(draws), np.var(draws, ddof=1) / len(draws)
    (pooled, a), (accelerated, b) = errors["pooled"], errors["accelerated"]
    assert (accelerated - pooled) / np.sqrt(a + b) > 4.0


def test_a_pool_prefers_the_middle_of_a_crowd_and_counts_what_was_drawn_twice():
    # candidates 0 (the queue) and 4 … 8 alone; 1, 2, 3 near each other, 2 between the two others
    X = np.array([[-50.0], [0.0], [1.0], [2.0], [10.0], [20.0], [30.0], [40.0], [50.0]])
    keep, L = pivots.pooled(RBF(1.0)(X), 1e-12, np.zeros(9), 2)
    assert keep.tolist() == [0, 2]
    np.testing.assert_allclose(L @ L.T, RBF(1.0)(X[keep]), atol=1e-12)
    X[5:9] = 20.0  # drawn four times: an outlier that holds that much of the trace
    keep, _ = pivots.pooled(RBF(1.0)(X), 1e-12, np.zeros(9), 3)
    assert keep.tolist() == [0, 5, 2]


@pytest.mark.parametrize("n_pivots", [1, 2, 5, 30, 120])
@pytest.mark.parametrize("length_scale", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("method", pivots.METHODS)
def test_pivots_cost_at_most_one_more_column(n_pivots, length_scale, method):
    kernel = Counting(RBF(length_scale))
    RPCholesky(method).sample(Gram(rows(150), kernel), n_pivots, Key(0))
    assert kernel.count <= (n_pivots + 1) * 150


@pytest.mark.parametrize("method", pivots.METHODS)
def test_the_factor_is_the_cholesky_factor(method):
    X = rows(80)
    factor = RPCholesky(method).factor(Gram(X, Matern(1.0)), 30, Key(1))
    K = Matern(1.0)(X)
    S = factor.pivots
    exact = K[:, S] @ np.linalg.solve(K[np.ix_(S, S)], K[S])
    np.testing.assert_allclose(factor.F @ factor.F.T, exact, atol=1e-10)
    np.testing.assert_allclose(factor.residual, np.diag(K - exact), atol=1e-10)
    assert np.allclose(factor.F[S], np.tril(factor.F[S]), atol=0)


@pytest.mark.parametrize("method", pivots.METHODS)
def test_pivots_stop_at_the_tolerance(method):
    gram = Gram(rows(200), RBF(2.0))
    longest = RPCholesky(method).factor(gram, 200, Key(0))
    stopped = RPCholesky(method).factor(gram, 200, Key(0), tol=0.05)
    np.testing.assert_array_equal(stopped.pivots, longest.pivots[: stopped.rank])
    explained = np.cumsum(np.square(longest.F[:, : stopped.rank]).sum(axis=0))
    left = 1.0 - explained / 200.0
    assert left[-1] <= 0.05 < left[-2]
    np.testing.assert_allclose(stopped.residual.sum() / 200.0, left[-1], rtol=1e-9)


@pytest.mark.parametrize("method", pivots.METHODS)
def test_more_pivots_extend_the_same_draw(method):
    gram = Gram(rows(100), RBF(1.0))
    few, many = (RPCholesky(method).sample(gram, k, Key(9)).indices for k in (17, 60))
    np.testing.assert_array_equal(many[:17], few)


def test_greedy_takes_the_largest_residual():
    K = Laplacian(1.0)(rows(40))
    factor = RPCholesky("greedy").factor(Gram(K, None), 10, Key(0))
    for j, pivot in enumerate(factor.pivots):
        residual = np.diag(K) - np.square(factor.F[:, :j]).sum(axis=1)
        assert residual[pivot] >= residual.max() - 1e-12


# leverage scores


def test_scores_from_everything_are_exact():
    X, alpha = rows(50), 0.3
    K = RBF(1.0)(X)
    exact = np.diag(K @ np.linalg.inv(K + alpha * np.eye(50)))
    everything = np.arange(50)
    scores = leverage_scores(Gram(X, RBF(1.0)), everything, everything, np.ones(50), alpha)
    np.testing.assert_allclose(scores, exact, rtol=1e-9)


def test_penalty_gives_the_effective_dimension():
    values = np.geomspace(1e-6, 10.0, 40)
    alpha = penalty_for(values, 12.5)
    np.testing.assert_allclose(np.sum(values / (values + alpha)), 12.5, rtol=1e-9)


@pytest.mark.parametrize("law", [RecursiveLeverage(alpha=1.0), BLESS(alpha=1.0, oversampling=20.0)])
def test_estimated_scores_find_the_rows_that_matter(law):
    """One row far from a tight crowd has score one, the crowd shares the rest: the row must be drawn."""
    X = np.vstack([0.01 * rows(300), [[50.0, 0.0, 0.0]]])
    for seed in range(20):
        # the score of the lonely row is 1/2 at alpha = 1, that of each other below 1 / 300: of ten draws it misses
        # one at least with probability (1 - 1/3)^10 < 0.02 under exact scores; all twenty seeds: below 1e-6
        if 300 in law.choose(Gram(X, RBF(1.0)), 10, Key(seed)):
            return
    raise AssertionError("the lonely row was never drawn")


def test_recursive_scores_are_not_below_the_exact_ones_by_much():
    """Overestimates up to sampling: Musco & Musco's scores from half the rows bound the exact ones from above."""
    X, alpha = rows(200), 0.5
    gram, everything = Gram(X, RBF(1.0)), np.arange(200)
    exact = leverage_scores(gram, everything, everything, np.ones(200), alpha)
    half = leverage_scores(gram, everything, everything[::2], np.ones(100), alpha)
    assert (half >= exact - 1e-12).all()


@pytest.mark.parametrize("law", [RidgeLeverage(alpha=-1.0), RecursiveLeverage(alpha=0.0), BLESS(alpha=np.nan)])
def test_alpha_must_be_positive(law):
    with pytest.raises(ValueError, match="alpha must be"):
        law.choose(Gram(rows(20), RBF(1.0)), 3, Key(0))


def test_exact_scores_refuse_many_rows():
    with pytest.raises(ValueError, match="recursive_leverage"):
        RidgeLeverage().choose(Gram(np.zeros((9000, 1)), RBF(1.0)), 3, Key(0))


def test_ridge_leverage_samples_in_proportion():
    """First draws follow the exact scores: χ² over rows."""
    X = rows(6)
    K = RBF(1.0)(X)
    scores = np.diag(K @ np.linalg.inv(K + 0.2 * np.eye(6)))
    law, gram, draws = RidgeLeverage(alpha=0.2), Gram(X, RBF(1.0)), 3000
    first = [law.choose(gram, 3, Key(seed))[0] for seed in range(draws)]
    expected = draws * scores / scores.sum()
    assert np.sum((np.bincount(first, minlength=6) - expected) ** 2 / expected) < chi2.isf(1e-6, 5)


# the others


def test_weighted_choice_is_sequential_sampling():
    weights = np.array([0.0, 1.0, 2.0, 5.0])
    draws = 6000
    counts = np.zeros((4, 4))
    for seed in range(draws):
        i, j = weighted_choice(weights, 2, Key(seed))
        counts[i, j] += 1
    p = weights / weights.sum()
    expected = draws * np.array([[p[i] * p[j] / (1 - p[i]) if i != j else 0.0 for j in range(4)] for i in range(4)])
    possible = expected > 0
    assert counts[~possible].sum() == 0
    statistic = np.sum((counts - expected)[possible] ** 2 / expected[possible])
    assert statistic < chi2.isf(1e-6, possible.sum() - 1)
    assert sorted(weighted_choice(weights, 4, Key(0))) == [1, 2, 3]


def test_column_norms_and_one_adaptive_round_agree():
    gram = Gram(rows(40), RBF(1.0))
    norms = np.square(RBF(1.0)(gram.X)).sum(axis=0)
    np.testing.assert_array_equal(
        LANDMARK_LAWS["column_norms"].choose(gram, 12, Key(1)), weighted_choice(norms, 12, Key(1))
    )
    np.testing.assert_array_equal(
        Adaptive(n_rounds=1).choose(gram, 12, Key(1)), weighted_choice(norms, 12, Key(1).child(0))
    )


def test_farthest_points_are_farthest():
    X = rows(50)
    chosen = LANDMARK_LAWS["farthest_point"].choose(Gram(X, Linear()), 8, Key(0))  # Euclidean distance itself
    for j in range(1, 8):
        distances = np.linalg.norm(X[:, None] - X[chosen[:j]], axis=2).min(axis=1)
        assert distances[chosen[j]] >= distances.max() - 1e-9


def test_lloyd_lowers_the_inertia_and_ends_at_means():
    X = rows(200, 2)
    inertia = [np.square(X[:, None] - lloyd(X, X[:7], steps)).sum(axis=2).min(axis=1).sum() for steps in (0, 1, 3, 100)]
    assert all(np.diff(inertia) < 0)
    centres = lloyd(X, X[:7], 100)
    labels = np.square(X[:, None] - centres).sum(axis=2).argmin(axis=1)
    np.testing.assert_allclose(centres, [X[labels == j].mean(axis=0) for j in range(7)], atol=1e-12)


def test_means_use_the_length_scales_of_the_kernel():
    """Clusters along a feature that a long length scale makes irrelevant must not attract the centres."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat([0.0, 10.0], 50), 1000.0 * rng.normal(size=100)])
    centres = KMeans().sample(Gram(X, RBF([1.0, 1e6])), 2, Key(0)).points
    np.testing.assert_allclose(np.sort(centres[:, 0]), [0.0, 10.0])


@pytest.mark.parametrize("name", sorted(MEANS))
def test_means_use_the_directions_of_the_kernel(name):
    """Two clusters along the sum of two columns, whose difference, by far the larger, counts for nothing."""
    rng = np.random.default_rng(0)
    along, across = np.repeat([0.0, 10.0], 50), 1000.0 * rng.normal(size=100)
    X = np.column_stack([along + across, along - across]) / 2.0
    kernel = RBF(1.0).along([[1.0], [1.0]])
    centres = as_landmark_law(name).sample(Gram(X, kernel), 2, Key(0)).points
    np.testing.assert_allclose(np.sort(centres.sum(axis=1)), [0.0, 10.0], atol=1e-9)


def test_given_rows_and_points():
    gram = Gram(rows(), RBF(1.0))
    drawn = as_landmark_law([3, -1]).sample(gram, 5, Key(0))
    np.testing.assert_array_equal(drawn.indices, [3, 59])
    drawn = as_landmark_law(np.zeros((2, 3))).sample(gram, 5, Key(0))
    assert drawn.indices is None
    assert drawn.points.shape == (2, 3)


@pytest.mark.parametrize(
    ("landmarks", "message"),
    [
        (np.array([60]), "data with 60 rows"),
        (np.array([0.5, 1.0]), "must be integers"),
        (np.zeros((2, 4)), "3 features"),
        (np.full((2, 3), np.nan), "finite"),
        (np.arange(9), "at most n_components"),
        (np.zeros((0, 3)), "at least one"),
    ],
)
def test_given_landmarks_are_checked(landmarks, message):
    with pytest.raises(ValueError, match=message):
        as_landmark_law(landmarks).sample(Gram(rows(), RBF(1.0)), 5, Key(0))


def test_points_of_a_matrix_are_refused():
    with pytest.raises(ValueError, match="row indices"):
        Given(np.zeros((1, 5))).sample(Gram(np.eye(5), None), 2, Key(0))


@pytest.mark.parametrize("wrong", ["kmean", 3, None, np.zeros((2, 2, 2))])
def test_unknown_law(wrong):
    with pytest.raises(ValueError, match="landmarks must be 'auto'"):
        as_landmark_law(wrong)


def test_names():
    for name, law in LANDMARK_LAWS.items():
        assert as_landmark_law(name) is law
        assert landmark_law_name(law) == name
    assert landmark_law_name(Given(np.arange(3))) == "Given"
    assert issubclass(RidgeLeverage, RowChoice)


@pytest.mark.parametrize("law", [RPCholesky("other"), KMeans(init="other")])
def test_unknown_options(law):
    with pytest.raises(ValueError, match="'other'"):
        law.sample(Gram(rows(), RBF(1.0)), 3, Key(0))
