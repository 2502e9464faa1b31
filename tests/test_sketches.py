"""Laws of sketches: unbiased, embedding subspaces as stated, the same from either side and on sparse data."""

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import binom

from bochner.backends import limit_threads
from bochner.draws import structured
from bochner.draws.keys import Key
from bochner.sketches import (
    FJLT,
    SKETCH_LAWS,
    LeverageRows,
    RowSampling,
    SparseSign,
    VerySparse,
    as_sketch_law,
    leverage_probabilities,
    norm_probabilities,
)
from laws import assert_unbiased, points

LAWS = SKETCH_LAWS | {
    f"{law.__name__} {density}": law(density) for law in (VerySparse, FJLT) for density in (0.08, 0.5, 1.0)
}
SPARSE = [name for name, law in SKETCH_LAWS.items() if law.accepts_sparse]
SPARSE_MAPS = [name for name in SPARSE if name not in ("gaussian", "rademacher")]


def tall(n, d, seed=0):
    """A tall matrix with rows of different sizes, none so small that a law would hardly ever see it."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d))
    return A * (rng.uniform(0.5, 1.5, size=(n, 1)) / np.linalg.norm(A, axis=1, keepdims=True))


def draw(name, n, k, seed, A=None):
    law, key = LAWS[name], Key(seed)
    return law.resolve(tall(n, 2) if A is None else A, key).sample(n, k, key)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 2), (11, 5), (11, 40)])
def test_sketches_are_unbiased(name, n, k):
    grams = np.array([W.T @ W for W in (draw(name, n, k, seed).to_dense() for seed in range(1000))])
    assert_unbiased(grams, np.eye(n))


@pytest.mark.parametrize("name", LAWS)
def test_sketches_embed_subspaces_as_stated(name):
    n, rank, k, delta, n_draws = 48, 3, 24, 0.1, 400
    A = tall(n, rank)
    # one basis in general position, and one of unit vectors, the hardest for sparse laws
    for Q in (np.linalg.qr(A)[0], np.eye(n)[:, [0, 5, n - 1]]):
        law = LAWS[name].resolve(A, Key(0))
        errors = []
        for seed in range(n_draws):
            SQ = law.sample(n, k, Key(seed)) @ Q
            errors.append(np.linalg.norm(SQ.T @ SQ - np.eye(rank)))
        errors = np.array(errors)
        squares = errors**2
        # the second moment, by z-score
        assert squares.mean() <= law.moment(rank, n) / k + 6.0 * squares.std() / np.sqrt(n_draws) + 1e-12
        # and the failures, which a binomial variable with the stated probability exceeds once in a million
        failures = np.count_nonzero(errors > law.distortion(rank, n, k, delta))
        assert failures <= binom.isf(1e-6, n_draws, delta)


@pytest.mark.parametrize("name", SKETCH_LAWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_left_right_and_adjoint_agree_with_the_matrix(name, dtype, order):
    S = draw(name, 150, 20, 3)
    W = S.to_dense()
    rng = np.random.default_rng(1)
    A = np.asarray(rng.normal(size=(150, 7)), dtype, order=order)
    B = np.asarray(rng.normal(size=(7, 20)), dtype, order=order)
    tolerance = 300 * np.finfo(dtype).eps
    for result, expected in [(S @ A, W @ A), (S(A.T), A.T @ W.T), (S.adjoint(B), B @ W)]:
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected, atol=tolerance * (1 + np.abs(W).max()))


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("form", [scipy.sparse.csr_array, scipy.sparse.csc_array, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_data_give_the_same_sketch(name, form, dtype):
    S = draw(name, 60, 9, 4)
    A = scipy.sparse.random_array((60, 40), density=0.1, rng=np.random.default_rng(2), dtype=dtype)
    dense = A.toarray()
    tolerance = 1e3 * np.finfo(dtype).eps
    for result, expected in [(S @ form(A), S @ dense), (S(form(A.T)), S(dense.T))]:
        assert isinstance(result, np.ndarray)
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected, atol=tolerance)


@pytest.mark.parametrize("name", SPARSE_MAPS)
def test_sparse_maps_have_a_sparse_form(name):
    S = draw(name, 30, 9, 5)
    np.testing.assert_allclose(S.to_sparse().toarray(), S.to_dense())


@pytest.mark.parametrize("name", [name for name, law in SKETCH_LAWS.items() if not law.accepts_sparse])
def test_transforms_refuse_sparse_data(name):
    with pytest.raises(TypeError, match="sparse_sign"):
        draw(name, 8, 4, 0) @ scipy.sparse.eye_array(8).tocsr()


@pytest.mark.parametrize("name", SKETCH_LAWS)
def test_draws_depend_on_the_key_alone(name):
    a, b, c = (draw(name, 40, 12, seed).to_dense() for seed in (7, 7, 8))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


@pytest.mark.parametrize("name", SKETCH_LAWS)
@pytest.mark.parametrize("more", [13, 90])
def test_more_components_extend_the_draw_where_the_law_says_so(name, more):
    few, many = draw(name, 20, 12, 9).to_dense(), draw(name, 20, more, 9).to_dense()
    same = np.allclose(few * np.sqrt(12), many[:12] * np.sqrt(more), rtol=1e-12)
    assert same == SKETCH_LAWS[name].extends


def test_sparse_sign_has_distinct_rows_and_extends_in_features():
    S = SparseSign(5).sample(300, 7, Key(0))
    rows = S.indices.reshape(300, 5)
    assert all(len(set(r)) == 5 for r in rows)
    # every row equally often: 300 · 5 / 7 expected, standard deviation below sqrt(300 · 5/7 · 2/7)
    counts = np.bincount(S.indices, minlength=7)
    assert np.abs(counts - 1500 / 7).max() < 6 * np.sqrt(300 * 10 / 49)
    np.testing.assert_array_equal(SparseSign(5).sample(100, 7, Key(0)).to_dense(), S.to_dense()[:, :100])
    assert SparseSign(8).sample(10, 3, Key(0)).shape == (3, 10)


def test_leverage_scores():
    A = tall(200, 4)
    Q = np.linalg.qr(A)[0]
    exact = np.sum(Q * Q, axis=1) / 4
    np.testing.assert_allclose(leverage_probabilities(A), exact, rtol=1e-10)
    np.testing.assert_allclose(leverage_probabilities(scipy.sparse.csr_array(A)), exact, rtol=1e-6)
    # a deficient column space, constant columns included
    np.testing.assert_allclose(leverage_probabilities(np.hstack([A, A[:, :1], 0 * A])), exact, rtol=1e-8)
    # sketched: each score within (1 + ε)/(1 - ε) of the exact one, ε the distortion at failure probability 1e-6
    law, k = SparseSign(), 190
    sketched = leverage_probabilities(A, Key(0), n_components=k)
    SQ = law.sample(200, k, Key(0)) @ Q
    values = np.linalg.svd(SQ, compute_uv=False) ** 2
    assert (sketched / exact <= values.max() / values.min() * (1 + 1e-9)).all()
    assert (exact / sketched <= values.max() / values.min() * (1 + 1e-9)).all()
    with pytest.raises(ValueError, match="pass a key"):
        leverage_probabilities(A, n_components=20)


def test_leverage_scores_from_a_sketch_are_a_law():
    A = tall(100, 3)
    law = LeverageRows(n_components=30).resolve(A, Key(1))
    grams = []
    for seed in range(500):
        SA = law.sample(100, 20, Key(seed)) @ A
        grams.append(SA.T @ SA)
    assert_unbiased(np.array(grams), A.T @ A)


def test_probabilities_of_zero_and_of_rows_never_seen():
    np.testing.assert_allclose(norm_probabilities(np.zeros((4, 2))), 0.25)
    np.testing.assert_allclose(norm_probabilities(scipy.sparse.csr_array(np.diag([1.0, 2.0]))), [0.2, 0.8])
    S = RowSampling(np.array([0.0, 1.0, 0.0])).sample(3, 50, Key(0))
    assert (S.picks == 1).all()


def test_errors_name_the_remedy():
    with pytest.raises(ValueError, match="sparse_sign"):
        as_sketch_law("sparse-sign")
    with pytest.raises(ValueError, match="resolve"):
        as_sketch_law("norm").sample(3, 2, Key(0))
    with pytest.raises(ValueError, match="3 probabilities for 4 rows"):
        RowSampling(np.full(3, 1 / 3)).sample(4, 2, Key(0))
    with pytest.raises(ValueError, match="sum 1"):
        RowSampling(np.array([0.5, 0.4]))
    with pytest.raises(ValueError, match="n_nonzeros"):
        SparseSign(0)


def test_points_are_projected_without_moving(recwarn):
    X = points(12, 500)
    X.flags.writeable = False
    for name in SKETCH_LAWS:
        draw(name, 500, 20, 0, X.T)(X)


@pytest.mark.parametrize("density", [0.01, 0.3, 1.0])
def test_as_many_entries_as_asked_for_are_not_zero(density):
    n, k = 400, 200
    S = VerySparse(density).sample(n, k, Key(0)).to_dense()
    share = (S != 0).mean()
    assert abs(share - density) <= 5.0 * np.sqrt(density * (1.0 - density) / (n * k))
    np.testing.assert_allclose(np.abs(S[S != 0]), 1.0 / np.sqrt(density * k), rtol=1e-6)


@pytest.mark.parametrize("law", [VerySparse, FJLT])
@pytest.mark.parametrize("density", [0.0, -1.0, 1.5, "half"])
def test_a_density_is_a_share(law, density):
    with pytest.raises(ValueError, match="density"):
        law(density)


def test_a_hadamard_transform_spares_rows_of_one_entry():
    """Of a unit vector, where few signs are worst, the second moment is that of dense signs."""
    n, k, n_draws = 1024, 64, 400
    e = np.eye(n)[:, :1]
    density = FJLT()._density(n)
    sparse, spread = (
        np.array([np.sum((law.sample(n, k, Key(seed)) @ e) ** 2) - 1.0 for seed in range(n_draws)]) ** 2 * k
        for law in (VerySparse(density), FJLT())
    )
    error = np.sqrt(np.var(sparse) + np.var(spread)) / np.sqrt(n_draws)
    assert spread.mean() <= FJLT().moment(1, n) + 6.0 * np.std(spread) / np.sqrt(n_draws)
    assert sparse.mean() - spread.mean() > 6.0 * error  # 1 / density - 1 against about 2


@pytest.mark.parametrize("name", LAWS)
def test_threads_change_no_bit(name, monkeypatch):
    monkeypatch.setattr(structured, "_LARGE", 0)  # products that are worth threads
    A = tall(500, 3)
    S = draw(name, 500, 11, seed=0, A=A)
    found = []
    for n in (1, 2, 3):
        with limit_threads(n):
            found.append((S @ A, S(A.T)))
    for both in found[1:]:
        for product, expected in zip(both, found[0], strict=True):
            np.testing.assert_array_equal(product, expected)
