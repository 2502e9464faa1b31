"""Files as users have them: what is assumed, what is said, and what is refused."""

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bochner.cli import scores
from bochner.cli.app import run
from bochner.cli.columns import with_dates
from bochner.cli.errors import DataError
from bochner.cli.files import TextFormat, read
from bochner.cli.scores import Scores, beside_plain_models
from bochner.cli.tables import Recipe, as_task, extremes
from bochner.estimators.ridge import KernelRidge
from bochner.tables.held_out import HeldOut

N = 40
FRAME = pd.DataFrame(
    {
        "size": np.random.default_rng(0).uniform(1000, 9000, N).round(2),
        "weight": np.random.default_rng(1).normal(size=N).round(3),
        "city": np.random.default_rng(2).choice(["Zürich", "Oslo", "Lima"], N),
    }
).assign(price=lambda f: (f["size"] / 100 + 3 * f["weight"]).round(2))


def german(value):
    return f"{value:,.3f}".replace(",", "_").replace(".", ",").replace("_", ".")


def text_of(number, separator):
    """FRAME as a text file, numbers written by a function."""
    rows = [list(FRAME.columns)]
    rows += [[c if isinstance(c, str) else number(c) for c in row] for row in FRAME.itertuples(index=False)]
    return "\n".join(separator.join(f'"{c}"' if separator in c else c for c in row) for row in rows) + "\n"


WRITTEN = {
    "plain": (text_of(str, ","), "utf-8", "separated by ',', decimal point"),
    "semicolons": (text_of(str, ";"), "utf-8", "separated by ';', decimal point"),
    "tabs": (text_of(str, "\t"), "utf-8", "separated by tabs, decimal point"),
    "decimal commas": (text_of(lambda v: str(v).replace(".", ","), ";"), "utf-8", "separated by ';', decimal comma"),
    "quoted commas": (text_of(lambda v: str(v).replace(".", ","), ","), "utf-8", "separated by ',', decimal comma"),
    "German thousands": (text_of(german, ";"), "utf-8", "separated by ';', decimal comma"),
    "English thousands": (text_of(lambda v: f"{v:,.3f}", ","), "utf-8", "separated by ',', decimal point"),
    "Swiss thousands": (text_of(lambda v: f"{v:,.3f}".replace(",", "'"), ";"), "utf-8", "separated by ';', decimal"),
    "Windows": (text_of(str, ","), "cp1252", "cp1252"),
    "UTF-16": (text_of(str, ","), "utf-16", "utf-16"),
    "byte order mark": (text_of(str, ","), "utf-8-sig", "utf-8"),
    "gzip": (text_of(str, ","), "gzip", "decimal point"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_table_is_the_same_however_it_is_written(name, tmp_path):
    text, encoding, said = WRITTEN[name]
    path = tmp_path / ("table.csv.gz" if encoding == "gzip" else "table.csv")
    path.write_bytes(gzip.compress(text.encode()) if encoding == "gzip" else text.encode(encoding))
    raw = read(str(path))
    pd.testing.assert_frame_equal(raw.frame, FRAME, check_dtype=False, rtol=1e-12)
    assert said in raw.notes[0]


def test_bytes_that_are_not_utf8_may_come_late(tmp_path):
    path = tmp_path / "late.csv"
    path.write_bytes(("a,b\n" + 60_000 * "12345,x\n" + "1,Zürich\n").encode("cp1252"))
    raw = read(str(path))
    assert raw.frame["b"].iloc[-1] == "Zürich"
    assert "cp1252" in raw.notes[0]


def test_what_is_said_overrules_what_is_seen(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1,234;x\n2,345;y\n")
    assert read(str(path)).frame["a"].tolist() == [1.234, 2.345]
    assert read(str(path), TextFormat(decimal=".")).frame["a"].tolist() == [1234.0, 2345.0]
    assert read(str(path), TextFormat("|")).frame.shape == (2, 1)
    path.write_bytes("a\nß\n".encode("cp850"))
    assert read(str(path), TextFormat(encoding="cp850")).frame["a"].tolist() == ["ß"]


def failure(capsys, *arguments):
    assert run(list(arguments)) == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,y\n1,5\n2,5\n3,5\n", [], "the target 'y' is 5 in every row: there is nothing to learn"),
        ("a,y\n1,2\n2,x\n3,5\n", [], "the target 'y' looks like numbers, but row 2 (line 3) has 'x'"),
        ("a;y\n1;2,5\n2;3.5\n3;5,1\n", [], "the target 'y' looks like numbers ('2,5') and is text"),
        ("a;y\n1,5;2.5\n0,5;3.5\n1,1;5.1\n", [], "column 'a' is text that looks like numbers ('1,5')"),
        ("a,y\n1,\n2,\n3,\n", [], "the target 'y' is empty in every row"),
        ("a,y\n1,u\n2,v\n3,w\n", [], "the target 'y' has another text in each of the 3 rows"),
        ("a,y\n1,2\n?,3\n?,4\n2,4\n3,5\n", [], "row 2 has '?'; correct the file, or say what it is: --gap '?'"),
        ("a,y\n?,2\n?,3\n?,4\n1,4\n2,5\n", [], "column 'a' should be numbers, but row 1 has '?'"),
        ("a,y\n€ 1,2\n€ 2,3\nfree,4\n€ 3,4\n", [], "column 'a' should be numbers, but row 3 has 'free'"),
        ("a,y\n2024-01-01,2\n2024-02-30,3\n2024-03-01,4\n", [], "should be dates, but row 2 has '2024-02-30'"),
        ("a,y\n1,2\n2,3\n", ["--text", "b"], "--text: there is no column 'b'"),
        ("a,y\n1,2\n\0,3\n", [], "is no text: it holds zero bytes"),
        ("y,y\n1,2\n2,3\n3,5\n", [], "2 columns are called 'y'; give each a name of its own"),
        ("y\n1\n2\n", [], "no column besides the target"),
        ("a,y\n1,2,3\n", [], "has 2 names and the next 3 values"),
        ("a b,y\n1,2\nu,3\n2,5\n3,5\n", [], "--drop 'a b'"),
        ("a,y\n1,2\n", ["--sep", "ab"], "--sep is one character"),
        ("a,y\n1,2\n", ["--encoding", "klingon"], "there is no encoding 'klingon'"),
        ("a,y\n1,1e200\n2,1e201\n3,5\n", [], "the largest target is 1e+201"),
    ],
)
def test_what_cannot_be_learned_says_why(text, options, message, tmp_path, capsys):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert message in failure(capsys, "fit", str(path), "-t", "y", "-o", str(tmp_path / "m"), *options)


def test_dates_are_read_however_they_are_written():
    days = pd.date_range("2024-01-01", periods=60, freq="7D")
    months = ("%d-%b-%Y", "%d-%b-%y", "%d %B %Y", "%B %d, %Y", "%b %d, %Y %H:%M")
    short = ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y %H:%M")
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y %H:%M", "%Y/%m/%d", *short, *months):
        frame, formats, notes = with_dates(pd.DataFrame({"day": days.strftime(form)}))
        assert (frame["day"] == days).all(), form
        assert formats["day"] == ("ISO8601" if form.startswith("%Y") else form)
        assert notes[0].endswith("2024-01-01; years of two digits are 1969 to 2068" if "%y" in form else "2024-01-01")
        assert with_dates(frame.assign(day=days.strftime(form)), Recipe(("day",), dates=formats))[2] == ()
    seasons = pd.DataFrame({"day": ["2024-01-01T13:30:00+01:00", "2024-07-01T13:30:00+02:00", None]})
    frame, formats, _ = with_dates(seasons)  # the moments, in UTC
    assert frame["day"].dt.strftime("%d.%m. %H:%M").tolist()[:2] == ["01.01. 12:30", "01.07. 11:30"]
    assert frame["day"].isna().tolist() == [False, False, True]
    pd.testing.assert_frame_equal(with_dates(seasons, Recipe(("day",), dates=formats))[0], frame)
    few = pd.DataFrame({"day": ["01/02/2024", "03/04/2024"]})
    frame, formats, notes = with_dates(few)
    assert (frame["day"] == few["day"]).all()
    assert formats == {}
    assert "may be %d/%m/%Y or %m/%d/%Y" in notes[0]
    frame, _, _ = with_dates(few, Recipe(("day",), dates={"day": "%d/%m/%Y"}))  # as in training
    assert frame["day"].dt.month.tolist() == [2, 4]
    with pytest.raises(DataError, match="written as 2024-12-31 in training, but row 1 has '01/02/2024'"):
        with_dates(few, Recipe(("day",), dates={"day": "ISO8601"}))


def test_dates_that_are_not_written_as_in_training_are_read_with_a_note():
    text, recipe = pd.DataFrame({"day": ["12/31/2024", "01/02/2025"]}), Recipe(("day",), dates={"day": "%d/%m/%Y"})
    frame, _, notes = with_dates(text, recipe)
    assert frame["day"].dt.month.tolist() == [12, 1]
    assert notes == (
        "column 'day': dates, 12/31/2024 is read as 2024-12-31; in training dates were written as 31/12/2024",
    )


def test_times_are_hours():
    for times in (["12:30", "00:15", None, "23:00"], ["12:30:00", "00:15:00", None, "23:00:00"]):
        frame, formats, notes = with_dates(pd.DataFrame({"at": times}))
        np.testing.assert_array_equal(frame["at"], [12.5, 0.25, np.nan, 23.0])
        assert f"{times[0]} is read as 12.5 hours" in notes[0]
        again = with_dates(pd.DataFrame({"at": times[:1]}), Recipe(("at",), dates=formats))[0]
        assert again["at"].tolist() == [12.5]
        with pytest.raises(DataError, match=r"be times of day, written as 12:30.* in training, but row 1 has"):
            with_dates(pd.DataFrame({"at": ["noon"]}), Recipe(("at",), dates=formats))
    unlike = pd.DataFrame({"at": ["12:30", "noon", "dusk"]})
    assert (with_dates(unlike)[0]["at"] == unlike["at"]).all()


def test_a_month_may_be_its_own_short_form():
    frame, formats, _ = with_dates(pd.DataFrame({"day": ["01 May 2024", "31 May 2024"]}))
    assert frame["day"].dt.month.tolist() == [5, 5]
    assert formats == {"day": "%d %b %Y"}


def a_table(tmp_path, text, **options):
    path = tmp_path / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(str(path), TextFormat(**options))


@pytest.mark.parametrize(
    ("separator", "cells", "numbers"),
    [
        (",", ["12.5%", "-3 %", "0.1%"], [12.5, -3.0, 0.1]),
        (";", ["12,5%", "-3,0 %", "0,1%"], [12.5, -3.0, 0.1]),
        (";", ["$1,234.50", "-$2", "$0.5"], [1234.5, -2.0, 0.5]),
        (";", ["1.234,50 €", "2 €", "-0,5 €"], [1234.5, 2.0, -0.5]),
        (";", ["EUR 1", "EUR 2.5", "EUR 3"], [1.0, 2.5, 3.0]),
        (",", ["\u22121.5", "2", "\u22120.25"], [-1.5, 2.0, -0.25]),  # a minus sign, not a hyphen
        (";", ["\u22121.234,5 €", "2 €", "7 €"], [-1234.5, 2.0, 7.0]),
        (",", ["(1.5)", "2", "3.25"], [-1.5, 2.0, 3.25]),  # as accountants write -1.5
        (";", ["($1,234.50)", "$2", "$7"], [-1234.5, 2.0, 7.0]),
        (",", ["(a)", "2", "3"], None),
        (",", ["(-1)", "2", "3"], None),
        (";", ["$1", "€2", "$3"], None),  # of several currencies
        (";", ["1%", "2", "3"], None),
        (";", ["A1", "A2", "A3"], None),
    ],
)
def test_numbers_may_have_a_unit(separator, cells, numbers, tmp_path):
    raw = a_table(tmp_path, f"a{separator}b\n" + "".join(f"{cell}{separator}u\n" for cell in cells))
    assert raw.frame["a"].tolist() == (numbers or cells)
    assert (f"column 'a': {cells[0]} is read as" in " ".join(raw.notes)) is (numbers is not None)


def test_codes_are_text(tmp_path):
    """Digits that a number would lose: leading zeros, and more than 64 bits hold."""
    text = "zip,account,n,y\n01067,123456789012345678901,1,2\n10115,123456789012345678902,0,3\n,3,-2,5\n"
    raw = a_table(tmp_path, text)
    assert raw.texts == ("zip", "account")
    assert raw.frame["zip"].tolist()[:2] == ["01067", "10115"]
    assert raw.frame["zip"].isna().tolist() == [False, False, True]
    assert raw.frame["account"].nunique() == 3
    assert raw.frame["n"].tolist() == [1, 0, -2]
    assert "column 'zip': 01067 is a code" in raw.notes[1]
    assert a_table(tmp_path, text, texts=("n",)).frame["n"].tolist() == ["1", "0", "-2"]


def test_gaps_are_what_the_user_says(tmp_path):
    text = "country,a\nNA,1\nDE,?\nNA,3\n"
    raw = a_table(tmp_path, text)
    assert raw.frame["country"].isna().sum() == 2
    assert "NA read as gaps" in raw.notes[1]
    raw = a_table(tmp_path, text, gaps=("?",))
    assert raw.frame["country"].tolist() == ["NA", "DE", "NA"]
    np.testing.assert_array_equal(raw.frame["a"], [1.0, np.nan, 3.0])


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("sep=;\na;b\n1,5;x\n2,5;y\n", "1 line before the table left out: sep=;"),
        ("# by a logger, 2024\n# degrees\na,b\n1.5,x\n2.5,y\n", "2 lines before the table left out: # by a logger"),
        ("a ,b\n1.5,x\n2.5,y \n", "separated by ','"),
        ("a,b,c\n1.5,x,1\n2.5,y\n", "row 2: fewer values than the 3 columns"),
    ],
)
def test_what_stands_around_a_table_is_no_part_of_it(text, note, tmp_path):
    raw = a_table(tmp_path, text)
    assert raw.frame["a"].tolist() == [1.5, 2.5]
    assert raw.frame["b"].tolist() == ["x", "y"]
    assert note in " ".join(raw.notes)


@pytest.mark.parametrize(
    ("content", "kind"),
    [(gzip.compress(b"a,b\n1,2\n", mtime=0), "csv.gz"), (b"PK\x03\x04..", "spreadsheet"), (b"PAR1..", "Parquet")],
)
def test_a_file_that_is_no_text_is_named(content, kind, tmp_path):
    with pytest.raises(DataError, match=kind):
        a_table(tmp_path, content)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = FRAME.assign(id=[f"c{i}" for i in range(N)], row=np.arange(N))
    frame.to_csv("train.csv", index=False)
    new = frame.head(6).copy()
    new.loc[0, "city"], new.loc[1, "size"] = "Bonn", np.nan
    new.to_csv("new.csv", index=False, sep=";", decimal=",")
    return frame


@pytest.mark.parametrize("kind", ["table", "kernel"])
def test_predictions_keep_columns_and_tell_of_what_is_new(kind, folder, capsys):
    extra = ["--time", "0.5"] if kind == "table" else ["--components", "16"]
    assert run(["fit", "train.csv", "-t", "price", "--drop", "id", "--drop", "row", "-o", "m", *extra]) == 0
    capsys.readouterr()
    assert run(["predict", "m", "new.csv", "-o", "p.csv", "--keep", "id", "--drop-missing"]) == 0
    said = capsys.readouterr().err
    assert "decimal comma" in said
    assert "1 row with missing values left out" in said
    assert "column 'city': 1 row with values that training did not have: 'Bonn'" in said
    assert "the file holds the target: R²" in said
    found = pd.read_csv("p.csv")
    assert found.columns.tolist() == ["id", "row", "prediction"]
    assert found["id"].tolist() == ["c0", "c2", "c3", "c4", "c5"]
    assert found["row"].tolist() == [1, 3, 4, 5, 6]
    assert run(["predict", "m", "new.csv", "-o", "p.feather"]) == 0
    assert "column 'size': 1 gap, filled as in training" in capsys.readouterr().err
    assert len(pd.read_feather("p.feather")) == 6
    message = failure(capsys, "predict", "m", "new.csv", "-o", "p.csv", "--keep", "idd")
    assert "--keep: there is no column 'idd'; did you mean 'id'" in message


@pytest.mark.parametrize("kind", ["table", "kernel"])
def test_new_rows_are_read_as_those_of_training(kind, folder, capsys):
    """Where a file leaves open what 7.780 is, what a code is and what a gap is, training decides."""
    folder = folder.drop(columns=["id", "row"]).assign(zip=np.where(np.arange(N) % 2, "01067", "10115"))
    cells = folder.copy()
    cells["size"] = [f"{1000 * round(v):,}".replace(",", ".") for v in folder["size"]]  # 7.780.000
    cells["weight"], cells["price"] = ([f"{v:.2f}".replace(".", ",") for v in folder[c]] for c in ("weight", "price"))
    cells.loc[3, "city"] = "?"
    cells.to_csv("german.csv", sep=";", index=False)
    assert run(["fit", "german.csv", "-t", "price", "-o", "m", "--model", kind, "--gap", "?"]) == 0
    columns = ["size", "weight", "city", "zip"]
    whole = cells[columns].iloc[[0, 1, 2, 3]].assign(weight=["1", "0", "1", "0"])  # nothing with a comma
    whole.to_csv("whole.csv", sep=";", index=False)
    whole.assign(weight=["1,0", "0,0", "1,0", "0,0"]).to_csv("commas.csv", sep=";", index=False)
    found = []
    for name in ("whole", "commas"):
        assert run(["predict", "m", f"{name}.csv", "--keep", "zip", "-o", "p.csv"]) == 0
        found.append(pd.read_csv("p.csv", dtype={"zip": str}))
    pd.testing.assert_frame_equal(*found)
    assert found[0]["zip"].tolist()[:2] == ["10115", "01067"]
    assert "training did not have" not in capsys.readouterr().err
    whole.iloc[[0, 2]].to_csv("no-zeros.csv", sep=";", index=False)  # the codes that are left look like numbers
    assert run(["predict", "m", "no-zeros.csv", "-o", "p.csv"]) == 0
    np.testing.assert_allclose(pd.read_csv("p.csv")["prediction"], found[0]["prediction"][[0, 2]])


def test_numbers_far_beyond_training_are_told_of(folder, capsys):
    assert run(["fit", "train.csv", "-t", "price", "--drop", "id", "-o", "m"]) == 0
    folder.head(3).assign(size=[5000.0, 9500.0, 5e6], weight="x").to_csv("far.csv", index=False)
    assert "column 'weight' held numbers in training, but row 1 has 'x'" in failure(capsys, "predict", "m", "far.csv")
    folder.head(3).assign(size=[5000.0, 9500.0, 5e6]).to_csv("far.csv", index=False)
    assert run(["predict", "m", "far.csv"]) == 0
    assert "column 'size': 1 row far beyond training's" in (said := capsys.readouterr().err)
    assert "such as 5e+06" in said


def test_columns_are_kept_as_they_are_written(folder):
    assert run(["fit", "train.csv", "-t", "price", "--drop", "id", "-o", "m"]) == 0
    ids = ["007", "9007199254740993", "12"]
    new = folder.head(3).assign(id=ids, account=["9007199254740993", "", "4"], code=["NA", "x", " y"], n=[1, 2, 3])
    new.to_csv("ids.csv", index=False)
    keep = [word for name in ("id", "account", "code", "n", "size") for word in ("--keep", name)]
    assert run(["predict", "m", "ids.csv", *keep, "-o", "p.csv"]) == 0
    kept = pd.read_csv("p.csv", dtype=str, keep_default_na=False)
    assert kept["id"].tolist() == ids
    assert kept["account"].tolist() == ["9007199254740993", "", "4"]
    assert kept["code"].tolist() == ["NA", "x", "y"]
    assert run(["predict", "m", "ids.csv", *keep, "-o", "p.feather"]) == 0
    kept = pd.read_feather("p.feather")
    assert kept["n"].dtype.kind == "i"
    assert kept["size"].dtype.kind == "f"


def test_gaps_are_counted_and_text_is_text_where_the_user_says_so(tmp_path, capsys):
    frame = FRAME.assign(month=np.arange(N) % 12, size=FRAME["size"].where(np.arange(N) % 8 > 0))
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        fit = ["fit", str(tmp_path / name), "-t", "price", "--text", "month", "-o", str(tmp_path / "m"), "--json"]
        assert run(fit) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["columns"]["encoded"] == ["city", "month"]
        assert "gaps: size 5" in err
        assert run(["predict", str(tmp_path / "m"), str(tmp_path / name)]) == 0
        assert "training did not have" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["compare", "recommend"])
def test_what_a_message_offers_every_command_takes(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = FRAME.astype(str).assign(month=(np.arange(N) % 12).astype(str))
    cells.loc[3, "size"] = "?"
    cells.to_csv("t.csv", index=False)
    asked = [command, "t.csv", "-t", "price"]
    asked += (
        ["--maps", "fourier:iid", "--components", "4", "--runs", "1", "-o", "r.html"] if command == "compare" else []
    )
    assert "--gap '?'" in failure(capsys, *asked)
    assert run([*asked, "--gap", "?", "--drop-missing", "--text", "month"]) == 0
    assert "text as numbers: city, month" in capsys.readouterr().err


def test_the_verdict_is_honest():
    held_out = HeldOut("R²", 0.8, 0.1, 0.0, True, 100, "somehow")
    assert "no better than a constant" in Scores(replace(held_out, beats_constant=False), 0.05).verdict
    assert "a linear model is as good" in Scores(held_out, 0.8).verdict
    assert Scores(held_out, 0.7).verdict is None
    assert Scores(replace(held_out, score=np.nan, beats_constant=False), np.nan).verdict is None


@pytest.mark.parametrize("kind", ["table", "kernel"])
@pytest.mark.parametrize("form", ["csv", "npz"])
def test_rows_without_a_target_are_dropped_and_no_others(kind, form, folder, capsys):
    """Rows with gaps elsewhere are kept, if the model takes them."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0].copy()
    y[:20] = np.nan
    X[30:50, 1] = np.nan if kind == "table" or form == "csv" else 1.0
    np.savez("t.npz", X=X, y=y)
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv("t.csv", index=False)
    few = ["--time", "0.3"] if kind == "table" else ["--components", "8"]
    assert run(["fit", f"t.{form}", "-t", "y", *few, "-o", "m", "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert (found["rows"], found["rows_left_out"]) == (40, 20)
    assert "20 rows dropped: the target 'y' is missing there" in captured.err


def test_the_linear_model_has_not_seen_the_targets_of_held_out_rows():
    """A text column of 300 levels and targets that are noise: means of all targets would make R² .25."""
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame({"text": rng.integers(0, 300, 900).astype(str)}), rng.normal(size=900)
    held_out = HeldOut("R²", 0.0, 0.1, 0.0, False, 900, "")
    assert abs(beside_plain_models(held_out, X, y, False).linear) < 4.0 / 900**0.5
    labels = y > 0
    assert abs(beside_plain_models(held_out, X, labels, True).linear - 0.5) < 4.0 * 0.5 / 900**0.5
    fifth = scores.held_out(KernelRidge("rbf", 16, alpha=1.0, random_state=0), X, y)
    assert fifth.model.score < 4.0 / 180**0.5
    assert fifth.linear < 4.0 / 180**0.5


def test_a_reader_may_have_seen_enough(folder):
    """`bochner predict … | head` is no failure."""
    assert run(["fit", "train.csv", "-t", "price", "--drop", "id", "-o", "m"]) == 0
    pd.concat(200 * [folder]).to_csv("long.csv", index=False)
    program = "from bochner.cli import main; main()"
    command = [sys.executable, "-c", program, "predict", "m", "long.csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "prediction\n"
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait() == 0
    assert "Error" not in said


@pytest.mark.parametrize("target", ["price", "city"])
@pytest.mark.parametrize("kind", ["table", "kernel"])
def test_json_says_what_was_done(kind, target, folder, capsys):
    drop = ["--drop", "id", "--drop", "row"] + (["--drop", "city"] if target == "price" else [])
    extra = ["--time", "0.5"] if kind == "table" else ["--components", "16"]
    assert run(["fit", "train.csv", "-t", target, *drop, *extra, "-o", "m", "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["rows"] == N
    assert found["task"] == ("regression" if target == "price" else "classification")
    assert f"the target '{target}'" in captured.err
    assert set(found["columns"]["used"]) == {"size", "weight", "price"} - {target}
    score = found["score"]
    assert score["value"] <= 1.0
    assert score["linear_model"] <= 1.0
    assert -1.0 < score["constant"] < 0.8
    if target == "price":  # it is linear
        assert score["linear_model"] > 0.99
    assert run(["predict", "m", "train.csv", "-o", "p.csv", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["rows_left_out"], said["file"]) == (N, 0, "p.csv")
    assert said["score"]["name"] == score["name"]


def test_json_of_comparisons_and_recommendations(folder, capsys):
    """Numbers are those of the report, the recommended row is marked, and what is not a number is null."""
    drop = ["--drop", "city", "--drop", "id"]
    few = ["--components", "8,16", "--runs", "1", "--maps", "fourier:iid,nystrom:auto"]
    assert run(["compare", "train.csv", "-t", "price", *drop, *few, "-o", "r.html", "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert "the target 'price'" in captured.err
    assert (found["task"], found["report"], found["picture"]) == ("regression", "r.html", None)
    (chosen,) = (row for row in found["ranking"] if row["recommended"])
    assert (chosen["map"], chosen["columns"]) == (found["verdict"]["map"], found["verdict"]["columns"])
    constant = next(row for row in found["ranking"] if row["map"] == "constant")
    assert constant["error"] > 0
    assert constant["frobenius"] is None
    assert Path("r.html").stat().st_size > 10_000
    assert run(["recommend", "train.csv", "-t", "price", *drop, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["features"] in ("fourier", "nystrom")
    assert 0 < found["n_components"] <= N
    assert found["shape"][0] == N
    assert found["trials"][0]["n_samples"] == N
    assert found["reasons"]


def test_a_column_that_numbers_the_rows_is_told_of(folder, capsys):
    assert run(["fit", "train.csv", "-t", "price", "--time", "0.3", "-o", "m"]) == 0
    captured = capsys.readouterr()
    assert "column 'row' numbers the rows: --drop row?" in captured.err
    assert "the target 'price': numbers, so regression" in captured.err
    assert "most rows have a text of their own: 'id'" in captured.err
    assert "text as numbers: city" in " ".join(captured.out.split())


def test_predictions_go_to_standard_output(folder, capsys):
    """Without --out, as text that other programs read; the score is of the rows whose target is there."""
    assert run(["fit", "train.csv", "-t", "price", "--drop", "id", "--drop", "row", "--time", "0.3", "-o", "m"]) == 0
    assert "row left out, as --drop says" in " ".join(capsys.readouterr().out.split())
    new = pd.read_csv("train.csv").head(8)
    new.loc[5:, "price"] = np.nan
    new.loc[7, "size"] = np.nan
    new.to_csv("new.csv", index=False)
    assert run(["predict", "m", "new.csv"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 9
    assert captured.out.startswith("prediction\n")
    assert "over 5 rows" in captured.err
    assert "--out FILE" in failure(capsys, "predict", "m", "new.csv", "--json")
    assert run(["predict", "m", "new.csv", "--drop-missing", "--json", "-o", "p.csv"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_left_out"] == 1  # the last one


def test_numbers_are_labels_where_the_user_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": np.arange(240.0), "zone": np.arange(240) // 4}).to_csv("t.csv", index=False)  # 60 zones
    few = ["--time", "0.3", "-o", "m", "--json"]
    assert run(["fit", "t.csv", "-t", "zone", *few]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "regression"
    assert run(["fit", "t.csv", "-t", "zone", "--task", "classification", *few]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "classification"
    assert run(["predict", "m", "t.csv"]) == 0
    captured = capsys.readouterr()
    assert "accuracy" in captured.err
    assert captured.out.splitlines()[1].isdigit()


@pytest.mark.parametrize(("form", "count"), [("{:d}", 60), ("{:03d}", 3)])
def test_labels_of_digits_are_compared_as_they_are_written_beside_gaps_too(form, count, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    zones = np.arange(240) * count // 240
    frame = pd.DataFrame({"a": np.arange(240.0) + 1000 * zones, "zone": [form.format(zone) for zone in zones]})
    frame.to_csv("t.csv", index=False)
    frame.assign(zone=frame["zone"].where(frame.index % 10 > 0)).to_csv("gaps.csv", index=False)
    assert run(["fit", "t.csv", "-t", "zone", "--task", "classification", "--time", "0.3", "-o", "m"]) == 0
    for name in ("t.csv", "gaps.csv"):
        capsys.readouterr()
        assert run(["predict", "m", name, "--json", "-o", "p.csv"]) == 0
        assert json.loads(capsys.readouterr().out)["score"]["value"] > 0.9


def test_a_number_out_of_all_proportion_is_told_of():
    frame = FRAME.assign(size=FRAME["size"].where(FRAME.index != 3, 1e300), nothing=0.0, gap=np.nan)
    (note,) = extremes(frame)
    assert note.startswith("column 'size' has 1e+300 in row 4, usually some ")
    assert extremes(FRAME) == []


@pytest.mark.parametrize(
    ("y", "task", "kind", "words"),
    [
        (np.arange(200.0), None, "f", "numbers, so regression"),
        (np.arange(200) % 5, None, "i", "whole numbers, only 5 different ones, so classification"),
        (np.arange(200) % 5, "regression", "f", "regression, as --task says"),
        (np.array(["a", "b", "b"]), None, "U", "2 different labels, so classification"),
        (np.array([1.0, 2.0, 2.0, 1.0]), "classification", "i", "classification, as --task says"),
        (np.array([400, 500, 650]), None, "i", "numbers, so regression"),  # none comes twice
        (np.arange(200), "classification", "U", "classification, as --task says"),
        (np.array([1.5, 2.0]), "classification", "U", "classification, as --task says"),
    ],
)
def test_the_task_is_guessed_with_a_reason(y, task, kind, words):
    found, why = as_task(y, task, "price")
    assert found.dtype.kind == kind
    assert why.startswith("the target 'price': ")
    assert words in why


def test_ctrl_c_ends_with_a_sentence(folder, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bochner.tables.estimators.TabularRegressor.fit", interrupted)
    assert run(["fit", "train.csv", "-t", "price", "-o", "m"]) == 130
    assert capsys.readouterr().err.strip().splitlines()[-1] == "bochner: interrupted; nothing was written."
    assert not Path("m").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["fit", "--help"],
        ["fit", "nosuch.csv", "-t", "y", "-o", "m"],
        ["fit", "t.csv", "-t", "z", "-o", "m"],
    ],
)
def test_help_and_mistakes_import_nothing_slow(arguments, tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,2\n")
    program = (
        "import sys; from bochner.cli.app import run; "
        f"run({arguments!r}); print([m for m in ('numpy', 'pandas', 'scipy', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("text", ["a,y\n1,5\n2,5\n3,5\n", "a,y\n1,2\n2,x\n3,5\n", "a,y\n1,2\nx,4\n3,5\n4,5\n"])
def test_mistakes_in_the_data_need_no_scikit_learn(text, tmp_path):
    """What is wrong with a table is said before anything is imported that only learning needs."""
    (tmp_path / "t.csv").write_text(text)
    arguments = ["fit", "t.csv", "-t", "y", "-o", "m"]
    program = (
        "import sys; from bochner.cli.app import run; "
        f"print(run({arguments!r}), [m for m in ('scipy', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == "2 []\n"
