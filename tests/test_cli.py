"""The command line: the same numbers as the Python interface, exit codes, and messages that say what to do."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

import bochner
from bochner.cli import tables
from bochner.cli.app import run
from bochner.cli.errors import nearest
from bochner.cli.options import RowOptions
from bochner.cli.tables import Recipe

NUMBERS = ["map", "columns", "run", "frobenius", "spectral", "bytes", "error"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the same table in every format, entered."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 90
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 70, n),
            "income": rng.lognormal(10, 1, n).round(2),
            "city": rng.choice(["Rome", "Oslo", "Lima"], n),
        }
    )
    frame["price"] = np.sin(frame["age"] / 9) + np.log(frame["income"]) / 3 + (frame["city"] == "Oslo")
    frame["kind"] = np.where(frame["price"] > frame["price"].median(), "dear", "cheap")
    frame.to_csv("homes.csv", index=False)
    frame.to_parquet("homes.parquet")
    X = frame[["age", "income", "price"]].to_numpy()
    np.save("homes.npy", X)
    np.savez("homes.npz", X=X[:, :2], y=X[:, 2])
    return frame


def failure(capsys, *arguments, code=2):
    assert run(list(arguments)) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    message = captured.err.strip().splitlines()[-1]
    assert message.startswith("bochner: ")
    return message


def test_compare_is_the_python_function(folder, capsys):
    options = ["--maps", "fourier:orthogonal,nystrom:auto,Nystroem", "--components", "8,16", "--runs", "2"]
    assert (
        run(["compare", "homes.csv", "-t", "price", "--drop", "kind", "--drop", "city", *options, "--csv", "runs.csv"])
        == 0
    )
    X = StandardScaler().fit_transform(folder[["age", "income"]].to_numpy(dtype=float))
    maps = ["fourier:orthogonal", "nystrom:auto", "Nystroem"]
    expected = bochner.compare(X, folder["price"].to_numpy(), maps=maps, n_components=[8, 16], n_runs=2)
    written = pd.read_csv("runs.csv")
    pd.testing.assert_frame_equal(written[NUMBERS], expected[NUMBERS], rtol=1e-12, check_dtype=False)
    out = capsys.readouterr().out
    assert "The report is in report.html" in out
    assert out.count(" * ") == out.count("* recommended") == 1  # the row, and what its star says
    for name in (*maps, "exact kernel", "linear model", "constant"):
        assert name in out
    assert Path("report.html").read_text().startswith("<!doctype html>")


def test_what_was_left_out_is_said_on_the_screen_and_in_the_report(folder, monkeypatch, capsys):
    monkeypatch.setattr("bochner.comparison.references._QUICK", 0.0)
    few = ["--maps", "fourier:iid", "--components", "2", "--runs", "1"]
    assert run(["compare", "homes.npz", *few]) == 0
    word = "exact kernel was left out"
    assert word in " ".join(capsys.readouterr().out.split())
    assert word in Path("report.html").read_text()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("target", [True, False])
def test_nothing_is_cut_off_on_a_terminal(width, target):
    from rich.console import Console

    from bochner.cli.compare import ranking
    from bochner.comparison.compare import run_comparison

    X, y = load_diabetes(return_X_y=True)
    found = run_comparison(
        X, 1e4 * y if target else None, maps=["fourier:fastfood_fft", "nystrom:auto"], n_components=[64], n_runs=1
    )
    screen = Console(width=width, record=True)
    screen.print(ranking(found, width))
    text = screen.export_text()
    assert "…" not in text
    assert "fourier:fastfood_fft" in text
    assert len(text.splitlines()) == 1 + 2 + 3 * target
    assert ("transform" in text) == (width == 120)


@pytest.mark.parametrize("file", ["homes.csv", "homes.parquet", "homes.npy", "homes.npz"])
def test_every_format_is_the_same_table(file, folder):
    drop = ["kind", "city"] if file.endswith(("csv", "parquet")) else []
    target = {"homes.npy": "-1", "homes.npz": None}.get(file, "price")
    table = tables.load_table(file, RowOptions(target=target, drop=drop), standardize=False)
    np.testing.assert_allclose(table.X, folder[["age", "income"]])
    np.testing.assert_allclose(table.y, folder["price"])


def test_compare_needs_no_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    few = ["--maps", "fourier:auto", "--components", "16", "--runs", "1", "--reference", "100"]
    assert run(["compare", *few, "-o", "r.html", "--picture", "p.png"]) == 0
    assert "digits" in capsys.readouterr().out
    assert Path("p.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("target", ["price", "kind"])
def test_fit_and_predict_are_the_python_models(target, folder, capsys):
    other = {"price": "kind", "kind": "price"}[target]
    arguments = ["-t", target, "--drop", other, "--components", "32", "--out", "model.bochner"]
    assert run(["fit", "homes.csv", *arguments]) == 0
    assert "32 components" in capsys.readouterr().out
    assert run(["predict", "model.bochner", "homes.parquet", "--out", "predictions.csv"]) == 0
    cities = np.stack([folder["city"] == city for city in ("Lima", "Oslo", "Rome")], axis=1)
    X = StandardScaler().fit_transform(np.hstack([folder[["age", "income"]].to_numpy(dtype=float), cities]))
    kind = bochner.KernelRidge if target == "price" else bochner.KernelClassifier
    expected = kind(n_components=32, random_state=0).fit(X, folder[target].to_numpy(str if target == "kind" else float))
    found = pd.read_csv("predictions.csv")["prediction"].to_numpy()
    if target == "price":
        np.testing.assert_allclose(found, expected.predict(X), rtol=1e-9)
    else:
        assert (found == expected.predict(X)).all()
        assert run(["predict", "model.bochner", "homes.csv", "--out", "p.npz", "--probabilities"]) == 0
        with np.load("p.npz") as written:
            np.testing.assert_allclose(written["probability of dear"], expected.predict_proba(X)[:, 1], rtol=1e-9)


def test_predict_takes_what_python_saved(folder, capsys):
    X, y = load_diabetes(return_X_y=True)
    model = bochner.KernelRidge(n_components=16, random_state=0).fit(X, y)
    bochner.save(model, "saved.bochner")
    np.save("rows.npy", X[:7])
    assert run(["predict", "saved.bochner", "rows.npy", "--out", "-"]) == 0
    out = capsys.readouterr().out.split()
    assert out[0] == "prediction"
    np.testing.assert_allclose(np.array(out[1:], float), model.predict(X[:7]), rtol=1e-9)


def test_predict_takes_an_array_with_or_without_its_target(folder):
    assert run(["fit", "homes.npy", "-t", "2", "--components", "16", "--out", "m"]) == 0
    np.save("new.npy", folder[["age", "income"]].to_numpy())
    assert run(["predict", "m", "homes.npy", "--out", "a.npy"]) == 0
    assert run(["predict", "m", "new.npy", "--out", "b.npy"]) == 0
    np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))


def test_many_rows_of_parquet_are_streamed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tables, "_SAMPLE_ROWS", 300)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2)) * [1.0, 50.0]
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": np.sin(X[:, 0]) + X[:, 1] / 50})
    frame.to_parquet("many.parquet", row_group_size=100)
    table = tables.load_table("many.parquet", RowOptions(target="y"), all_rows=True)
    assert len(table.X) == 300
    assert table.source.n_samples == 1000
    assert run(["fit", "many.parquet", "-t", "y", "--components", "64", "--out", "m"]) == 0
    assert run(["predict", "m", "many.parquet", "--out", "p.npy"]) == 0
    expected = bochner.KernelRidge(n_components=64, random_state=0).fit(table.source)
    scaled = pd.DataFrame(table.recipe.numbers(X), columns=["a", "b"])
    np.testing.assert_allclose(np.load("p.npy"), expected.predict(scaled), rtol=1e-9)


def test_text_is_text_in_many_rows_of_parquet_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tables, "_SAMPLE_ROWS", 300)
    frame = pd.DataFrame({"a": np.arange(1000.0), "zone": np.arange(1000) % 3, "y": np.arange(1000.0)})
    frame.to_parquet("many.parquet", row_group_size=100)
    table = tables.load_table("many.parquet", RowOptions(target="y", text=["zone"]), all_rows=True)
    assert table.recipe.categories == {"zone": ["0", "1", "2"]}
    assert table.X.shape == (1000, 4)


def test_time_chooses_the_columns(folder, capsys):
    arguments = ["-t", "price", "--drop", "kind", "--drop", "city", "--time", "5", "--out", "m"]
    assert run(["fit", "homes.csv", *arguments, "--model", "kernel"]) == 0
    assert "predicted to take" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["price", "kind"])
def test_fit_learns_a_table_as_it_is(target, folder, capsys):
    """Text, dates as text and gaps; the model is that of Python, and scores stand beside those of plain models."""
    folder["sold"] = pd.date_range("2024-01-01", periods=90, freq="31h").astype(str)
    folder.loc[3, "income"] = np.nan
    folder.to_csv("sales.csv", index=False)
    other = {"price": "kind", "kind": "price"}[target]
    arguments = ["-t", target, "--drop", other, "--time", "1", "--out", "m", "--report"]
    assert run(["fit", "sales.csv", *arguments]) == 0
    out = capsys.readouterr().out
    kind = bochner.TabularRegressor if target == "price" else bochner.TabularClassifier
    for words in (kind.__name__, "held out", "a linear model has", "a constant", "sold: a date", "city: 3 levels"):
        assert words in out
    X = pd.read_csv("sales.csv", parse_dates=["sold"]).drop(columns=["price", "kind"])
    expected = kind(max_seconds=1.0, random_state=0).fit(
        X, folder[target].to_numpy(float if target == "price" else str)
    )
    assert f"{expected.held_out_.score:.4f}" in out
    extra = ["--interval", "0.8"] if target == "price" else ["--probabilities"]
    assert run(["predict", "m", "sales.csv", "--out", "p.csv", *extra]) == 0
    found = pd.read_csv("p.csv")
    if target == "price":
        np.testing.assert_allclose(found["prediction"], expected.predict(X), rtol=1e-9)
        np.testing.assert_allclose(found[["lower", "upper"]], expected.predict_interval(X, 0.8), rtol=1e-9)
    else:
        assert (found["prediction"] == expected.predict(X)).all()
        np.testing.assert_allclose(found["probability of dear"], expected.predict_proba(X)[:, 1], rtol=1e-9)
    X.drop(columns="income").to_csv("less.csv", index=False)
    assert "there is no column 'income'" in failure(capsys, "predict", "m", "less.csv", "--out", "p.csv")


def test_fit_learns_arrays_and_datasets(folder, capsys):
    assert run(["fit", "homes.npy", "-t", "2", "--time", "0.5", "--out", "m"]) == 0
    np.save("new.npy", folder[["age", "income"]].to_numpy())
    assert run(["predict", "m", "homes.npy", "--out", "a.npy"]) == 0
    assert run(["predict", "m", "new.npy", "--out", "b.npy"]) == 0
    np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))
    assert run(["fit", "homes.npz", "--time", "0.5", "--out", "m"]) == 0
    np.save("wide.npy", np.ones((3, 7)))
    assert "trained on 2 features" in failure(capsys, "predict", "m", "wide.npy", "--out", "p.csv")


def test_mistakes_about_tables(folder, capsys):
    message = failure(capsys, "fit", "homes.csv", "-t", "price", "--model", "table", "--components", "8", "--out", "m")
    assert "--components is an option of --model kernel" in message
    assert "name the column with --target" in failure(capsys, "fit", "homes.csv", "--out", "m")
    assert "did you mean 'price'" in failure(capsys, "fit", "homes.csv", "-t", "prise", "--out", "m")
    folder["income"] = folder["income"].astype(str).where(folder.index != 5, "unknown")
    folder.to_csv("bad.csv", index=False)
    assert "row 6 has 'unknown'" in failure(capsys, "fit", "bad.csv", "-t", "price", "--out", "m")


def test_recommend_prints_the_page(folder, capsys):
    assert run(["recommend", "homes.npz"]) == 0
    assert "Recommendation for 90 rows of 2 features" in capsys.readouterr().out


def test_reproduce(tmp_path, capsys):
    assert run(["reproduce", "--list"]) == 0
    assert "kernel-trick" in capsys.readouterr().out
    assert run(["reproduce", "kernel-trick", "--quick", "-o", str(tmp_path)]) == 0
    assert {path.suffix for path in tmp_path.iterdir()} >= {".png", ".svg", ".csv", ".md"}
    assert "did you mean 'kernel-trick'" in failure(capsys, "reproduce", "kernel-trik")
    assert "give --all" in failure(capsys, "reproduce")
    assert "give --all" in failure(capsys, "reproduce", "kernel-trick", "--all")


def test_without_the_reproductions_it_says_where_they_are(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "bochner_reproductions", None)
    message = failure(capsys, "reproduce", "--list", code=3)
    assert "bochner_reproductions" in message
    assert "PYTHONPATH" in message


def test_without_matplotlib_nothing_is_measured(monkeypatch, capsys, folder):
    for name in ["matplotlib", *(name for name in sys.modules if name.startswith("matplotlib."))]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("charts", "report"):
        monkeypatch.delitem(sys.modules, f"bochner.comparison.{name}", raising=False)
    monkeypatch.setattr("bochner.comparison.compare.run_comparison", None)
    assert "pip install 'bochner[plot]'" in failure(capsys, "compare", "homes.npy", code=3)


def test_autotune_without_a_gpu(capsys):
    torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
    for device in ("cpu", *(() if torch.cuda.is_available() else ("cuda",))):
        assert run(["autotune", "--device", device]) == 2
        assert "GPU" in capsys.readouterr().err


def test_doctor(capsys):
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("processor", "native code", "linear algebra", "threads", "GPU", "numpy", "torch", bochner.__version__):
        assert word in out


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_of_any_size_are_standardised(sparse):
    """A column of 1e300 or 1e-300 is one like any other: its variance neither overflows nor vanishes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) + 0.5
    X[:, 2] = 7.0  # constant: left as it is
    usual = Recipe(()).standardising(scipy.sparse.csr_array(X) if sparse else X)
    for exponent in (-1000, -500, 500, 990):
        A = X * np.ldexp(1.0, [exponent, 0, 0])
        A = scipy.sparse.csr_array(A) if sparse else A
        recipe = Recipe(()).standardising(A)
        found, expected = recipe.numbers(A), usual.numbers(scipy.sparse.csr_array(X) if sparse else X)
        found, expected = (Z.toarray() if sparse else Z for Z in (found, expected))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert np.ptp(found[:, 2]) == 0.0


# -- mistakes ------------------------------------------------------------------------------------------------------


def test_a_missing_column_lists_the_nearest(folder, capsys):
    assert "did you mean 'price'" in failure(capsys, "compare", "homes.csv", "-t", "pricee")
    assert "did you mean 'income'" in failure(
        capsys, "fit", "homes.csv", "-t", "price", "--drop", "Incom", "--out", "m"
    )
    assert "numbered 0 to 2" in failure(capsys, "compare", "homes.npy", "-t", "9")


def test_text_of_many_levels_needs_a_target(tmp_path, capsys):
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": np.arange(90.0) ** 0.5, "zone": [f"z{i % 30}" for i in range(90)]}).to_csv(path, index=False)
    message = failure(capsys, "compare", str(path))
    assert "'zone' has 30 different texts" in message
    assert "name a --target, or --drop zone" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,x\n5,6\n", "column 'b' should be numbers, but row 2 has 'x'"),
        ("a,b\n1,2\n3,inf\n5,6\n", "infinity in column 'b'; replace it by a number or a gap"),
        ("a,b\n1,2\n1,2\n1,2\n", "every column was left out: a: left out: every value is the same"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 values and the table 2 columns"),
        ("a,b\n", "has a header and no rows"),
        ("", "is empty"),
    ],
)
def test_a_bad_file_says_which_row(text, message, tmp_path, capsys):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert message in failure(capsys, "compare", str(path))


def test_rows_with_gaps_can_be_left_out(tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("a,b,y\n1,2,0.5\n3,x,1\n5,,2\n7,8,\n9,10,3\n")
    table = tables.load_table(str(path), RowOptions(target="y", drop_missing=True), standardize=False)
    np.testing.assert_array_equal(table.X, [[1, 2], [9, 10]])
    np.testing.assert_array_equal(table.y, [0.5, 3])
    assert "3 rows with missing values left out" in table.notes
    assert table.n_dropped == 3


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
@pytest.mark.parametrize("header", [True, False])
def test_tables_of_text(separator, header, tmp_path):
    path = tmp_path / "table.txt"
    rows = [["1", "2.5", "-3"], ["4", "5e-1", "6"], ["7", "8", "9"]]
    path.write_text("\n".join(separator.join(row) for row in ([["a", "b", "c"]] if header else []) + rows) + "\n")
    table = tables.load_table(str(path), RowOptions(), standardize=False)
    np.testing.assert_array_equal(table.X, np.array(rows, float))
    assert table.recipe.columns == (("a", "b", "c") if header else ("0", "1", "2"))


def test_files_that_are_not_there_or_not_what_they_say(folder, capsys):
    assert "did you mean 'homes.csv'" in failure(capsys, "compare", "home.csv")
    assert "did you mean 'digits'" in failure(capsys, "compare", "digitss")
    Path("x.xlsx").write_text("1")
    assert "suffix '.xlsx' is none of .csv" in failure(capsys, "compare", "x.xlsx")
    Path("broken.npz").write_bytes(b"PK nonsense")
    assert "cannot be read" in failure(capsys, "compare", "broken.npz")
    Path("broken.parquet").write_bytes(b"nonsense")
    assert "cannot be read as Parquet" in failure(capsys, "compare", "broken.parquet")
    np.savez("named.npz", a=np.ones((3, 2)), b=np.ones(3))
    assert "should hold an array named 'X'" in failure(capsys, "compare", "named.npz")
    np.save("line.npy", np.ones(4))
    assert "a table has rows and columns" in failure(capsys, "compare", "line.npy")
    np.save("objects.npy", np.array([[{}]], dtype=object))
    assert "cannot be read as NumPy data" in failure(capsys, "compare", "objects.npy")
    assert "there is no folder 'nowhere'" in failure(capsys, "compare", "homes.npy", "-o", "nowhere/r.html")
    assert "there is no model 'm'" in failure(capsys, "predict", "m", "homes.csv", "--out", "p.csv")
    assert "is not a safetensors file" in failure(capsys, "predict", "homes.csv", "homes.csv", "--out", "p.csv")


def test_rows_that_do_not_fit_the_model(folder, capsys):
    run(["fit", "homes.csv", "-t", "price", "--drop", "kind", "--components", "8", "--out", "m"])
    folder.drop(columns="income").to_csv("less.csv", index=False)
    assert "there is no column 'income'" in failure(capsys, "predict", "m", "less.csv", "--out", "p.csv")
    np.save("wide.npy", np.ones((3, 7)))
    assert "trained on 3 features" in failure(capsys, "predict", "m", "wide.npy", "--out", "p.csv")
    assert "a table is written to .csv" in failure(capsys, "predict", "m", "homes.csv", "--out", "p.docx")
    assert "has no probabilities" in failure(capsys, "predict", "m", "homes.csv", "--out", "p.csv", "--probabilities")


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "homes.csv", "-t", "price", "--out", "m", "--report"],
        ["recommend", "homes.csv", "-t", "price"],
        ["fit", "homes.csv", "-t", "rent", "--out", "m"],
    ],
    ids=["report", "recommend", "mistake"],
)
def test_a_terminal_breaks_no_word(arguments, folder, monkeypatch, capsys):
    """Lines are at most 80 characters long, and their words are those of a file; times differ."""
    seen = []
    for terminal in (False, True):
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        monkeypatch.setenv("TERM", "dumb")  # no colours
        run(arguments)
        captured = capsys.readouterr()
        seen.append(re.sub(r"\r[^\n]*", "", captured.out + captured.err))  # without the progress of `fit`
    assert any(len(line) > 80 for line in seen[0].splitlines())
    assert all(len(line) <= 80 for line in seen[1].splitlines())
    plain, wrapped = (set(re.findall(r"[a-z]{3,}", text.lower())) for text in seen)
    assert wrapped <= plain


def test_options_that_make_no_sense(folder, capsys):
    assert "unknown map 'nope'" in failure(capsys, "compare", "homes.npy", "--maps", "nope")
    assert "--components takes numbers" in failure(capsys, "compare", "homes.npy", "--components", "a,b")
    assert "--components is a positive number or auto" in failure(
        capsys, "fit", "homes.npy", "-t", "0", "--out", "m", "--components", "many"
    )
    assert "name the column with --target" in failure(capsys, "fit", "homes.npy", "--out", "m")
    assert "has no length scale" in failure(capsys, "compare", "homes.npy", "--kernel", "linear", "--length-scale", "2")
    assert "No such option" in failure(capsys, "compare", "--nonsense")
    assert "--kernel" in failure(capsys, "compare", "homes.npy", "--kernel", "rbff")
    assert "needs numbers as targets" in failure(
        capsys, "compare", "homes.csv", "-t", "kind", "--task", "regression", "--drop", "city"
    )


def test_interrupted_with_a_report(folder, monkeypatch, capsys):
    from bochner.comparison import compare as experiment

    measure, calls = experiment._measure, []

    def interrupted(*arguments):
        calls.append(0)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(experiment, "_measure", interrupted)
    assert run(["compare", "homes.npy", "--maps", "fourier:iid", "--components", "8", "--runs", "4"]) == 130
    assert "It was interrupted" in Path("report.html").read_text()


# -- recipes -------------------------------------------------------------------------------------------------------


def test_recipes_come_back_from_their_files(folder, tmp_path):
    options = RowOptions(target="price")
    folder["zone"] = [f"z{i % 20}" for i in range(len(folder))]
    folder["sold"] = pd.date_range("2024-01-01", periods=90, freq="31h")
    folder.loc[3, "income"] = np.nan
    folder.to_parquet("all.parquet")
    table = tables.load_table("all.parquet", options)
    assert {column.plan for column in table.recipe.encoded} == {"number", "parts", "indicators", "target"}
    table.recipe.save(tmp_path / "r.json")
    found = Recipe.load(tmp_path / "r.json")
    assert replace(found, encoded=()) == replace(table.recipe, encoded=())
    new = folder[list(found.columns)].assign(zone="z99").head(7)
    np.testing.assert_array_equal(found.numbers(new), table.recipe.numbers(new))
    for text in ("{", "[]", "{}", json.dumps({"format": 1})):
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(ValueError, match="not a recipe"):
            Recipe.load(tmp_path / "r.json")
    (tmp_path / "r.json").write_text(json.dumps({"format": 9}))
    with pytest.raises(ValueError, match="later version"):
        Recipe.load(tmp_path / "r.json")


def test_columns_become_numbers_as_in_models_of_tables(folder):
    """One column for each of few texts, mean targets for many, gaps filled and indicated, identifiers left out."""
    folder["zone"], folder["id"] = [f"z{i % 20}" for i in range(90)], [f"p{i}" for i in range(90)]
    folder.loc[:9, "income"] = np.nan
    folder.to_csv("homes.csv", index=False)
    table = tables.load_table("homes.csv", RowOptions(target="price", drop=["kind"]), standardize=False)
    assert table.recipe.columns == ("age", "income", "city", "zone")
    assert table.X.shape == (90, 1 + 2 + 3 + 1)
    assert "text as numbers: city, zone" in table.notes
    assert "90 different texts in 90 rows, an identifier" in table.left_out["id"]
    np.testing.assert_array_equal(table.X[:, 2], np.arange(90) < 10)
    assert set(table.X[:10, 1]) == {folder["income"].median()}


def test_constant_columns_are_zeros():
    X = np.array([[1.0, 5.0], [3.0, 5.0]])
    np.testing.assert_array_equal(Recipe(()).standardising(X).numbers(X), [[-1, 0], [1, 0]])


def test_nearest_names():
    assert nearest("agee", ["age", "size"]) == "did you mean 'age'?"
    assert nearest("zzz", [str(i) for i in range(15)]).endswith("and 3 more.")


# -- the program ---------------------------------------------------------------------------------------------------

PROGRAM = [sys.executable, "-c", "from bochner.cli import main; main()"]


def program(*arguments, **environment):
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1", **environment}
    )


def test_a_mistake_names_the_help_of_its_command(capsys):
    assert "(bochner fit --help)" in failure(capsys, "fit", "t.csv")


def test_the_program_helps_and_fails_with_its_codes():
    done = program("--help")
    assert done.returncode == 0
    for command in ("compare", "fit", "predict", "recommend", "reproduce", "doctor", "autotune", "Exit codes"):
        assert command in done.stdout
    done = program("compare", "nosuch.csv")
    assert done.returncode == 2
    assert done.stderr.startswith("bochner: there is no file 'nosuch.csv'")


def test_without_the_extra_it_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from bochner.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 3
    assert "pip install 'bochner[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_shells_complete_commands():
    code = "import sys; sys.argv[0] = 'bochner'; from bochner.cli import main; main()"
    completion = {"_BOCHNER_COMPLETE": "complete_bash", "COMP_WORDS": "bochner co", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **completion}
    )
    assert "compare" in done.stdout.split()


def without(module, *arguments):
    """Run the program where a package is not installed."""
    code = f"import sys; sys.modules[{module!r}] = None; from bochner.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}
    )


def test_the_version():
    done = program("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"bochner {bochner.__version__}")


def test_doctor_needs_no_pandas(folder):
    done = without("pandas", "doctor")
    assert done.returncode == 0, done.stderr
    assert "native code" in done.stdout
    done = without("pandas", "fit", "homes.csv", "-t", "price", "-o", "model")
    assert done.returncode == 3
    assert "pandas: pip install 'bochner[cli]'" in done.stderr


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_doctor_needs_no_extra(module):
    """Where the command line is not installed, it says what each extra would give."""
    from bochner.backends import machines

    done = without(module, "doctor")
    assert done.returncode == 0, done.stderr
    for word in ("processor", "native code", *machines.REQUIRED, *machines.OPTIONAL):
        assert word in done.stdout
    done = without(module, "recommend", "homes.csv")
    assert done.returncode == 3
    assert f"needs {module}, which is not installed: pip install 'bochner[cli]'" in done.stderr


def test_doctor_names_the_extra_of_every_missing_package(monkeypatch, capsys):
    from bochner.backends import machines

    monkeypatch.setattr(machines, "version_of", lambda package: None if package in machines.OPTIONAL else "1.0")
    monkeypatch.setattr(machines, "gpu", lambda: "none")
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    for extra, purpose in machines.OPTIONAL.values():
        assert f"not installed; pip install 'bochner[{extra}]' for {purpose}" in out
