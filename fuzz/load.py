"""libFuzzer target of the model-file loader: ``make fuzz``, or ``PYTHONPATH=tests python fuzz/load.py``.

The last byte chooses: the bytes before it as a file; a golden file with bytes overwritten; or a golden file changed
inside and signed again, which is then used to predict. Seeds are the golden files themselves, and each in every mode.
Anything but a ModelFileError from `load` is a finding, and so are crashes, hangs and more than 2 GB of memory.
"""

import os
import sys
import tempfile
import warnings
from importlib.machinery import PathFinder
from pathlib import Path

import atheris

ROOT = Path(__file__).parents[1]
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.safetensors"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The finder of an installation for development has loaders whose modules Atheris cannot instrument: it comes last.
sys.path.insert(0, str(ROOT / "src"))
sys.meta_path.insert(0, PathFinder)
with atheris.instrument_imports(include=["bochner"], exclude=["bochner._native"]):
    import bochner
    from bochner.persistence.containers import ModelFileError
    from forgeries import forge, mutate, open_file, use

    for path in GOLDEN:  # what is imported only when a model is loaded or used is instrumented, too
        use(bochner.load(path), 3)
assert type(bochner.persistence.__loader__).__name__ == "AtherisSourceFileLoader", "nothing is instrumented"

FOLDER = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
BYTES = [path.read_bytes() for path in GOLDEN]
LONGEST = 2048  # bytes of an input
os.fsync = lambda _: None  # nothing here needs to survive


def one_input(data):
    """Load one file."""
    provider = atheris.FuzzedDataProvider(data)
    mode, number = provider.ConsumeIntInRange(0, 3), provider.ConsumeIntInRange(0, len(GOLDEN) - 1)
    path = FOLDER / "model"
    if mode == 0:
        path.write_bytes(provider.ConsumeBytes(provider.remaining_bytes()))
    elif mode == 1:
        content = bytearray(BYTES[number])
        for _ in range(provider.ConsumeIntInRange(1, 4)):
            content[provider.ConsumeIntInRange(0, len(content) - 1)] = provider.ConsumeIntInRange(0, 255)
        path.write_bytes(content)
    else:
        about, tensors = open_file(GOLDEN[number])
        for _ in range(provider.ConsumeIntInRange(1, 4)):
            mutate(about, tensors, lambda n: provider.ConsumeIntInRange(0, n - 1))
        try:
            forge(path, about, tensors)
        except KeyError:
            return
    try:
        model = bochner.load(path)
    except ModelFileError:
        return
    if mode > 1:
        use(model, 3)


def write_seeds(folder):
    """Write the inputs to begin with; numbers are taken from the end of an input, the mode first."""
    folder.mkdir()
    for number, content in enumerate(BYTES):
        if len(content) + 2 <= LONGEST:
            (folder / f"{number}").write_bytes(content + bytes([number, 0]))
        for mode in (1, 2):
            (folder / f"{number}.{mode}").write_bytes(bytes([*range(16), number, mode]))
    return str(folder)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    limits = ["-rss_limit_mb=2048", "-timeout=20", f"-max_len={LONGEST}", "-len_control=0"]
    atheris.Setup([sys.argv[0], *limits, *sys.argv[1:], write_seeds(FOLDER / "seeds")], one_input)
    atheris.Fuzz()
