"""Laws that every estimator of the registry obeys besides scikit-learn's own: how rows arrive changes no answer.

A new estimator adds one line to `laws.ESTIMATORS` and inherits these, those of `test_weights.py` and those of
`test_representations.py`. Tests of tensors and devices are in `test_torch.py` and `test_gpu.py`.
"""

import inspect

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier, is_clusterer, is_regressor
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.utils.validation import has_fit_parameter

from bochner import (
    RBF,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRidge,
    LearnedFeatures,
    TabularClassifier,
    TabularRegressor,
)
from bochner.backends.native import levels, use_level
from laws import ESTIMATORS, MIXTURES, ROW_LAWS, TABLES

CLASSES = sorted({type(estimator) for estimator in (*ESTIMATORS, *MIXTURES, *TABLES)}, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_constructor_stores_what_it_is_given_and_does_nothing_else(cls):
    parameters = inspect.signature(cls).parameters
    given = {name: object() for name in parameters}
    made = cls(**given)
    assert vars(made) == given
    assert made.get_params(deep=False) == given
    # what is positional may not move, and no attribute that `fit` sets is a parameter
    assert len([p for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]) <= 2
    assert not [name for name in parameters if name.endswith("_") or name.startswith("_")]
    assert not [name for name, p in parameters.items() if p.default is p.empty]
    with pytest.raises(TypeError, match=rf"^{cls.__name__}\.__init__\(\) got an unexpected keyword argument 'colour'"):
        cls(colour="red")


def table(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 2.0, size=(n, d))  # some kernels are for data that are not negative
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=n), rng.uniform(0.0, 2.0, size=(60, d))


def targets(estimator, y):
    return (y > 0.5) + 0 if is_classifier(estimator) else y


def answers(estimator, X):
    if hasattr(estimator, "decision_function"):
        return estimator.decision_function(X)
    Z = estimator.transform(X) if hasattr(estimator, "transform") else estimator.predict(X)
    return Z.toarray() if hasattr(Z, "toarray") else Z


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *MIXTURES, *TABLES], ids=repr)
def test_float32_is_near_float64(estimator):
    """Within 1e-4 of the largest answer.

    What float32 rounds away of k(x, x) - zᵀz is noise to a Gaussian process, and a search that goes on while an
    objective falls may end elsewhere: 1e-3 and 1e-2.
    """
    X, y, new = table()
    y = targets(estimator, y)
    if "solver_tol" in estimator.get_params():
        estimator = clone(estimator).set_params(solver_tol=1e-9)
    # numbers that both types hold, so that the rows are the same
    X, new = X.astype(np.float32), new.astype(np.float32)
    single, double = (answers(clone(estimator).fit(X.astype(t), y), new.astype(t)) for t in (np.float32, np.float64))
    if is_clusterer(estimator):
        single, double = (np.abs(Z - Z[:, :1]) for Z in (single, double))
    distances = {GaussianProcessRegressor: 1e-3, LearnedFeatures: 1e-2}
    distance = distances.get(type(estimator), 1e-4)
    np.testing.assert_allclose(single, double, atol=distance * np.abs(double).max())


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if "n_components" in e.get_params()], ids=repr)
def test_a_fit_leaves_no_fact_of_the_one_before(estimator):
    """Such as the certificate of another number of components."""
    X, y, _ = table(120, 3)
    y, model = targets(estimator, y), clone(estimator)
    try:
        model.set_params(n_components="auto").fit(X, y)
    except ValueError:  # the number has to be given
        model.set_params(n_components=3).fit(X, y)
    again, fresh = model.set_params(**estimator.get_params()).fit(X, y), clone(estimator).fit(X, y)
    facts = [{name for name in dir(m) if name.endswith("_") and hasattr(m, name)} for m in (again, fresh)]
    assert facts[0] == facts[1]


@pytest.mark.parametrize("estimator", [e for e in (*ESTIMATORS, *TABLES) if is_regressor(e)], ids=repr)
def test_dates_are_no_targets(estimator):
    """NumPy makes -9.2e18 of a missing one, and numbers whose unit depends on how it was stored of the others."""
    days = np.resize(np.array(["2024-01-01", "NaT", "2024-01-03"], "datetime64[D]"), 300)
    for dates in (days, days - days[0]):
        with pytest.raises(ValueError, match="the targets are dates or times"):
            clone(estimator).fit(table()[0], dates)


@pytest.mark.parametrize("estimator", [e for e in (*ESTIMATORS, *TABLES) if is_regressor(e)], ids=repr)
@pytest.mark.parametrize("labels", [np.array(["no", "yes"]), np.array(["no", "yes"], object), [b"no", b"yes"]], ids=str)
def test_labels_are_no_targets_and_the_classifier_is_named(estimator, labels):
    name = "TabularClassifier" if estimator in TABLES else "KernelClassifier"
    with pytest.raises(ValueError, match=rf"got labels \(b?'no', b?'yes'\): use {name}"):
        clone(estimator).fit(table(60)[0], np.resize(labels, 60))


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *MIXTURES], ids=repr)
def test_text_and_missing_values_are_refused_with_their_column_and_the_model_that_accepts_them(estimator):
    X, y, _ = table(60)
    y = targets(estimator, y)
    other = "use TabularClassifier, " if is_classifier(estimator) else "use TabularRegressor, "
    other = other if is_classifier(estimator) or is_regressor(estimator) else ""
    gaps, text = X.copy(), X.astype(object)
    gaps[3:5, 1], text[3, 1] = np.nan, "red"
    takes_sparse = estimator.__sklearn_tags__().input_tags.sparse
    for rows in (gaps, gaps.tolist(), *([scipy.sparse.csr_matrix(gaps)] if takes_sparse else [])):
        with pytest.raises(ValueError, match=f"column 1 has (2 )?missing values.*{other}"):
            clone(estimator).fit(rows, y)
    for rows in (text, text.tolist()):
        with pytest.raises(ValueError, match=f"column 1 holds text, such as 'red'.*{other}"):
            clone(estimator).fit(rows, y)


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *MIXTURES, *TABLES], ids=repr)
def test_masked_entries_are_no_numbers(estimator):
    """NumPy takes what is behind the mask, such as -9999; tables have gaps there."""
    X, y, _ = table(60)
    y = targets(estimator, y)
    masked = np.ma.masked_less(X, np.sort(X.ravel())[5])
    if estimator not in TABLES:
        with pytest.raises(ValueError, match="masked entries"):
            clone(estimator).fit(masked, y)
        with pytest.raises(ValueError, match="masked entries"):
            answers(clone(estimator).fit(X, y), masked)
    if is_regressor(estimator) or is_classifier(estimator):
        with pytest.raises(ValueError, match="masked entries"):
            clone(estimator).fit(X, np.ma.array(y, mask=X[:, 0] > 1.0))


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *MIXTURES], ids=repr)
def test_frames_with_a_column_of_dates_are_refused_in_words(estimator):
    pandas = pytest.importorskip("pandas")
    X, y, _ = table(30)
    frame = pandas.DataFrame({"a": X[:, 0], "day": pandas.date_range("2024-01-01", periods=30)})
    with pytest.raises(TypeError, match=r"X( or y)? must hold numbers"):
        clone(estimator).fit(frame, targets(estimator, y))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_entries_of_sparse_rows_that_are_stored_in_parts_are_added_up(estimator):
    """As SciPy does; a part may be negative where no entry is. What was given is not written to."""
    if getattr(estimator, "metric", "") == "full" or "srht" in repr(estimator):
        return  # takes no sparse rows
    if "solver_tol" in estimator.get_params():
        estimator = clone(estimator).set_params(solver_tol=1e-9)
    X, y, _ = table()
    y = targets(estimator, y)
    whole, n, d = scipy.sparse.csr_array(X), *X.shape
    parts = np.stack([1.5 * X, -0.5 * X], axis=2).ravel()
    columns = np.tile(np.repeat(np.arange(d), 2), n)
    X = scipy.sparse.csr_array((parts.copy(), columns, 2 * d * np.arange(n + 1)), shape=(n, d))
    expected = answers(clone(estimator).fit(whole, y), whole)
    for parted in (X, X.tocsc()):
        found = answers(clone(estimator).fit(parted, y), parted)
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
        assert parted.nnz == len(parts)
    np.testing.assert_array_equal(X.data, parts)


TRANSFORMERS = [estimator for estimator in ESTIMATORS if hasattr(estimator, "transform")]
TRANSFORMERS += [FourierFeatures(RBF(1.0), 9, rows=name, random_state=0) for name in ROW_LAWS]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=repr)
def test_features_do_not_depend_on_the_instructions_of_the_processor(estimator, dtype, request):
    """Same seed, same features: to the last bit with FMA, to 12 or 4 digits of the largest one without."""
    request.addfinalizer(lambda: use_level(levels()[-1]))
    X, y, new = table(n=60)
    found = {}
    for name in levels():
        use_level(name)
        found[name] = answers(clone(estimator).fit(X.astype(dtype), y), new.astype(dtype))
    best = found.pop(levels()[-1])
    for name, Z in found.items():
        digits = {np.float64: 1e-12, np.float32: 1e-4}[dtype] if name == "baseline" else 0.0
        np.testing.assert_allclose(Z, best, rtol=0.0, atol=digits * np.abs(best).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("estimator", [*ESTIMATORS, *MIXTURES, *TABLES], ids=repr)
def test_answers_do_not_depend_on_how_rows_are_batched(estimator, dtype):
    """But for rounding, of which large coefficients that cancel leave more."""
    X, y, new = table()
    if "solver_tol" in estimator.get_params():
        estimator = clone(estimator).set_params(solver_tol=1e-9)
    model = clone(estimator).fit(X.astype(dtype), targets(estimator, y))
    new = np.vstack([new] * 20).astype(dtype)  # some code works on 1,024 rows at a time
    whole = answers(model, new)
    pieces = np.concatenate([answers(model, new[a:b]) for a, b in ((0, 1), (1, 18), (18, 1050), (1050, 1200))])
    rounding = (1e-4 if dtype == np.float32 else 1e-9) * np.abs(whole).max()
    np.testing.assert_allclose(pieces, whole, rtol=0.0, atol=rounding)
    np.testing.assert_allclose(whole[60:120], whole[:60], rtol=0.0, atol=rounding)


def _streamed():
    """Estimators that learn block by block, with features that do not depend on the rows and a given penalty."""
    for estimator in ESTIMATORS:
        parameters = estimator.get_params()
        fixed = {"kernel": RBF(1.0), "metric": "isotropic", "features": "fourier", "alpha": 0.1}
        fixed |= {"noise_variance": 0.1, "amplitude": 1.0}
        if hasattr(estimator, "partial_fit"):
            yield clone(estimator).set_params(**{k: v for k, v in fixed.items() if k in parameters})


STREAMED = list({repr(estimator): estimator for estimator in _streamed()}.values())


def _pieces(estimator, X, y, weight):
    weights = {"sample_weight": weight} if has_fit_parameter(estimator, "sample_weight") else {}
    for rows in (slice(0, 90), slice(90, 91), slice(91, 300)):
        yield X[rows], y[rows], {name: value[rows] for name, value in weights.items()}


def _in_pieces(estimator, X, y, weight):
    model = clone(estimator)
    for rows, labels, weights in _pieces(estimator, X, y, weight):
        options = {"classes": np.unique(y)} if is_classifier(model) and not hasattr(model, "classes_") else {}
        model.partial_fit(rows, labels, **weights, **options)
    return model


def _merged(estimator, X, y, weight):
    if not hasattr(estimator, "merge"):
        pytest.skip(f"{type(estimator).__name__} has no merge")
    models = [clone(estimator).fit(rows, labels, **w) for rows, labels, w in _pieces(estimator, X, y, weight)]
    for other in models[1:]:
        models[0].merge(other)
    return models[0]


def _stream(estimator, X, y, weight):
    blocks = [(rows, labels, w["sample_weight"]) for rows, labels, w in _pieces(estimator, X, y, weight)]
    empty = X[:0], [], []  # as a query without results has them
    return clone(estimator).fit([empty, *blocks, empty])


def _dask(estimator, X, y, weight):
    da = pytest.importorskip("dask.array")
    return clone(estimator).fit(*(da.from_array(a, chunks=(110, *a.shape[1:])) for a in (X, y, weight)))


@pytest.mark.parametrize("way", [_in_pieces, _merged, _stream, _dask], ids=lambda f: f.__name__.strip("_"))
@pytest.mark.parametrize("estimator", STREAMED, ids=repr)
def test_blocks_streams_merges_and_dask_equal_fit(estimator, way):
    X, y, new = table()
    y = targets(estimator, y)
    if way in (_stream, _dask) and not (hasattr(estimator, "predict")):
        pytest.skip("rows without targets come as one array")
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    expected = answers(clone(estimator).fit(X, y, sample_weight=weight), new)
    found = answers(way(estimator, X, y, weight), new)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


class Interrupted:
    """Blocks of rows; the pass with number `breaks` is interrupted before its last block."""

    def __init__(self, X, y, breaks=0):
        self.blocks = [(X[start : start + 50], y[start : start + 50]) for start in range(0, len(X), 50)]
        self.passes, self.breaks = 0, breaks

    def __iter__(self):
        self.passes += 1
        number = self.passes
        for i, block in enumerate(self.blocks):
            if number == self.breaks and i == len(self.blocks) - 1:
                raise KeyboardInterrupt
            yield block


@pytest.mark.parametrize("estimator", [e for e in STREAMED if "checkpoint" in e.get_params()], ids=repr)
def test_a_resumed_fit_equals_a_whole_one(estimator, tmp_path):
    """To the last bit, whichever pass was interrupted; only the pass that makes the sums leaves a file."""
    X, y, new = table()
    y = targets(estimator, y)
    whole = clone(estimator).set_params(block_size=50)
    counted = Interrupted(X, y)
    expected = answers(whole.fit(counted), new)
    files = []
    for number in range(1, counted.passes + 1):
        path = tmp_path / f"sums{number}"
        model = clone(whole).set_params(checkpoint=path)
        try:
            model.fit(Interrupted(X, y, number))
        except KeyboardInterrupt:
            files.append(path.exists())
        np.testing.assert_array_equal(answers(model.fit(Interrupted(X, y)), new), expected)
        assert not path.exists()
    assert any(files)


class Changing:
    """Blocks of rows; the pass with number `changes` has `rows` rows instead of all."""

    def __init__(self, X, y, changes=0, rows=0):
        X, y = np.vstack([X, X]), np.concatenate([y, y])
        self.blocks = [(X[start : start + 50], y[start : start + 50]) for start in range(0, len(X), 50)]
        self.changes, self.rows = changes, rows
        self.passes, self.complete = 0, []

    def __iter__(self):
        self.passes += 1
        number = self.passes
        yield from self.blocks[: (self.rows if number == self.changes else len(self.blocks) * 25) // 50]
        self.complete.append(number)


OF_STREAMS = [estimator for estimator in STREAMED if hasattr(estimator, "predict")]
OF_STREAMS += [e for e in ESTIMATORS if isinstance(e, KernelClassifier) and e.loss != "squared"]


@pytest.mark.parametrize("rows", [100, 400])
@pytest.mark.parametrize("estimator", OF_STREAMS, ids=repr)
def test_every_pass_over_a_stream_has_the_rows_of_the_first(estimator, rows):
    X, y, _ = table()
    y = targets(estimator, y)
    usual = Changing(X, y)
    clone(estimator).fit(usual)
    assert len(usual.complete) > 1
    for number in usual.complete:
        with pytest.raises(ValueError, match=rf"had ({rows}|300) in the first and ({rows}|300) in a later one"):
            clone(estimator).fit(Changing(X, y, number, rows))


class Once:
    """Blocks that end with the first pass."""

    def __init__(self, blocks, wrap):
        self.blocks, self.wrap = iter(blocks), wrap

    def __iter__(self):
        return self.wrap(self.blocks)


@pytest.mark.parametrize("wrap", [iter, lambda blocks: map(tuple, blocks)], ids=["an iterator", "another iterator"])
@pytest.mark.parametrize("estimator", OF_STREAMS, ids=repr)
def test_blocks_that_can_be_read_only_once_are_refused(estimator, wrap):
    X, y, _ = table()
    y = targets(estimator, y)
    for blocks in ([(X, y)], [(X[:100], y[:100]), (X[100:], y[100:])]):
        with pytest.raises(ValueError, match="can be read only once"):
            clone(estimator).fit(Once(blocks, wrap))


@pytest.mark.parametrize("model", [KernelRidge(), KernelClassifier(), GaussianProcessRegressor()])
def test_what_fit_takes_from_a_frame_score_takes_too(model):
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(80, 2))
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": (X[:, 0] > 0).astype(int), "w": 1.0 + (X[:, 1] > 0)})
    fitted = clone(model).set_params(n_components=20, random_state=0).fit(frame, "y", "w")
    assert fitted.score(frame, "y", "w") == fitted.score(frame[["a", "b"]], frame["y"], frame["w"])
    with pytest.raises(ValueError, match="no column 'z'"):
        fitted.score(frame, "z")


@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(metric="diagonal", random_state=0),
        KernelClassifier(metric="diagonal", random_state=0),
        GaussianProcessRegressor(metric="diagonal", random_state=0),
        TabularRegressor(random_state=0),
        TabularClassifier(random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_scikit_learn_selects_columns_by_learned_importances(model):
    X = np.random.default_rng(0).normal(size=(120, 3))
    y = np.sin(2.0 * X[:, 1])
    y = y > 0 if is_classifier(model) else y
    for selector in (RFE(model, n_features_to_select=1), SelectFromModel(model, threshold="mean")):
        np.testing.assert_array_equal(selector.fit(X, y).get_support(), [False, True, False])


@pytest.mark.parametrize("cls", [KernelRidge, KernelClassifier, GaussianProcessRegressor])
def test_weights_of_components_are_no_weights_of_columns(cls):
    X = np.random.default_rng(0).normal(size=(60, 4))
    selector = SelectFromModel(cls(RBF(1.0), n_components=4, random_state=0)).fit(X, (X[:, 0] > 0).astype(int))
    with pytest.raises(ValueError, match="`feature_importances_`"):
        selector.get_support()
