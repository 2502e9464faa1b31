"""Long runs: memory of a stream of 50 million rows, fits that are interrupted at random points and resumed, and files
that are read ahead of the sums.

``python benchmarks/bench_streams.py [flat] [interruptions] [ahead] [--rows 50000000] [--strikes 20]`` (no part: all,
with five million rows and four strikes, which is quick).
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bochner import RBF, KernelRidge
from bochner.data.arrow import ArrowSource
from bochner.data.checkpoints import read_arrays
from bochner.data.sources import ArraySource

D, BLOCK = 10, 100_000


class Rows:
    """Blocks made from seeds, never held; says how much memory there is when certain rows have gone by."""

    def __init__(self, n, marks=()):
        self.n, self.marks, self.seen = n, marks, {}

    def __iter__(self):
        for start in range(0, self.n, BLOCK):
            X = np.random.default_rng(start).random((min(BLOCK, self.n - start), D), dtype=np.float32)
            yield X, np.sin(6.0 * X[:, 0]) + X[:, 1]
            for mark in self.marks:
                if start < mark <= start + BLOCK:
                    self.seen[mark] = memory()


def memory():
    """Peak and present memory of this process, MiB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(int(status[name].split()[0]) / 2**10 for name in ("VmHWM", "VmRSS"))


def flat(n):
    marks = [n // 5, n // 2, n]
    rows = Rows(n, marks)
    started = time.perf_counter()
    fitted = KernelRidge(RBF(0.5), 64, alpha=1.0, random_state=0).fit(rows)
    seconds = time.perf_counter() - started
    print(f"\n{n:,} × {D} rows from a generator, {fitted.n_components_} components: {seconds:.0f} s")
    print(f"{fitted.n_samples_seen_:,} rows learned, {n * D * 4 / 2**20:,.0f} MiB had they been held\n")
    print("| rows | peak memory | memory |\n|---|---|---|")
    for mark in marks:
        peak, now = rows.seen[mark]
        print(f"| {mark:,} | {peak:,.0f} MiB | {now:,.0f} MiB |")


_FIT = """
import sys
sys.path.insert(0, {here!r})
import bochner.data.checkpoints as checkpoints
from bochner import RBF, KernelRidge
from bench_streams import Rows
init = checkpoints.Checkpoint.__init__
checkpoints.Checkpoint.__init__ = lambda self, path, options, about=None, every=0.0: init(
    self, path, options, about, 0.1
)
print("ready", flush=True)
try:
    model = KernelRidge(RBF(0.5), 96, alpha=1.0, random_state=0, checkpoint={path!r}).fit(Rows({n}))
except KeyboardInterrupt:
    sys.exit(130)
print(model.component_weights_.tobytes().hex(), flush=True)
"""


def start(n, path):
    code = _FIT.format(here=str(Path(__file__).parent), path=str(path), n=n)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def strike(n, path, seconds, number):
    """One fit, struck after so many seconds, then fitted again: rows in the checkpoint, and the result."""
    process = start(n, path)
    time.sleep(seconds)
    os.kill(process.pid, number)
    done = process.communicate()[0]
    if process.returncode == 0:  # it was faster
        return None, done.strip()
    rows = read_arrays(path)[1]["rows"] if path.exists() else 0
    return rows, start(n, path).communicate()[0].strip()


def interruptions(n, strikes, seed=0):
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        process = start(n, path)
        started = time.perf_counter()
        truth = process.communicate()[0].strip()
        whole = time.perf_counter() - started
        print(f"\n{n:,} × {D} rows, a fit of {whole:.1f} s interrupted at random points\n")
        print("| # | signal | after | rows in the checkpoint | resumed |\n|---|---|---|---|---|")
        same = 0
        for i in range(strikes):
            number = (signal.SIGINT, signal.SIGKILL)[i % 2]
            seconds = draw.uniform(0.1, 0.9) * whole
            rows, found = strike(n, path, seconds, number)
            same += found == truth
            at = "was complete" if rows is None else f"{rows:,}"
            verdict = "same bits" if found == truth else "OTHER BITS"
            print(f"| {i + 1} | {number.name} | {seconds:.2f} s | {at} | {verdict} |", flush=True)
            left = list(Path(folder).iterdir())
            assert not left, left
        print(f"\n{same} of {strikes} resumed to the same bits")


def forget(path):
    """Take a file out of the page cache, so that it is read from the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def ahead(n, repeats=3):
    """Fits from files, read by a thread or where they are used: medians of wall and CPU seconds."""
    rows = Rows(n)
    print(f"\n{n:,} × {D} rows in files that are not in memory, 64 components, medians of {repeats}\n")
    print("| file | read | wall | CPU | same bits |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        X, y = Path(folder) / "X.npy", Path(folder) / "y.npy"
        mapped = np.lib.format.open_memmap(X, "w+", np.float32, (n, D))
        targets, row = np.empty(n, np.float32), 0
        schema = pa.schema([(f"x{j}", pa.float32()) for j in range(D)] + [("y", pa.float32())])
        table = Path(folder) / "rows.parquet"
        with pq.ParquetWriter(table, schema) as writer:
            for part, target in rows:
                mapped[row : row + len(part)], targets[row : row + len(part)] = part, target
                row += len(part)
                writer.write_table(pa.table([*part.T.copy(), target], schema=schema))
        np.save(y, targets)
        del mapped
        kinds = {
            "memory map": (X, ArraySource, lambda: (np.load(X, mmap_mode="r"), np.load(y))),
            "Parquet": (table, ArrowSource, lambda: (str(table), "y")),
        }
        for kind, (path, source, data) in kinds.items():
            module = sys.modules[source.__module__]
            threaded, found = module.read_ahead, {}
            for how, read in {"where it is used": lambda items: items, "ahead": threaded}.items():
                times = []
                for _ in range(repeats):
                    forget(path)
                    module.read_ahead = read
                    wall, cpu = time.perf_counter(), time.process_time()
                    fitted = KernelRidge(RBF(0.5), 64, alpha=1.0, n_jobs=1, random_state=0).fit(*data())
                    times.append((time.perf_counter() - wall, time.process_time() - cpu))
                    module.read_ahead = threaded
                found[how] = fitted.component_weights_.tobytes()
                wall, cpu = np.median(times, axis=0)
                same = len(set(found.values())) == 1
                print(f"| {kind} | {how} | {wall:.2f} s | {cpu:.2f} s | {'yes' if same else 'NO'} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["flat", "interruptions", "ahead", []])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--strikes", type=int, default=4)
    arguments = parser.parse_args()
    for part in arguments.parts or ["flat", "interruptions", "ahead"]:
        if part == "flat":
            flat(arguments.rows)
        elif part == "ahead":
            ahead(arguments.rows)
        else:
            interruptions(2_000_000, arguments.strikes)


if __name__ == "__main__":
    main()
