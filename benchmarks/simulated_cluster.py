"""A cluster on paper: workers, a network, stragglers and losses, which add up the leaves of `bochner.data.distributed`.

Used by ``bench_distributed.py simulate``. Tasks are scheduled as Dask does: in the order of their rounds, merges before
leaves, on the first worker that is idle. What a lost worker held and is still needed is computed again.
"""

import heapq
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Costs:
    """Seconds of one task on one thread, and bytes of a total."""

    leaf: float  # features and sums of all rows of a leaf
    pack: float  # making bytes of a total, and a total of bytes
    merge: float  # adding one total to another
    task: float  # what the scheduler does for a task
    total: float  # bytes
    blocks: float = 0.0  # tasks that make the blocks of a leaf
    bandwidth: float = 1.25e9  # bytes a second that a worker sends or receives: 10 Gbit/s

    def sent(self) -> float:
        """Seconds until a total is on another machine."""
        return self.pack + self.total / self.bandwidth


@dataclass(frozen=True)
class Trouble:
    """What goes wrong: times of leaves vary by a factor exp(spread × normal), some workers are slow, some are lost."""

    spread: float = 0.0
    slow: float = 0.0  # share of the workers
    slower: float = 3.0  # the factor by which those are
    losses: float = 0.0  # of a worker, an hour
    restart: float = 30.0  # seconds until a lost worker is back


@dataclass
class Outcome:
    """What a simulated pass took."""

    seconds: float = 0.0
    moved: float = 0.0  # bytes between workers
    fetched: float = 0.0  # bytes to the client
    lost: int = 0  # workers
    repeated: int = 0  # leaves
    held: int = 0  # most totals of one worker
    client: float = 0.0  # seconds that the client was busy
    scheduler: float = 0.0  # seconds that the scheduler was


@dataclass
class Cluster:
    """One pass over `leaves` leaves by `workers` one-thread workers, in rounds of trees with so many branches."""

    leaves: int
    workers: int
    costs: Costs
    trouble: Trouble = Trouble()
    branches: int = 8
    round: int = 64
    seed: int = 0
    outcome: Outcome = field(default_factory=Outcome)

    def run(self) -> Outcome:
        self.rng = np.random.default_rng(self.seed)
        self.n_rounds = -(-self.leaves // self.round)
        self.ahead = 1 + -(-2 * self.workers // self.round)
        self.slow = self.rng.random(self.workers) < self.trouble.slow
        self.holder: dict[tuple, int] = {}  # task -> worker that holds its total
        self.done: set[int] = set()  # rounds
        self.started: set[tuple] = set()  # tasks that are queued or run
        self.ready: list[tuple] = []
        self.running: dict[int, tuple] = {}
        self.epoch = [0] * self.workers
        self.idle = set(range(self.workers))
        self.events: list[tuple] = []
        self.count, self.client_free, self.scheduler_free, self.opened = 0, 0.0, 0.0, 0
        for _ in range(min(self.ahead, self.n_rounds)):
            self._open()
        if self.trouble.losses:
            self._later(self.rng.exponential(3600.0 / (self.trouble.losses * self.workers)), "loss", 0, None)
        now = 0.0
        self._assign(now)
        while len(self.done) < self.n_rounds:
            now, _, kind, worker, about = heapq.heappop(self.events)
            getattr(self, f"_{kind}")(now, worker, about)
            self._assign(now)
        self.outcome.seconds = max(now, self.client_free)
        return self.outcome

    def _later(self, when, kind, worker, about):
        self.count += 1
        heapq.heappush(self.events, (when, self.count, kind, worker, about))

    # a task is (round, level, number): level 0 are leaves, the highest level of a round is its total

    def _width(self, round_, level):
        width = min(self.round, self.leaves - round_ * self.round)
        for _ in range(level):
            width = -(-width // self.branches)
        return width

    def _parts(self, task):
        round_, level, number = task
        last = min((number + 1) * self.branches, self._width(round_, level - 1))
        return [(round_, level - 1, i) for i in range(number * self.branches, last)] if level else []

    def _queue(self, task):
        if task not in self.started:
            self.started.add(task)
            heapq.heappush(self.ready, (task[0], -task[1], task[2]))

    def _open(self):
        for number in range(self._width(self.opened, 0)):
            self._queue((self.opened, 0, number))
        self.opened += 1

    def _assign(self, now):
        while self.idle and self.ready:
            round_, level, number = heapq.heappop(self.ready)
            task = (round_, -level, number)
            parts = self._parts(task)
            if any(part not in self.holder for part in parts):  # one was lost
                self.started.discard(task)
                continue
            near = [self.holder[part] for part in parts if self.holder[part] in self.idle]
            worker = max(set(near), key=near.count) if near else next(iter(self.idle))
            self.idle.remove(worker)
            self.running[worker] = task
            handled = self.costs.task * (1.0 if parts else 1.0 + self.costs.blocks)  # one after the other
            self.outcome.scheduler += handled
            self.scheduler_free = max(now, self.scheduler_free) + handled
            end = self.scheduler_free + self._seconds(parts, worker)
            self._later(end, "end", worker, (self.epoch[worker], task))

    def _seconds(self, parts, worker):
        if not parts:
            factor = np.exp(self.trouble.spread * self.rng.normal()) * (self.trouble.slower if self.slow[worker] else 1)
            return self.costs.leaf * factor
        far = sum(self.holder[part] != worker for part in parts)
        self.outcome.moved += far * self.costs.total
        return far * self.costs.sent() + len(parts) * self.costs.merge

    def _end(self, now, worker, about):
        epoch, task = about
        if epoch != self.epoch[worker]:
            return
        del self.running[worker]
        self.idle.add(worker)
        self.holder[task] = worker
        self.outcome.held = max(self.outcome.held, sum(w == worker for w in self.holder.values()))
        for part in self._parts(task):
            self.holder.pop(part, None)
        round_, level, number = task
        if self._width(round_, level) == 1:  # the total of the round
            del self.holder[task]
            self.client_free = max(self.client_free, now) + self.costs.sent() + self.costs.merge
            self.outcome.client += self.costs.sent() + self.costs.merge
            self.outcome.fetched += self.costs.total
            self._later(self.client_free, "fetched", worker, round_)
            return
        above = (round_, level + 1, number // self.branches)
        if all(part in self.holder for part in self._parts(above)):
            self._queue(above)

    def _fetched(self, now, worker, round_):
        self.done.add(round_)
        if self.opened < self.n_rounds:
            self._open()

    def _loss(self, now, worker, about):
        self._later(now + self.rng.exponential(3600.0 / (self.trouble.losses * self.workers)), "loss", 0, None)
        worker = int(self.rng.integers(self.workers))
        self.outcome.lost += 1
        self.epoch[worker] += 1
        self.idle.discard(worker)
        gone = [task for task, holder in self.holder.items() if holder == worker]
        if worker in self.running:
            gone.append(self.running.pop(worker))
        for task in gone:
            self.holder.pop(task, None)
        seen: set[tuple] = set()
        for task in gone:
            self._again(task, seen)
        self._later(now + self.trouble.restart, "back", worker, self.epoch[worker])

    def _again(self, task, seen):
        """Queue a task, or the parts of it that are gone."""
        if task in seen:
            return
        seen.add(task)
        self.started.discard(task)
        missing = [part for part in self._parts(task) if part not in self.holder]
        for part in missing:
            self._again(part, seen)
        if not missing:
            self.outcome.repeated += task[1] == 0
            self._queue(task)

    def _back(self, now, worker, epoch):
        if epoch == self.epoch[worker]:
            self.idle.add(worker)
