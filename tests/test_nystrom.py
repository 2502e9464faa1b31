"""Nyström features: laws over every landmark law and kernel, exact oracles, bad input."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RationalQuadratic as SklearnRationalQuadratic
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from bochner import (
    RBF,
    AdditiveChi2,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelPCA,
    KernelRidge,
    Linear,
    NystromFeatures,
    Polynomial,
    Sobolev,
)
from bochner.data.folds import accumulate, accumulate_deflated
from bochner.data.sources import ArraySource
from bochner.data.targets import numeric_targets
from bochner.draws.keys import Key
from bochner.features.nystrom import pivoted_cholesky
from bochner.landmarks import LANDMARK_LAWS, Gram, RPCholesky, grams
from bochner.ridge.solution import solve_sums
from bochner.ridge.statistics import RidgeStatistics
from laws import KERNELS

MEANS = {"kmeans", "minibatch_kmeans", "mixed", "refined"}
ROW_LAWS = sorted(set(LANDMARK_LAWS) - MEANS)


def rows(n=60, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def projection(K, S):
    """K[:, S] K[S, S]⁺ K[S, :]."""
    return K[:, S] @ np.linalg.pinv(K[np.ix_(S, S)], rcond=1e-12, hermitian=True) @ K[S]


@pytest.fixture(params=LANDMARK_LAWS)
def law(request):
    return request.param


def test_never_exceeds_the_kernel_and_knows_its_error(law):
    X = rows(80)
    K = RBF(1.5)(X)
    features = NystromFeatures(RBF(1.5), 20, landmarks=law, random_state=0)
    Z = features.fit_transform(X)
    assert Z.shape == (80, 20)
    left = K - Z @ Z.T
    assert np.linalg.eigvalsh(left)[0] >= -1e-11
    np.testing.assert_allclose(features.trace_error_, np.trace(left) / np.trace(K), rtol=1e-9)
    assert features.effective_rank_ == 20
    assert features.landmarks_law_ == law


def test_fit_transform_is_fit_then_transform(law):
    X = rows(50)
    features = NystromFeatures("matern32", 12, landmarks=law, random_state=3)
    Z = features.fit_transform(X)
    again = clone(features).fit(X)
    np.testing.assert_allclose(again.transform(X), Z, atol=1e-10)
    np.testing.assert_allclose(again.trace_error_, features.trace_error_, rtol=1e-9)


@pytest.mark.parametrize("name", ROW_LAWS)
def test_exact_with_every_row(name):
    X = rows(30)
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-4)):
        Z = NystromFeatures(RBF(0.7), 30, landmarks=name, random_state=0).fit_transform(X.astype(dtype))
        np.testing.assert_allclose(Z @ Z.T, RBF(0.7)(X), atol=tolerance)


@pytest.mark.parametrize("name", ROW_LAWS)
def test_it_is_the_projection_on_the_landmarks(name):
    X = rows(70)
    K = RBF(1.0)(X)
    features = NystromFeatures(RBF(1.0), 15, landmarks=name, random_state=1).fit(X)
    S = features.landmark_indices_
    np.testing.assert_array_equal(features.landmarks_, X[S])
    Z = features.transform(X)
    np.testing.assert_allclose(Z @ Z.T, projection(K, S), atol=1e-10)
    # nested: the first columns are the features of the first landmarks
    np.testing.assert_allclose(Z[:, :5] @ Z[:, :5].T, projection(K, S[:5]), atol=1e-10)


def test_block_size_changes_nothing(law, monkeypatch):
    X = rows(90)
    features = NystromFeatures(RBF(1.0), 11, landmarks=law, random_state=0)
    whole = features.fit_transform(X)
    monkeypatch.setattr(grams, "_BLOCK_BYTES", 8 * 11 * 7)
    np.testing.assert_allclose(clone(features).fit_transform(X), whole, atol=1e-9)
    np.testing.assert_allclose(features.transform(X), whole, atol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_any_kernel(name):
    kernel, X = KERNELS[name], rows(40)
    X = np.abs(X) if isinstance(kernel, (AdditiveChi2, Sobolev)) else X
    K = kernel(X)
    features = NystromFeatures(kernel, 25, random_state=0)
    Z = features.fit_transform(X)
    scale = K.diagonal().max()
    assert np.linalg.eigvalsh(K - Z @ Z.T)[0] >= -1e-10 * scale * len(X)
    np.testing.assert_allclose(features.trace_error_, 1 - np.square(Z).sum() / np.trace(K), atol=1e-10)
    np.testing.assert_allclose(features.transform(X), Z, atol=1e-6 * np.sqrt(scale))


def test_a_kernel_of_low_rank_is_exact_and_its_other_columns_are_zero(law):
    X = rows(50, 4)
    features = NystromFeatures("linear", 20, landmarks=law, random_state=0)
    Z = features.fit_transform(X)
    assert features.effective_rank_ == 4
    assert Z.shape == (50, 20)
    assert not Z[:, 4:].any()
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, atol=1e-10)
    assert features.trace_error_ == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_doubled_rows_constant_data_and_more_landmarks_than_rows(law, dtype):
    distinct = rows(5).astype(dtype)
    for X, rank in ((np.repeat(distinct, 4, axis=0), 5), (np.ones((8, 3), dtype), 1), (distinct, 5)):
        features = NystromFeatures(RBF(1.0), 12, landmarks=law, random_state=0)
        Z = features.fit_transform(X)
        assert Z.dtype == dtype
        assert Z.shape == (len(X), 12)
        assert features.effective_rank_ <= rank
        if law not in ("uniform", "column_norms", "ridge_leverage", "recursive_leverage", "bless", "minibatch_kmeans"):
            # those may draw the same row twice and leave another out
            np.testing.assert_allclose(Z @ Z.T, RBF(1.0)(X.astype(float)), atol=1e-4)
        np.testing.assert_allclose(features.transform(X), Z, atol=1e-3)


def test_a_zero_matrix_has_zero_features(law):
    X = np.zeros((5, 2))
    features = NystromFeatures("linear", 3, landmarks=law, random_state=0)
    np.testing.assert_array_equal(features.fit_transform(X), np.zeros((5, 3)))
    np.testing.assert_array_equal(features.transform(X), np.zeros((5, 3)))
    assert features.trace_error_ == 0.0
    assert features.effective_rank_ == 0
    if law not in MEANS:
        Z = NystromFeatures("precomputed", 3, landmarks=law, random_state=0).fit_transform(np.zeros((5, 5)))
        np.testing.assert_array_equal(Z, np.zeros((5, 3)))


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1.0, 1e20, 1e150])
def test_the_scale_of_the_kernel_does_not_matter(law, scale):
    X = rows(40)
    plain = NystromFeatures(RBF(1.0), 10, landmarks=law, random_state=0).fit(X)
    scaled = NystromFeatures(scale * RBF(1.0), 10, landmarks=law, random_state=0).fit(X)
    np.testing.assert_allclose(scaled.transform(X) / np.sqrt(scale), plain.transform(X), atol=1e-9)
    assert scaled.effective_rank_ == 10


# precomputed


@pytest.mark.parametrize("name", ROW_LAWS)
def test_precomputed(name):
    X, new = rows(60), rows(7, seed=1)
    by_kernel = NystromFeatures(RBF(1.0), 12, landmarks=name, random_state=0).fit(X)
    by_matrix = NystromFeatures("precomputed", 12, landmarks=name, random_state=0)
    np.testing.assert_allclose(by_matrix.fit_transform(RBF(1.0)(X)), by_kernel.transform(X), atol=1e-9)
    np.testing.assert_allclose(by_matrix.transform(RBF(1.0)(new, X)), by_kernel.transform(new), atol=1e-9)
    np.testing.assert_array_equal(by_matrix.landmark_indices_, by_kernel.landmark_indices_)
    assert by_matrix.landmarks_ is None
    assert by_matrix.kernel_ is None


def test_precomputed_sparse_and_cross_validated():
    X = rows(40)
    K = RBF(1.0)(X)
    K[K < 0.3] = 0.0
    K += 10.0 * np.eye(40)
    features = NystromFeatures("precomputed", 10, random_state=0)
    np.testing.assert_allclose(
        features.fit_transform(scipy.sparse.csr_matrix(K)), clone(features).fit_transform(K), atol=1e-10
    )
    search = GridSearchCV(
        make_pipeline(NystromFeatures("precomputed", random_state=0), Ridge()),
        {"nystromfeatures__n_components": [5, 20]},
        cv=3,
        error_score="raise",
    )
    search.fit(RBF(1.0)(X), X[:, 0])  # rows and columns are split together
    assert search.best_params_["nystromfeatures__n_components"] == 20


@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(alpha=0.1),
        KernelClassifier(alpha=0.1),
        GaussianProcessRegressor(noise_variance=0.1, amplitude=1.0),
        make_pipeline(KernelPCA(3), Ridge()),
    ],
    ids=["ridge", "classifier", "process", "components"],
)
def test_models_of_a_kernel_matrix_are_cross_validated_in_rows_and_columns(model):
    X = rows(60)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    first = model[0] if hasattr(model, "steps") else model
    first.set_params(features=NystromFeatures("precomputed", 30, random_state=0), random_state=0)
    assert cross_val_score(model, RBF(2.0)(X), y, cv=3).mean() > 0.3


@pytest.mark.parametrize("X", [np.ones((3, 4)), rows(5, 5)])
def test_precomputed_must_be_square_and_symmetric(X):
    with pytest.raises(ValueError, match=r"square matrix|not symmetric"):
        NystromFeatures("precomputed", 2).fit(X)


# other inputs


def test_callables_and_scikit_learn_kernels():
    X = rows(30)
    K = 1.0 / (1.0 + np.square(X[:, None] - X).sum(axis=2) / 2.0)

    def rows_of(X, Y):
        return 1.0 / (1.0 + np.square(X[:, None] - Y).sum(axis=2) / 2.0)

    def of_two(x, y):
        return 1.0 / (1.0 + float((x - y) @ (x - y)) / 2.0)

    for kernel in (rows_of, of_two, SklearnRationalQuadratic(1.0, 1.0)):
        Z = NystromFeatures(kernel, 30, landmarks="rpcholesky", random_state=0).fit_transform(X)
        np.testing.assert_allclose(Z @ Z.T, K, atol=1e-10)


def test_csr_is_the_same_as_dense(law):
    X = rows(60, 8) * (rows(60, 8, seed=1) > 0)
    features = NystromFeatures(RBF(1.0), 15, landmarks=law, random_state=0)
    dense, sparse = features.fit_transform(X), clone(features).fit_transform(scipy.sparse.csr_matrix(X))
    if law == "minibatch_kmeans":  # scikit-learn centres dense rows only, so the batches go elsewhere
        np.testing.assert_allclose((sparse**2).sum(), (dense**2).sum(), rtol=0.05)
    else:
        np.testing.assert_allclose(sparse @ sparse.T, dense @ dense.T, atol=1e-8)


def test_uniform_is_scikit_learns():
    X = rows(50)
    theirs = Nystroem(gamma=0.5, n_components=20, random_state=0).fit(X)
    ours = NystromFeatures(RBF(1.0), 20, landmarks=theirs.component_indices_).fit(X)
    A, B = ours.transform(X), theirs.transform(X)
    np.testing.assert_allclose(A @ A.T, B @ B.T, atol=1e-10)


def test_own_points():
    X, points = rows(50), rows(6, seed=5)
    features = NystromFeatures(RBF(1.0), 8, landmarks=points).fit(X)
    assert features.effective_rank_ == 6
    C, M = RBF(1.0)(X, points), RBF(1.0)(points)
    Z = features.transform(X)
    assert Z.shape == (50, 8)
    np.testing.assert_allclose(Z @ Z.T, C @ np.linalg.solve(M, C.T), atol=1e-10)
    assert features.landmark_indices_ is None


def test_float32_is_as_good_as_float32_can_be(law):
    X = rows(200, 5)
    features = NystromFeatures(RBF(3.0), 100, landmarks=law, random_state=0)
    Z = features.fit_transform(X.astype(np.float32))
    assert Z.dtype == np.float32
    K = RBF(3.0)(X)
    left = K - Z.astype(float) @ Z.T.astype(float)
    # rounding of the blocks, amplified: floor 4e-6 a row at most
    assert np.linalg.eigvalsh(left)[0] >= -4e-6 * len(X) ** 0.5
    assert features.trace_error_ == pytest.approx(np.trace(left) / 200, abs=1e-6)
    # landmarks of float32 data, rows of float64: computed in float64
    assert features.transform(X).dtype == np.float64
    np.testing.assert_allclose(features.transform(X), Z, atol=3e-3)


# tolerance


@pytest.mark.parametrize("tol", [0.3, 0.02])
def test_tolerance_stops(law, tol):
    X = rows(150)
    features = NystromFeatures(RBF(2.0), 150, landmarks=law, tol=tol, random_state=0)
    Z = features.fit_transform(X)
    K = RBF(2.0)(X)
    error = np.trace(K - Z @ Z.T) / np.trace(K)
    assert error <= tol < np.trace(K - Z[:, :-1] @ Z[:, :-1].T) / np.trace(K)
    np.testing.assert_allclose(features.trace_error_, error, rtol=1e-9)
    assert features.effective_rank_ == Z.shape[1] < 150
    assert len(features.landmarks_) == Z.shape[1]
    np.testing.assert_allclose(features.transform(X), Z, atol=1e-9)
    assert features.get_feature_names_out().shape == (Z.shape[1],)


def test_tolerance_out_of_reach_warns():
    with pytest.warns(ConvergenceWarning, match="raise n_components"):
        Z = NystromFeatures(RBF(0.1), 5, tol=1e-3, random_state=0).fit_transform(rows(50))
    assert Z.shape == (50, 5)


@pytest.mark.parametrize("tol", [-0.1, 1.0, "small", True, np.nan])
def test_tolerance_is_checked(tol):
    with pytest.raises(ValueError, match="tol must be"):
        NystromFeatures(tol=tol).fit(rows())


# bad kernels


@pytest.mark.parametrize("law", ROW_LAWS)
def test_indefinite_kernels_are_named(law):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 30))
    with pytest.raises(ValueError, match="positive semi-definite"):
        NystromFeatures("precomputed", 25, landmarks=law, random_state=0).fit(A + A.T + 3.0 * np.eye(30))


@pytest.mark.parametrize("law", ROW_LAWS)
def test_asymmetric_kernels_are_named(law):
    def skew(X, Y):
        return RBF(1.0)(X, Y) * np.exp(0.5 * (X.sum(axis=1)[:, None] - Y.sum(axis=1)))

    with pytest.raises(ValueError, match="not symmetric"):
        NystromFeatures(skew, 10, landmarks=law, random_state=0).fit(rows(20))


def test_kernels_that_are_not_numbers_are_named(law):
    def nan(X, Y):
        return np.where(np.arange(len(Y)) % 2, np.nan, RBF(1.0)(X, Y))

    with pytest.raises(ValueError, match="not finite"):
        NystromFeatures(nan, 10, landmarks=law, random_state=0).fit(rows(20))


def test_negative_diagonal_is_named():
    with pytest.raises(ValueError, match="positive semi-definite"):
        NystromFeatures("precomputed", 2).fit(np.diag([1.0, -1.0, 1.0]))


def test_pivoted_cholesky_against_the_matrix():
    F = rows(20, 6)
    K = F @ F.T
    L, order = pivoted_cholesky(K, 1e-13)
    assert len(order) == 6
    np.testing.assert_allclose(L @ L.T, K[np.ix_(order, order)], atol=1e-12)
    for wrong in (np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]), -np.eye(2)):
        with pytest.raises(ValueError, match="positive semi-definite"):
            pivoted_cholesky(wrong, 1e-13)


# the estimator


def test_auto_says_what_it_chose():
    X = rows(40)
    for kernel, data, law in (
        ("rbf", X, "refined"),
        ("linear", X, "rpcholesky"),
        ("precomputed", RBF(1.0)(X), "rpcholesky"),
        ("rbf", scipy.sparse.csr_matrix(X), "rpcholesky"),
        (lambda x, y: float(x @ y), X, "rpcholesky"),
    ):
        assert NystromFeatures(kernel, 5, random_state=0).fit(data).landmarks_law_ == law
    assert NystromFeatures(n_components=40, tol=0.2, random_state=0).fit(X).landmarks_law_ == "rpcholesky"


def test_pickles_and_the_map_skips_validation():
    X = rows(30)
    features = pickle.loads(pickle.dumps(NystromFeatures(n_components=6, random_state=0).fit(X)))
    np.testing.assert_array_equal(features.feature_map_(X), features.transform(X))


def test_pivots_cost_at_most_one_more_column_through_the_estimator():
    X = rows(150)
    count = 0

    def counting(A, B):
        nonlocal count
        count += len(A) * len(B)
        return RBF(1.0)(A, B)

    NystromFeatures(counting, 40, landmarks="rpcholesky", random_state=0).fit_transform(X)
    assert count <= 41 * 150


@pytest.mark.parametrize("n_components", [0, -1, 2.5, True, "many"])
def test_n_components_is_checked(n_components):
    with pytest.raises(ValueError, match="n_components must be a positive integer"):
        NystromFeatures(n_components=n_components).fit(rows())


def test_polynomial_features_of_enough_landmarks_are_exact():
    X = rows(40, 2)
    kernel = Polynomial(2, gamma=1.0, coef0=1.0)
    Z = NystromFeatures(kernel, 6, random_state=0).fit_transform(X)  # six monomials
    np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-8)


@pytest.mark.skipif("BOCHNER_DATA" not in os.environ, reason="needs BOCHNER_DATA")
@pytest.mark.parametrize("name", ["letter", "protein"])
def test_default_beats_uniform_on_real_data(name):
    with np.load(Path(os.environ["BOCHNER_DATA"]) / f"{name}.npz") as file:
        X = file["X"][:2000].astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    errors = {
        landmarks: np.mean(
            [
                NystromFeatures(n_components=100, landmarks=landmarks, random_state=s).fit(X).trace_error_
                for s in (0, 1, 2)
            ]
        )
        for landmarks in ("uniform", "auto")
    }
    assert errors["auto"] < 0.8 * errors["uniform"]


def test_gram_of_a_matrix_and_of_a_kernel_agree():
    X = rows(20)
    by_kernel, by_matrix = Gram(X, Linear()), Gram(X @ X.T, None)
    np.testing.assert_allclose(by_kernel.diagonal(), by_matrix.diagonal())
    np.testing.assert_allclose(by_kernel.block(np.array([1, 5]), slice(0, 3)), by_matrix.block([1, 5], slice(0, 3)))
    assert RPCholesky().sample(by_matrix, 3, Key(0)).points.shape == (3,)


@pytest.mark.parametrize("length_scale", [0.5, 3.0])
def test_sums_of_deflated_columns_are_those_of_the_features(length_scale):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1600, 5)), rng.normal(size=1600)
    feature_map = NystromFeatures(RBF(length_scale), 600, random_state=0).fit(X).feature_map_
    feature_map = feature_map.truncated(feature_map.rank)
    cheaper, A = feature_map.deflated()
    np.testing.assert_allclose(cheaper(X) @ A, feature_map(X), atol=1e-6)
    source, m = ArraySource(X, y, None), feature_map.n_components
    truth = accumulate(source, feature_map, RidgeStatistics(m, 1), numeric_targets)
    found = accumulate_deflated(source, feature_map, RidgeStatistics(m, 1, penalty=1e-6), numeric_targets)
    alpha = 1e-6 * 1600
    np.testing.assert_allclose(
        feature_map(X) @ solve_sums(found, alpha).coefficients,
        feature_map(X) @ solve_sums(truth, alpha).coefficients,
        atol=1e-4,
    )


def test_sums_that_deflation_would_blur_are_made_of_whitened_rows(monkeypatch):
    # nearly the same kernel values everywhere: what tells the landmarks apart is in the last digits
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1600, 8)), rng.normal(size=1600)
    feature_map = NystromFeatures(RBF(20.0), 600, random_state=0).fit(X).feature_map_
    feature_map = feature_map.truncated(feature_map.rank)
    assert feature_map.n_components >= 512
    monkeypatch.setattr(RidgeStatistics, "transformed", lambda *_: pytest.fail("these sums are not precise enough"))
    source, sums = ArraySource(X, y, None), RidgeStatistics(feature_map.n_components, 1, penalty=1e-18)
    assert accumulate_deflated(source, feature_map, sums, numeric_targets).n_samples == 1600
