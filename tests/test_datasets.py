import numpy as np
import pytest

from bochner import datasets


def test_reads_what_the_folder_holds(tmp_path, monkeypatch):
    np.savez(tmp_path / "tiny.npz", X=np.arange(6).reshape(3, 2), y=np.array([1, 2, 3]), n_train=2)
    np.savez(tmp_path / "sparse.npz", data=[1, 2], indices=[0, 2], indptr=[0, 1, 2], shape=[2, 3], y=[0, 1])
    monkeypatch.setenv("BOCHNER_DATA", str(tmp_path))
    assert datasets.available() == ["sparse", "tiny"]
    tiny = datasets.load("tiny")
    assert tiny.X.dtype == np.float32
    assert tiny.n_train == 2
    np.testing.assert_array_equal(datasets.load("sparse").X.toarray(), [[1, 0, 0], [0, 0, 2]])
    with pytest.raises(FileNotFoundError, match=r"has no other.npz; it has sparse, tiny"):
        datasets.load("other")


def test_says_what_to_do_without_a_folder(monkeypatch):
    monkeypatch.delenv("BOCHNER_DATA", raising=False)
    assert datasets.available() == []
    with pytest.raises(FileNotFoundError, match="set the environment variable BOCHNER_DATA"):
        datasets.load("usps")


def test_the_real_folder_when_it_is_there():
    if datasets.folder() is None:
        pytest.skip("BOCHNER_DATA is not set")
    for name in datasets.available():
        data = datasets.load(name)
        values = data.X.data if hasattr(data.X, "indptr") else data.X
        assert len(data.y) == data.X.shape[0] >= data.n_train
        assert np.isfinite(values).all()
