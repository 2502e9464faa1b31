"""The examples run, at a reduced size, and their numbers say what their texts say."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("data", [pytest.param("real", marks=pytest.mark.slow), "synthetic"])
def test_johnson_lindenstrauss(data, tmp_path, monkeypatch, capsys):
    example = load("johnson_lindenstrauss")
    if data == "synthetic":
        monkeypatch.delenv("BOCHNER_DATA", raising=False)
    elif example.datasets.folder() is None:
        pytest.skip("needs BOCHNER_DATA")
    monkeypatch.setattr(example, "N_PAIRS", 2000)
    picture = tmp_path / "ratios.png"
    ratios, table = example.main(["--rows", "400", "--picture", str(picture)])
    assert picture.stat().st_size > 0
    assert "chi-squared" in capsys.readouterr().out
    # one draw moves all ratios together: their mean has a standard deviation of at most sqrt(2 / columns)
    for share, values in ratios.items():
        deviation = np.sqrt(2 / (share * 31_121))
        assert abs(values.mean() - 1) < 5 * deviation
        assert values.std() < 2 * deviation
    # what PCA drops is lost: its distances are too short; a projection's are right on average
    for columns, name, _, mean, _ in table:
        if name == "truncated SVD":
            assert mean < 0.9
        else:
            assert abs(mean - 1) < 5 * np.sqrt(2 / columns)


def test_projected_mixtures(capsys):
    means = load("projected_mixtures").main(
        ["--seeds", "1", "--points", "300", "--dimensions", "40", "--clusters", "3"]
    )
    assert "plain EM" in capsys.readouterr().out
    plain, projected = means["eccentricity of the clusters"]
    assert projected < plain / 2
    assert -1 <= means["adjusted Rand index"][1] <= 1


def test_rows(tmp_path, monkeypatch, capsys):
    example = load("rows")
    monkeypatch.setattr(example, "COLUMNS", (64, 256))
    monkeypatch.setattr(example, "LAWS", ("orthogonal", "iid"))
    curves = example.main(["--seeds", "1", "--picture", str(tmp_path / "rows.png")])
    assert (tmp_path / "rows.png").stat().st_size > 0
    assert "of RBFSampler" in capsys.readouterr().out
    assert set(curves) == {"RBFSampler", "orthogonal", "iid"}
    assert all(curve[0] > curve[1] for curve in curves.values())
