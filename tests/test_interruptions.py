"""Signals: what an interrupted pass leaves behind is whole, and resumes to the last bit."""

import importlib.util
import os
import random
import signal
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from bochner import RBF, KernelRidge
from bochner.data import devices
from bochner.data.checkpoints import read_arrays
from bochner.data.progress import Interruptions
from bochner.estimators.feature_spec import FeatureSpec
from bochner.ridge.statistics import RidgeStatistics
from bochner.tuning import components as ridge_search
from bochner.tuning import metrics
from bochner.tuning import scales as tuning
from bochner.tuning.components import RidgeSearch
from bochner.tuning.policies import ComponentPolicy

STREAMS = Path(__file__).parents[1] / "benchmarks" / "bench_streams.py"


def blocks(n=10):
    rng = np.random.default_rng(0)
    return [(X, np.sin(X[:, 0])) for X in rng.normal(size=(n, 50, 3))]


def ridge(**parameters):
    return KernelRidge(RBF(1.5), 30, alpha=0.1, random_state=0, block_size=50, **parameters)


@contextmanager
def handled(number, handler):
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def interrupting(number, frame):
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["SIGINT", "SIGALRM", "SIGTERM", "SIGUSR1"])
def test_an_interruption_in_the_middle_of_an_update_waits_for_its_end(name, tmp_path, monkeypatch):
    number = getattr(signal, name)
    truth = ridge().fit(blocks())
    original, calls = RidgeStatistics._add_squares, []

    def struck(self, *arguments):
        calls.append(1)
        if len(calls) == 4:
            os.kill(os.getpid(), number)  # some sums have the block, others have not
        return original(self, *arguments)

    monkeypatch.setattr(RidgeStatistics, "_add_squares", struck)
    path = tmp_path / "checkpoint"
    model = ridge(checkpoint=path)
    with handled(number, interrupting):
        with pytest.raises(KeyboardInterrupt):
            model.fit(blocks())
        assert signal.getsignal(number) is interrupting
    assert read_arrays(path)[1]["rows"] == 200 == model.n_samples_seen_
    np.testing.assert_array_equal(ridge(checkpoint=path).fit(blocks()).component_weights_, truth.component_weights_)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


STAGES = {  # where Ctrl-C strikes, what is fitted, and what it says that it leaves behind
    "metric": (metrics, "learn_metric", KernelRidge(n_jobs=1), "length scale was tuned: nothing was kept"),
    "tuning": (
        tuning,
        "_left_out",
        KernelRidge(metric="isotropic", n_jobs=1),
        "length scale was tuned: nothing was kept",
    ),
    "search": (RidgeSearch, "_fit_fold", KernelRidge(n_jobs=1), "searched for: nothing was kept"),
    "penalty": (
        ridge_search,
        "least_penalty",
        KernelRidge(tol=1e-6, random_state=0, n_jobs=1),  # so that more components are needed than choose a penalty
        "searched for: nothing was kept",
    ),
    "features": (FeatureSpec, "fit", ridge(), "features were fitted: nothing was kept"),
    "first block": (RidgeStatistics, "_add_squares", ridge(), "the sums of 50 rows, and predicts from them"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_an_interruption_says_what_was_kept(stage, monkeypatch):
    where, name, model, kept = STAGES[stage]
    original, calls = getattr(where, name), []

    def struck(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments, **options)

    monkeypatch.setattr(where, name, struck)
    monkeypatch.setattr(ridge_search, "POLICY", ComponentPolicy(penalty_components=64))
    X, y = (np.concatenate(parts) for parts in zip(*blocks(84 if stage == "penalty" else 10), strict=True))
    with pytest.raises(KeyboardInterrupt, match=kept):
        clone(model).fit(X, y)
    assert len(calls) == 1  # nothing more was begun


def test_an_alarm_that_rings_while_sums_come_back_from_a_device_leaves_a_checkpoint(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed (extra 'torch')")
    monkeypatch.setattr(devices, "_SECONDS", 0.0)
    monkeypatch.setattr(devices, "_MOST_ROWS", 50)
    original, calls = RidgeStatistics.merge, []

    def struck(self, other):
        calls.append(1)
        if len(calls) == 4:
            os.kill(os.getpid(), signal.SIGALRM)  # while the Gram matrix is elsewhere
        return original(self, other)

    monkeypatch.setattr(RidgeStatistics, "merge", struck)
    path = tmp_path / "checkpoint"
    with handled(signal.SIGALRM, interrupting), pytest.raises(KeyboardInterrupt):
        ridge(checkpoint=path, device="cpu").fit(blocks())
    assert read_arrays(path)[1]["rows"] == 200
    again = ridge(checkpoint=path, device="cpu").fit(blocks())
    np.testing.assert_allclose(
        again.component_weights_, ridge(device="cpu").fit(blocks()).component_weights_, rtol=1e-9
    )


def test_an_error_in_the_middle_of_an_update_is_not_saved(tmp_path, monkeypatch):
    original, calls = RidgeStatistics._add_squares, []

    def short_of_memory(self, *arguments):
        calls.append(1)
        if len(calls) == 4:
            raise MemoryError
        return original(self, *arguments)

    monkeypatch.setattr(RidgeStatistics, "_add_squares", short_of_memory)
    path = tmp_path / "checkpoint"
    with pytest.raises(MemoryError):
        ridge(checkpoint=path).fit(blocks())
    assert not path.exists()


def test_an_error_in_the_data_leaves_a_checkpoint(tmp_path):
    path = tmp_path / "checkpoint"
    good = blocks()
    bad = [*good[:6], (np.full((50, 3), np.nan), np.zeros(50)), *good[7:]]

    class Stream:
        """Bad in one of the passes."""

        def __init__(self, bad_pass=None):
            self.passes, self.bad_pass = 0, bad_pass

        def __iter__(self):
            self.passes += 1
            return iter(bad if self.passes == self.bad_pass else good)

    stream = Stream()
    truth = ridge(checkpoint=path).fit(stream)
    with pytest.raises(ValueError, match="block 6"):  # in the last pass, which learns
        ridge(checkpoint=path).fit(Stream(stream.passes))
    assert read_arrays(path)[1]["rows"] == 300
    np.testing.assert_array_equal(ridge(checkpoint=path).fit(Stream()).component_weights_, truth.component_weights_)


def test_signals_wait_in_order_and_each_is_handled():
    seen = []

    def first(number, frame):
        seen.append(number)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a handler that puts another in its place
        raise KeyboardInterrupt

    def second(number, frame):
        seen.append(number)

    def strike():
        with Interruptions() as interruptions, interruptions.held():
            for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
                os.kill(os.getpid(), number)
            assert not seen

    with handled(signal.SIGUSR1, first), handled(signal.SIGUSR2, second):
        with pytest.raises(KeyboardInterrupt):
            strike()
        assert seen == [signal.SIGUSR1, signal.SIGUSR2]
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGUSR2) is second


def test_handlers_of_others_are_left_alone():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("theirs"))
    try:
        with Interruptions() as interruptions:
            os.kill(os.getpid(), signal.SIGINT)
            assert seen == ["theirs"]
            with interruptions.held():
                os.kill(os.getpid(), signal.SIGINT)
                assert seen == ["theirs"]
            assert seen == ["theirs"] * 2
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Interruptions() as interruptions, interruptions.held():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    found = []

    def elsewhere():
        with Interruptions() as interruptions, interruptions.held():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [before]


@pytest.mark.slow
def test_killed_and_interrupted_fits_resume_to_the_same_bits(tmp_path):
    spec = importlib.util.spec_from_file_location("bench_streams", STREAMS)
    streams = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(streams)
    path, draw = tmp_path / "checkpoint", random.Random(1)
    truth = streams.start(300_000, path).communicate()[0].strip()
    for number in (signal.SIGINT, signal.SIGKILL, signal.SIGINT):
        _, found = streams.strike(300_000, path, draw.uniform(0.05, 0.8), number)
        assert found == truth
        assert not list(tmp_path.iterdir())
