"""Dask: bits, efficiency, bytes moved and memory for 1 and 2 workers, killed workers, faults, and a cluster on paper.

``python benchmarks/bench_distributed.py [workers] [kills] [simulate] [faults] [--rows 20000000] [--write]`` (no part:
all; a million rows unless told otherwise). Rows are made on the workers, block by block, from seeds. ``simulate``
measures what a leaf, a total and a task cost here, and simulates what 100 workers make of a billion rows with these
costs. ``--write`` adds the tables to a file of today in benchmarks/results.
"""

import argparse
import hashlib
import logging
import os
import pickle
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
from simulated_cluster import Cluster, Costs, Trouble

import bochner.data.distributed
from bochner import RBF, KernelRidge
from bochner.backends import n_cores
from bochner.data.checkpoints import read_arrays
from bochner.data.distributed import DaskSource, dask_source
from bochner.data.folds import StatisticsFold
from bochner.data.sources import ArraySource
from bochner.data.workers import WorkerOptions

D, M, BLOCK = 20, 512, 100_000
RESULTS = Path(__file__).parent / "results" / time.strftime("%Y-%m-%d-distributed.md")


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
    return hashlib.blake2b(fitted.component_weights_.tobytes(), digest_size=4).hexdigest()


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


def cpu_seconds(client):
    """CPU seconds of the workers, and of this process with client and scheduler."""
    return sum(client.run(time.process_time).values()), time.process_time()


def in_memory(n):
    """Wall and CPU seconds for a million rows of a fit in one process and thread, data in its memory."""
    X = np.concatenate([make_rows(i, BLOCK) for i in range(-(-n // BLOCK))])[:n]
    y = make_targets(X)
    model(n_jobs=1).fit(X[:50_000], y[:50_000])
    wall, cpu = time.perf_counter(), time.process_time()
    model(n_jobs=1).fit(X, y)
    return 1e6 / n * (time.perf_counter() - wall), 1e6 / n * (time.process_time() - cpu)


def workers(n):
    few = min(n, 1_000_000)
    alone = in_memory(few)
    lines = Table()
    for line in (
        f"## {n:,} × {D} rows, {M} components, blocks of {BLOCK:,}, one-thread workers, {n_cores()} cores",
        "",
        f"One process and thread, data in its memory: {alone[0]:.2f} s, {alone[1]:.2f} CPU s for a million rows.",
        "",
        "| workers | coefficients | wall | CPU of workers | CPU of client and scheduler | rows/s | efficiency, wall | "
        "efficiency, CPU | moved between workers | peak memory of a worker |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ):
        lines.append(line)
    found = {}
    for n_workers in (1, 2):
        with cluster_of(n_workers) as cluster, Client(cluster) as client:
            client.wait_for_workers(n_workers)
            model(n_components=64).fit(*blocks(20_000, 10_000))  # imports
            before, (theirs, ours) = sum(client.run(moved).values()), cpu_seconds(client)
            started = time.perf_counter()
            fitted = model().fit(*blocks(n))
            wall = time.perf_counter() - started
            theirs, ours = (after - b for after, b in zip(cpu_seconds(client), (theirs, ours), strict=True))
            bytes_moved = sum(client.run(moved).values()) - before
            memory = max(client.run(peak_memory).values())
        found[n_workers] = wall, theirs + ours
        # time of one worker over the time of all of them; CPU seconds of one over those of all
        by_wall, by_cpu = found[1][0] / (n_workers * wall), found[1][1] / (theirs + ours)
        lines.append(
            f"| {n_workers} | {digest(fitted)} | {wall:.1f} s | {theirs:.1f} s | {ours:.1f} s | {n / wall:,.0f} | "
            f"{100 * by_wall:.0f} % | {100 * by_cpu:.0f} % | {bytes_moved / 2**20:,.0f} MiB | {memory:,.0f} MiB |"
        )
    return lines


# -- kills -----------------------------------------------------------------------------------------------------------


def kills(n, count=3):
    """A fit during which workers get SIGKILL, one after the other."""
    lines, data = Table(), blocks(n)
    with cluster_of(2) as cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        model(n_components=64).fit(*blocks(20_000, 10_000))
        started = time.perf_counter()
        truth = model().fit(*data)
        without = time.perf_counter() - started
        hits, done = [], threading.Event()

        def strike():
            for i in range(count):
                if done.wait((i + 1) * without / (count + 1) - (time.perf_counter() - started)):
                    return
                nannies = list(client.cluster.workers.values())
                os.kill(nannies[i % len(nannies)].pid, signal.SIGKILL)
                hits.append(time.perf_counter() - started)

        started = time.perf_counter()
        thread = threading.Thread(target=strike)
        thread.start()
        fitted = model().fit(*data)
        seconds = time.perf_counter() - started
        done.set()
        thread.join()
    struck = ", ".join(f"{hit:.1f} s" for hit in hits)
    for line in (
        f"## {len(hits)} workers killed during a fit: {n:,} × {D} rows, {M} components, two workers",
        "",
        "| killed after | time without | time with | outcome |",
        "|---|---|---|---|",
        f"| {struck} | {without:.1f} s | {seconds:.1f} s | {verdict(fitted, truth)} |",
    ):
        lines.append(line)
    return lines


# -- a cluster on paper ----------------------------------------------------------------------------------------------


def seconds_of(run, repeats=3):
    """CPU seconds of this process, the median of a few runs."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return float(np.median(times))


def task_seconds(count=2000):
    """CPU seconds of the client and the scheduler for a task that does nothing."""
    with cluster_of(1) as cluster, Client(cluster) as client:  # the scheduler is in this process, the worker is not
        tasks = {f"bench-{i}": (int, i) for i in range(count)}
        tasks["bench-all"] = (len, list(tasks))
        client.get(tasks, "bench-all")
        tasks = {f"again-{key}": value for key, value in tasks.items() if key != "bench-all"}
        tasks["again-all"] = (len, list(tasks))
        return seconds_of(lambda: client.get(tasks, "again-all"), 1) / count


def measured_costs(m, n, task):
    """Of n rows and m components: rows of a leaf and `Costs`, of a pass with m × m sums and of one without."""
    source = dask_source(None, da.zeros((n, D), chunks=(n // 100, D), dtype=np.float32))
    rows, light_rows = (len(source._leaves(m, with_gram)[0]) for with_gram in (True, False))
    few = min(rows, max(8192, 8 * 10**9 // m**2))  # of a leaf, which takes some seconds
    X = make_rows(0, few)
    source = ArraySource(X, make_targets(X)[:, None])
    with WorkerOptions()():
        feature_map = model(n_components=m).fit(X[:1000], source.block.y[:1000]).feature_map_
        fold = StatisticsFold(m, 1, np.asarray, penalty=1e-6)
        features = seconds_of(lambda: [None for _ in source.features(feature_map)]) / few
        row = seconds_of(lambda: source.fold(fold, feature_map)) / few
        total = source.fold(fold, feature_map)

        def pack():
            buffers = []
            head = pickle.dumps(total, protocol=5, buffer_callback=buffers.append)
            pickle.loads(head, buffers=[bytearray(b.raw()) for b in buffers])

        merge = seconds_of(lambda: fold.zero().merge(total))
        costs = Costs(row * rows, seconds_of(pack), merge, task, 8.0 * m * m, rows / BLOCK)
    return (rows, costs), (light_rows, Costs(features * light_rows, 0.0, 0.0, task, 8.0 * m))


CALM = "nothing goes wrong"
SCENES = {
    CALM: Trouble(),
    "leaves vary by 20 %, 5 % of the workers are 3 × slower": Trouble(0.2, 0.05),
    "the same, and a worker is lost every 24 h": Trouble(0.2, 0.05, losses=1 / 24),
    "the same, every hour": Trouble(0.2, 0.05, losses=1.0),
    "the same, every 10 minutes": Trouble(0.2, 0.05, losses=6.0),
}


def simulate(n=10**9, n_workers=100):
    lines, task = Table(), task_seconds()
    branches, round_ = bochner.data.distributed._BRANCHES, bochner.data.distributed._ROUND
    for line in (
        f"## On paper: {n:,} × {D} rows in blocks of {BLOCK:,}, {n_workers} one-thread workers, 10 Gbit/s",
        "",
        f"Costs measured here, CPU seconds of one thread; a task takes the scheduler {1e3 * task:.2f} ms.",
        "",
    ):
        lines.append(line)
    for m in (M, 2 * M, 4 * M):
        heavy, light = measured_costs(m, n, task)
        rows, costs = heavy
        per_row = light[1].leaf / light[0]
        for line in (
            f"### {m:,} components",
            "",
            f"A row takes {1e6 * per_row:.1f} µs for features and {1e6 * (costs.leaf / rows - per_row):.1f} for sums. "
            f"A total has {costs.total / 2**20:.0f} MiB, {1e3 * costs.pack:.1f} ms to pack and unpack, "
            f"{1e3 * costs.merge:.1f} ms to merge.",
            "",
            "| what goes wrong | leaves | CPU of a leaf | time | of the ideal | moved between workers | "
            "to the client | scheduler busy | client busy | lost workers | leaves computed again | "
            "most totals on a worker |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|",
        ):
            lines.append(line)
        scenes = [(scene, heavy, trouble) for scene, trouble in SCENES.items()]
        for workers_ in (2, 1000):
            scenes.append((f"{CALM}, {workers_:,} workers", heavy, workers_))
        scenes.append((f"{CALM}, a pass without m × m sums, rows held by the workers", light, Trouble()))
        for scene, (rows, costs), trouble in scenes:
            count, trouble = (trouble, Trouble()) if isinstance(trouble, int) else (n_workers, trouble)
            leaves = -(-n // rows)
            found = Cluster(leaves, count, costs, trouble, branches, round_).run()
            # the time of workers who never wait; slow ones do a third of the work
            power = count * (1 - trouble.slow + trouble.slow / trouble.slower)
            ideal = leaves * costs.leaf * np.exp(trouble.spread**2 / 2) / power
            lines.append(
                f"| {scene} | {leaves:,} | {costs.leaf:.2f} s | {found.seconds / 60:.1f} min | "
                f"{100 * ideal / found.seconds:.0f} % | {found.moved / 2**30:,.1f} GiB | "
                f"{found.fetched / 2**30:,.1f} GiB | {100 * found.scheduler / found.seconds:.0f} % | "
                f"{100 * found.client / found.seconds:.0f} % | {found.lost} | {found.repeated:,} | {found.held} |"
            )
        lines.append("")
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
        bochner.data.distributed._ROUND, before = 8, bochner.data.distributed._ROUND
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
        bochner.data.distributed._ROUND = before
    outcome += f"; called again with enough memory: {resumed:.1f} s, {verdict(fitted, truth)}"
    return f"| blocks that need twice a worker's memory | – | – | {seconds:.1f} s | {outcome} |"


_DRIVER = """
import sys, hashlib, logging
sys.path.insert(0, {here!r})
import bochner.data.distributed, bochner.data.checkpoints as checkpoints
from distributed import Client
from bench_distributed import blocks, cluster_of, digest, make_rows, model
bochner.data.distributed._ROUND = 4
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
    parts = {"workers": workers, "kills": kills, "simulate": lambda n: simulate(), "faults": lambda n: faults()}
    parser.add_argument("parts", nargs="*", choices=[*parts, []])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    for part in arguments.parts or parts:
        # a kill is as good in a fifth of the rows
        lines = parts[part](arguments.rows // 5 if part == "kills" else arguments.rows)
        print(flush=True)
        if arguments.write:
            RESULTS.parent.mkdir(exist_ok=True)
            with RESULTS.open("a") as file:
                file.write("\n".join(lines) + "\n\n")


if __name__ == "__main__":
    main()
