"""Random projections: distances kept, sparse in and out, the shortest inverse, clear errors."""

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import chi2
from sklearn.random_projection import johnson_lindenstrauss_min_dim

from bochner import RandomProjection
from bochner.sketches import SKETCH_LAWS, SparseSign

LAWS = list(SKETCH_LAWS)
SPARSE_RESULT = [n for n, law in SKETCH_LAWS.items() if law.accepts_sparse and n not in ("gaussian", "rademacher")]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_projection_is_the_sketch(law, dtype):
    X = np.random.default_rng(0).normal(size=(6, 90)).astype(dtype)
    projection = RandomProjection(17, law=law, random_state=3)
    Z = projection.fit_transform(X)
    assert Z.dtype == dtype
    assert Z.shape == (6, 17)
    np.testing.assert_allclose(
        Z, X @ projection.feature_map_.sketch.to_dense().T, atol=3e-5 if dtype == np.float32 else 1e-12
    )
    np.testing.assert_array_equal(projection.fit(X).transform(X), Z)
    assert len(projection.get_feature_names_out()) == 17


def test_gaussian_projection_keeps_distances_at_the_stated_probability():
    n, k, delta = 20, 400, 1e-6
    X = np.random.default_rng(0).normal(size=(n, 3000))
    Z = RandomProjection(k, law="gaussian", random_state=0).fit_transform(X)
    i, j = np.triu_indices(n, 1)
    ratios = np.sum((Z[i] - Z[j]) ** 2, axis=1) / np.sum((X[i] - X[j]) ** 2, axis=1)
    # k · ratio is chi-squared with k degrees of freedom, a union over the pairs
    low, high = chi2.ppf(delta / (2 * len(i)), k), chi2.isf(delta / (2 * len(i)), k)
    assert (ratios * k > low).all()
    assert (ratios * k < high).all()


def test_auto_is_the_johnson_lindenstrauss_dimension():
    X = np.zeros((50, 3000))
    for eps in (0.2, 0.5):
        projection = RandomProjection(eps=eps, random_state=0).fit(X)
        assert abs(projection.n_components_ - johnson_lindenstrauss_min_dim(50, eps=eps)) <= 1  # theirs rounds down
    assert RandomProjection(random_state=0).fit(X[:1]).n_components_ == 1
    with pytest.raises(ValueError, match="larger eps"):
        RandomProjection().fit(X[:, :100])
    with pytest.raises(ValueError, match="eps must be a number strictly between 0 and 1"):
        RandomProjection(eps=2.0).fit(X)


@pytest.mark.parametrize("law", SPARSE_RESULT)
@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
@pytest.mark.parametrize("n_components", [40, 190])  # most of the result is not zero, and most of it is
def test_sparse_in_sparse_out(law, form, n_components):
    X = form(scipy.sparse.random_array((30, 200), density=0.02, rng=np.random.default_rng(0), dtype=np.float32))
    dense = RandomProjection(n_components, law=law, random_state=1).fit_transform(X.toarray())
    sparse = RandomProjection(n_components, law=law, random_state=1).fit_transform(X)
    assert isinstance(sparse, form)
    assert sparse.dtype == np.float32
    np.testing.assert_allclose(sparse.toarray(), dense, atol=2e-6)
    asked = RandomProjection(n_components, law=law, dense_output=True, random_state=1).fit_transform(X)
    assert isinstance(asked, np.ndarray)
    np.testing.assert_allclose(asked, dense, atol=2e-6)


@pytest.mark.parametrize("law", ["gaussian", "rademacher"])
def test_dense_laws_take_sparse_rows(law):
    X = scipy.sparse.random_array((30, 200), density=0.05, rng=np.random.default_rng(0)).tocsr()
    projection = RandomProjection(40, law=law, random_state=1)
    np.testing.assert_allclose(projection.fit_transform(X), projection.fit_transform(X.toarray()), atol=1e-13)


@pytest.mark.parametrize("law", LAWS)
def test_inverse_is_the_pseudo_inverse(law):
    X = np.random.default_rng(0).normal(size=(6, 50))
    projection = RandomProjection(20, law=law, random_state=1)
    Z = projection.fit_transform(X)
    W = projection.feature_map_.sketch.to_dense()
    back = projection.inverse_transform(Z)
    np.testing.assert_allclose(back, Z @ np.linalg.pinv(W).T, atol=1e-10)
    np.testing.assert_allclose(projection.transform(back), Z, atol=1e-10)
    assert projection.inverse_transform(Z.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(projection.inverse_transform(scipy.sparse.csr_array(Z)), back)
    with pytest.raises(ValueError, match="19 columns"):
        projection.inverse_transform(Z[:, 1:])


def test_errors_name_the_remedy():
    X = np.eye(8)
    for options, message in [
        ({"n_components": 9}, "fewer components"),
        ({"n_components": 2.0}, "positive integer"),
        ({"n_components": 2, "law": "hadamard"}, "srht"),
        ({"n_components": "auto", "eps": 1.5}, "eps"),
    ]:
        with pytest.raises(ValueError, match=message):
            RandomProjection(**options).fit(X)
    with pytest.raises(ValueError, match="sparse_sign"):
        RandomProjection(2, law="srht").fit(scipy.sparse.csr_array(X))
    with pytest.raises(ValueError, match="sparse_sign"):
        RandomProjection(2, law="srht").fit(X).transform(scipy.sparse.csr_array(X))


def test_a_law_may_be_a_value():
    X = np.random.default_rng(0).normal(size=(5, 30))
    a = RandomProjection(10, law=SparseSign(3), random_state=0).fit(X)
    assert np.count_nonzero(a.feature_map_.sketch.to_dense()) == 90
