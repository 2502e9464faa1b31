"""The examples run, at a reduced size, and their numbers say what their texts say."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= tested


def test_drop_in():
    scores = load("drop_in").main(n_components=128, n_seeds=2)
    assert scores["FourierFeatures"] > 0.9
    assert scores["RBFSampler"] > 0.88


def test_co2(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "co2.png"
    error, covered = load("co2").main(picture, n_years=20)
    assert error < 1.0  # the season alone has an amplitude of 2.8
    assert covered > 0.8
    assert picture.stat().st_size > 0


def test_text():
    linear, pairs = load("text").main(n_rows=2000, n_components=1024, newsgroups=False)
    assert linear < 0.6  # a coin
    assert pairs > 0.8


def test_out_of_core():
    pytest.importorskip("pyarrow")
    assert load("out_of_core").main(20_000, 384) < 0.7


def test_choosing_components(capsys):
    columns, value = load("choosing_components").main(tol=0.1)
    assert 0 < value <= 0.1
    assert columns < 2000
    assert "Recommendation" in capsys.readouterr().out


def test_mnist(monkeypatch):
    monkeypatch.delenv("BOCHNER_DATA", raising=False)
    few, many = load("mnist").main((32, 256))
    assert many < few
    assert many < 0.1


def test_cluster():
    pytest.importorskip("distributed")
    assert load("cluster").main(8_000, 32, workers=(1, 2))


def test_gpu():
    pytest.importorskip("torch")
    assert load("gpu").main(2_000, 256) < 2e-6


def test_rows(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    example = load("rows")
    monkeypatch.setattr(example, "COLUMNS", (64, 256))
    monkeypatch.setattr(example, "LAWS", ("orthogonal", "iid"))
    curves = example.main(["--seeds", "1", "--picture", str(tmp_path / "rows.png")])
    assert (tmp_path / "rows.png").stat().st_size > 0
    assert "of RBFSampler" in capsys.readouterr().out
    assert set(curves) == {"RBFSampler", "orthogonal", "iid"}
    assert all(curve[0] > curve[1] for curve in curves.values())
