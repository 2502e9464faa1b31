"""Dask: bits, time, bytes moved and memory for 1, 2 and 4 workers, and a table of faults.

``python benchmarks/bench_distributed.py [workers] [faults] [--rows 20000000] [--write]`` (no part: both; a million
rows unless told otherwise). Rows are made on the workers, block by block, from seeds. ``--write`` adds the tables to
benchmarks/results/2026-11-15-distributed.md.
"""

import argparse
import hashlib
import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import bochner.distributed
from bochner import RBF, KernelRidge
from bochner.backends import n_cores
from bochner.distributed import DaskSource
from bochner.streaming import read_arrays

D, M, BLOCK = 20, 1024, 100_000
RESULTS = Path(__file__).parent / "results" / "2026-11-15-distributed.md"


# -- rows ------------------------------------------------------------------------------------------------------------


def make_rows(seed, n, pause=0.0):
    time.sleep(pause)
    return np.random.default_rng(seed).standard_normal((n, D), dtype=np.float32)


def make_targets(X):
    return np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def blocks(n, size=BLOCK, make=make_rows, *arguments):
    sizes = [min(size, n - start) for start in range(0, n, size)]
    X = [
        da.from_delayed(dask.delayed(make)(i, k, *arguments), (k, D), np.float32, meta=np.empty((0, D), np.float32))
        for i, k in enumerate(sizes)
    ]
    X = da.concatenate(X)
    return X, X.map_blocks(make_targets, drop_axis=1, dtype=np.float32, meta=np.empty(0, np.float32))


def model(**parameters):
    return KernelRidge(RBF(5.0), **({"n_components": M, "alpha": 1.0, "random_state": 0} | parameters))


def digest(fitted):
    return hashlib.blake2b(fitted.coef_.tobytes(), digest_size=4).hexdigest()


def cluster_of(n_workers, **options):
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, **quiet, **options)


class Table(list):
    """Lines that are printed as they come."""

    def append(self, line):
        print(line, flush=True)
        super().append(line)


# -- workers ---------------------------------------------------------------------------------------------------------


def peak_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def moved(dask_worker):
    return dask_worker.transfer_outgoing_bytes_total


def in_memory_rate(n, threads):
    """Rows a second of a fit in one process, data in its memory."""
    X = np.concatenate([make_rows(i, BLOCK) for i in range(-(-n // BLOCK))])[:n]
    y = make_targets(X)
    model(n_jobs=threads).fit(X[:50_000], y[:50_000])
    started = time.perf_counter()
    model(n_jobs=threads).fit(X, y)
    return n / (time.perf_counter() - started)


def workers(n):
    few = min(n, 1_000_000)
    alone = {threads: in_memory_rate(few, threads) for threads in sorted({1, min(2, n_cores()), min(4, n_cores())})}
    lines = Table()
    for line in (
        f"## {n:,} × {D} rows, {M} components, blocks of {BLOCK:,}, {n_cores()} cores",
        "",
        "One process with the data in its memory: "
        + ", ".join(f"{rate:,.0f} rows/s on {threads} thread(s)" for threads, rate in alone.items())
        + f" ({few:,} rows). The client gets {8 * M * M / 2**20:.0f} MiB for every 64 blocks.",
        "",
        "| workers | coefficients | time | rows/s | share of one process on as many threads | moved between workers | "
        "peak memory of a worker |",
        "|---|---|---|---|---|---|---|",
    ):
        lines.append(line)
    for n_workers in (1, 2, 4):
        with cluster_of(n_workers) as cluster, Client(cluster) as client:
            client.wait_for_workers(n_workers)
            model(n_components=64).fit(*blocks(20_000, 10_000))  # imports
            before = sum(client.run(moved).values())
            started = time.perf_counter()
            fitted = model().fit(*blocks(n))
            seconds = time.perf_counter() - started
            bytes_moved = sum(client.run(moved).values()) - before
            memory = max(client.run(peak_memory).values())
        rate = n / seconds
        share = rate / alone[min(n_workers, max(alone))]
        lines.append(
            f"| {n_workers} | {digest(fitted)} | {seconds:.1f} s | {rate:,.0f} | {100 * share:.0f} % | "
            f"{bytes_moved / 2**20:,.0f} MiB | {memory:,.0f} MiB |"
        )
    return lines


# -- faults ----------------------------------------------------------------------------------------------------------

_PAUSE = 0.15  # seconds a block is made longer, so that there is something to hit


def hungry_rows(seed, n, flag):
    if seed >= 20 and Path(flag).exists():
        waste = np.ones(1 << 28)  # 2 GiB
        time.sleep(10.0)
        del waste
    return make_rows(seed, n)


def struck(fit, strike, when):
    """Seconds that a fit takes, struck by a fault `when` seconds after its beginning."""
    timer = threading.Timer(when, strike)
    timer.start()
    started = time.perf_counter()
    try:
        return fit(), time.perf_counter() - started
    finally:
        timer.cancel()
        timer.join()


def kill_workers(client, count):
    for nanny in list(client.cluster.workers.values())[:count]:  # asking the workers would wait for them
        os.kill(nanny.pid, signal.SIGKILL)


def restart_worker(client):
    # asked now: what the client remembers may name a worker that is gone
    client.restart_workers([next(iter(client.nthreads()))], timeout=60)


def verdict(fitted, truth):
    return "same bits" if digest(fitted) == digest(truth) else "OTHER BITS"


def faults(n=400_000, size=10_000, m=256):
    lines = Table()
    for line in (
        f"## Faults: {n:,} × {D} rows in {n // size} blocks, {m} components, two workers",
        "",
        "| fault | struck after | time without | time with | outcome |",
        "|---|---|---|---|---|",
    ):
        lines.append(line)

    def row(fault, when, without, seconds, outcome):
        lines.append(f"| {fault} | {when:.1f} s | {without:.1f} s | {seconds:.1f} s | {outcome} |")

    data = blocks(n, size, make_rows, _PAUSE)
    for solver in ("cholesky", "cg"):
        options = {"n_components": m, "solver": solver, "alpha": 100.0}
        pass_over = "one pass" if solver == "cholesky" else "iterations"
        with cluster_of(2) as cluster, Client(cluster) as client:
            # iterations over a few blocks that the workers hold, one pass over many that are made slowly
            given = tuple(a.persist() for a in blocks(n, 4 * size)) if solver == "cg" else data
            model(**options).fit(*given)
            started = time.perf_counter()
            truth = model(**options).fit(*given)
            without = time.perf_counter() - started
            strikes = {
                "one worker gets SIGKILL": lambda client=client: kill_workers(client, 1),
                "both workers get SIGKILL": lambda client=client: kill_workers(client, 2),
                "one worker is restarted": lambda client=client: restart_worker(client),
            }
            for fault, strike in strikes.items():
                client.wait_for_workers(2)
                when = 0.5 * without
                fitted, seconds = struck(lambda o=options, g=given: model(**o).fit(*g), strike, when)
                row(f"{fault} ({pass_over})", when, without, seconds, verdict(fitted, truth))
    lines.append(memory_fault(n, size, m))
    for name, number in (("SIGINT", signal.SIGINT), ("SIGKILL", signal.SIGKILL)):
        lines.append(client_fault(name, number))
    return lines


def memory_fault(n, size, m):
    """Blocks that need more memory than a worker has: an error, a checkpoint, and a fit that goes on from there."""
    with tempfile.TemporaryDirectory() as folder:
        flag, path = Path(folder) / "hungry", Path(folder) / "checkpoint"
        options = {"n_components": m, "alpha": 100.0}
        # rounds of eight leaves, so that some are complete before the blocks that need too much
        bochner.distributed._ROUND, before = 8, bochner.distributed._ROUND
        truth = model(**options).fit(*blocks(n, size))
        with (
            dask.config.set({"distributed.scheduler.allowed-failures": 1}),
            cluster_of(2, memory_limit="1GiB") as cluster,
            Client(cluster),
        ):
            started = time.perf_counter()
            data = blocks(n, size, hungry_rows, str(flag))
            fold = DaskSource.fold
            DaskSource.fold = lambda *a, **k: (flag.touch(), fold(*a, **k))[1]  # samples are read before, and fit
            try:
                model(checkpoint=path, **options).fit(*data)
                outcome = "NO ERROR"
            except RuntimeError as error:
                outcome = (
                    f"error: “{str(error).split(',')[0]} …”, {read_arrays(path)[1]['rows']:,} rows in the checkpoint"
                )
            seconds, DaskSource.fold = time.perf_counter() - started, fold
            flag.unlink()
            started = time.perf_counter()
            fitted = model(checkpoint=path, **options).fit(*data)
            resumed = time.perf_counter() - started
        bochner.distributed._ROUND = before
    outcome += f"; called again with enough memory: {resumed:.1f} s, {verdict(fitted, truth)}"
    return f"| blocks that need twice a worker's memory | – | – | {seconds:.1f} s | {outcome} |"


_DRIVER = """
import sys, hashlib, logging
sys.path.insert(0, {here!r})
import bochner.distributed, bochner.streaming.checkpoints as checkpoints
from distributed import Client
from bench_distributed import blocks, cluster_of, digest, make_rows, model
bochner.distributed._ROUND = 4
init = checkpoints.Checkpoint.__init__
checkpoints.Checkpoint.__init__ = lambda self, path, options, about=None, every=0.0: init(
    self, path, options, about, 0.0
)
if __name__ == "__main__":
    with cluster_of(2) as cluster, Client(cluster):
        print("ready", flush=True)
        data = blocks(400_000, 10_000, make_rows, {pause})
        fitted = model(n_components=256, alpha=100.0, checkpoint={path!r}).fit(*data)
        print(digest(fitted), flush=True)
"""


def client_fault(name, number):
    """The process that called `fit` is interrupted or killed, and started again."""
    with tempfile.TemporaryDirectory() as folder:
        script, path = Path(folder) / "driver.py", Path(folder) / "checkpoint"
        script.write_text(_DRIVER.format(here=str(Path(__file__).parent), path=str(path), pause=_PAUSE))
        command = [sys.executable, str(script)]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        started = time.perf_counter()
        truth = subprocess.run(command, check=True, **streams).stdout.split()[-1]
        without = time.perf_counter() - started
        started = time.perf_counter()
        victim = subprocess.Popen(command, **streams)
        while not path.exists() and victim.poll() is None:
            time.sleep(0.05)
        time.sleep(0.5)
        when = time.perf_counter() - started
        os.kill(victim.pid, number)
        victim.communicate()
        rows = read_arrays(path)[1]["rows"]
        started = time.perf_counter()
        again = subprocess.run(command, check=True, **streams).stdout.split()[-1]
        seconds = when + time.perf_counter() - started
    outcome = f"{rows:,} rows in the checkpoint; called again: {'same bits' if again == truth else 'OTHER BITS'}"
    return f"| the process that called fit gets {name} | {when:.1f} s | {without:.1f} s | {seconds:.1f} s | {outcome} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["workers", "faults", []])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    for part in arguments.parts or ["workers", "faults"]:
        lines = workers(arguments.rows) if part == "workers" else faults()
        print(flush=True)
        if arguments.write:
            RESULTS.parent.mkdir(exist_ok=True)
            with RESULTS.open("a") as file:
                file.write("\n".join(lines) + "\n\n")


if __name__ == "__main__":
    main()
