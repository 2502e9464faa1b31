"""Every writer: what exists and is no regular file is written into, a link is followed, an input is never an output."""

import ast
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bochner
from bochner import FourierFeatures, KernelRidge
from bochner.cli.app import run
from bochner.cli.files import write_table
from bochner.cli.tables import Recipe
from bochner.comparison.charts import save_figure
from bochner.comparison.compare import run_comparison
from bochner.comparison.report import write_picture, write_report
from bochner.data.checkpoints import write_arrays
from bochner.outputs import replacing

SOURCES = [Path(bochner.__file__).parent, Path(__file__).parents[1] / "reproductions" / "bochner_reproductions"]
KERNEL = bochner.RBF(2.0)
FRAME = pd.DataFrame({"a": [0.5, 1.5, 2.5], "b": [1, 2, 3]})


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with a table and a model of it."""
    folder = tmp_path_factory.mktemp("inputs")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])
    frame["y"] = frame["a"] ** 2
    frame.to_csv(folder / "table.csv", index=False)
    (folder / "parts").mkdir()
    frame.to_parquet(folder / "parts" / "0.parquet")
    assert run([*FIT, str(folder / "table.csv"), "-o", str(folder / "model")]) == 0
    return folder


FIT = ["fit", "-t", "y", "--components", "8", "--alpha", "0.1", "--length-scale", "1"]
COMPARE = ["compare", "--maps", "fourier:iid", "--components", "2", "--runs", "1"]


def command(*arguments):
    assert run(list(map(str, arguments))) == 0


def comparison():
    return run_comparison(FRAME.to_numpy(), kernel=KERNEL, maps=["fourier:iid"], n_components=[2], n_runs=1)


def onnx_of(path):
    pytest.importorskip("onnx")
    bochner.export_onnx(FourierFeatures(KERNEL, 4, random_state=0).fit(np.ones((2, 3))), path)


# name: a function of a path to write, whose suffix is the last word of the name, and of the folder of inputs
WRITERS = {
    "save": lambda path, folder: bochner.save(KERNEL, path),
    "export_onnx": lambda path, folder: onnx_of(path),
    "write_arrays": lambda path, folder: write_arrays(path, {"a": np.ones(3)}, {"b": 1}),
    "Recipe.save": lambda path, folder: Recipe(("a", "b")).save(path),
    "write_report": lambda path, folder: write_report(comparison(), path),
    "write_picture": lambda path, folder: write_picture(comparison(), path),
    "save_figure .svg": lambda path, folder: save_figure(lambda figure: figure.subplots(), (2.0, 2.0), path),
    "write_table .csv": lambda path, folder: write_table(FRAME, path),
    "write_table .parquet": lambda path, folder: write_table(FRAME, path),
    "write_table .feather": lambda path, folder: write_table(FRAME, path),
    "write_table .npz": lambda path, folder: write_table(FRAME, path),
    "write_table .npy": lambda path, folder: write_table(FRAME, path),
    "fit": lambda path, folder: command(*FIT, folder / "table.csv", "-o", path),
    "predict .csv": lambda path, folder: command("predict", folder / "model", folder / "table.csv", "-o", path),
    "compare": lambda path, folder: command(*COMPARE, folder / "table.csv", "-o", path),
    "compare --csv .csv": lambda path, folder: command(
        *COMPARE, folder / "table.csv", "-o", path.with_suffix(".html"), "--csv", path
    ),
    "compare --picture .png": lambda path, folder: command(
        *COMPARE, folder / "table.csv", "-o", path.with_suffix(".html"), "--picture", path
    ),
}
every_writer = pytest.mark.parametrize("name", WRITERS)


def suffix_of(name):
    return name.split()[-1] if "." in name.split()[-1][:1] else ""


@every_writer
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX")
def test_a_pipe_is_written_into(name, inputs, tmp_path):
    plain, pipe = (tmp_path / f"{stem}{suffix_of(name)}" for stem in ("plain", "pipe"))
    WRITERS[name](plain, inputs)
    os.mkfifo(pipe)
    content = []
    reader = threading.Thread(target=lambda: content.append(pipe.read_bytes()), daemon=True)
    reader.start()
    WRITERS[name](pipe, inputs)
    reader.join(60.0)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert content
    assert len(content[0]) == pytest.approx(plain.stat().st_size, rel=0.1)
    assert content[0][:8] == plain.read_bytes()[:8]


@every_writer
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_followed_and_permissions_are_kept(name, exists, inputs, tmp_path):
    target, link = tmp_path / "elsewhere" / f"target{suffix_of(name)}", tmp_path / f"link{suffix_of(name)}"
    target.parent.mkdir()
    link.symlink_to(target)
    if exists:
        target.write_bytes(b"old")
        target.chmod(0o640)
    WRITERS[name](link, inputs)
    assert link.is_symlink()
    assert target.is_file()
    assert target.read_bytes() not in (b"", b"old")
    assert not exists or stat.S_IMODE(target.stat().st_mode) == 0o640
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="POSIX")
def test_a_device_stays_a_device(inputs, tmp_path):
    device = tmp_path / "null"  # nothing is lost if the test fails
    device.symlink_to(os.devnull)
    command(*FIT, inputs / "table.csv", "-o", device)
    command("predict", inputs / "model", inputs / "table.csv", "-o", device)
    assert stat.S_ISCHR(device.stat().st_mode)
    assert list(tmp_path.iterdir()) == [device]


@pytest.mark.parametrize("exists", [True, False])
def test_an_interruption_loses_nothing(exists, tmp_path):
    path = tmp_path / "p.csv"
    if exists:
        path.write_text("old")

    def interrupted():
        with replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"] * exists


def test_a_model_behind_a_link_finds_its_columns_under_both_names(inputs, tmp_path, capsys):
    latest, model = tmp_path / "latest", tmp_path / "model-3"
    latest.symlink_to(model)
    command(*FIT, inputs / "table.csv", "-o", latest)
    outputs = []
    for name in (latest, model):
        capsys.readouterr()
        command("predict", name, inputs / "table.csv")
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "model-3", "model-3.columns.json"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX")
def test_a_checkpoint_that_is_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="must be a regular file"):
        KernelRidge(KERNEL, 4, checkpoint=tmp_path / "pipe").fit(np.ones((3, 2)), np.ones(3))


def test_a_checkpoint_behind_a_link_is_removed_and_the_link_stays(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    rows = np.random.default_rng(0).normal(size=(20, 2))
    KernelRidge(KERNEL, 4, alpha=0.1, checkpoint=link, random_state=0).fit(rows, rows[:, 0])
    assert link.is_symlink()
    assert not target.exists()


# command line with {} for the output, and the input that it must not be
CLASHES = {
    "fit": (["fit", "table.csv", "-t", "y", "-o", "{}"], "table.csv"),
    "fit a folder": (["fit", "parts", "-t", "y", "-o", "{}"], "parts/0.parquet"),
    "predict, the data": (["predict", "model", "table.csv", "-o", "{}"], "table.csv"),
    "predict, the model": (["predict", "model", "table.csv", "-o", "{}"], "model"),
    "predict, its columns": (["predict", "model", "table.csv", "-o", "{}"], "model.columns.json"),
    "compare": (["compare", "table.csv", "-o", "{}"], "table.csv"),
    "compare --csv": (["compare", "table.csv", "-o", "other.html", "--csv", "{}"], "table.csv"),
    "compare --picture": (["compare", "table.csv", "-o", "other.html", "--picture", "{}"], "table.csv"),
}


@pytest.mark.parametrize("through", ["itself", "a link", "a second name"])
@pytest.mark.parametrize("name", CLASHES)
def test_an_input_is_never_an_output(name, through, inputs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(inputs)
    arguments, clash = CLASHES[name]
    output = tmp_path / f"other{Path(clash).suffix}"
    if through == "itself":
        output = Path(clash)
    elif through == "a link":
        output.symlink_to(inputs / clash)
    else:
        output.hardlink_to(inputs / clash)
    before = (inputs / clash).read_bytes()
    assert run([str(output) if argument == "{}" else argument for argument in arguments]) == 2
    assert "is an input" in capsys.readouterr().err
    assert (inputs / clash).read_bytes() == before


def test_nothing_is_written_but_through_one_function():
    """Outside `outputs.py` no call opens a file for writing, and what saves by a path or an open file gets the file."""
    writing = {"write_text", "write_bytes", "touch", "copyfile", "mkstemp", "NamedTemporaryFile"}
    saving = {"savefig", "to_csv", "to_parquet", "to_feather", "savez", "savez_compressed"}
    found = []
    for path in [path for folder in SOURCES for path in folder.rglob("*.py") if path.name != "outputs.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            name = called.rpartition(".")[2]
            modes = [ast.unparse(value) for value in (*node.args, *(keyword.value for keyword in node.keywords))]
            opens = name == "open" and any(mode.strip("'") in ("w", "wb", "x", "xb", "a", "ab") for mode in modes)
            by_path = name in saving and modes[0] not in ("file", "complete", "buffer", "sys.stdout")
            if opens or by_path or name in writing or called in ("os.replace", "os.rename"):
                found.append(f"{path.name}:{node.lineno}: {called}")
    assert found == []
