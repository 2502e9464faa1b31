"""libFuzzer target of the model-file loader: ``make fuzz``, or ``PYTHONPATH=tests python fuzz/load.py``.

The first byte chooses: the other bytes as a file; a golden file with bytes overwritten; or a golden file changed inside
and signed again, which is then used to predict. Anything but a ModelFileError from `load` is a finding, and so are
crashes, hangs and more than 2 GB of memory.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

os.environ.setdefault("OMP_NUM_THREADS", "1")
with atheris.instrument_imports(include=["bochner.persistence", "bochner.operators"]):
    import bochner
    from bochner.persistence import ModelFileError

from forgeries import forge, mutate, open_file, use

GOLDEN = sorted((Path(__file__).parents[1] / "tests" / "golden").glob("*.safetensors"))
FOLDER = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
BYTES = [path.read_bytes() for path in GOLDEN]
COUNTS = {"loaded": 0, "refused": 0}
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
        COUNTS["refused"] += 1
        return
    COUNTS["loaded"] += 1
    if mode > 1:
        use(model, 3)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    atheris.Setup(
        [sys.argv[0], "-rss_limit_mb=2048", "-timeout=20", "-max_len=1024", "-len_control=0", *sys.argv[1:]], one_input
    )
    atheris.Fuzz()
