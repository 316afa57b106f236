"""Figures of docs/fleet.md: the cost of counting, sending and merging.

    python benchmarks/fleet.py
    python benchmarks/run.py fleet

The first command prints the plan for a million vehicles; the second measures runs in
several processes, with and without Ray.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
from run import Row, installed

from forewarn.abstractions.abstraction import Abstraction, from_expressions
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.chains.learning import LiveTally, Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.fleet.files import read_tallies, write_tallies
from forewarn.monitors.fleet.merging import merge
from forewarn.monitors.fleet.tallies import Counted, FleetTally, Subject
from forewarn.scenarios.running.campaign import campaign, jobs
from forewarn.scenarios.running.on_ray import HERE, OnRay
from forewarn.scenarios.running.plan import plan as scenario_plan
from forewarn.scenarios.running.pools import Pool, Processes
from forewarn.scenarios.schema import load_scenario

STATES, SUCCESSORS, PREDICATES = 300, 6, 48
"""The size of a model; those of the driving scenarios have 180 to 520 states and up to
49 predicates.
"""

STEPS = 36_000
"""The number of steps of a vehicle in an hour at 10 Hz."""

FRAME_BYTES = 24
"""The size of a frame in columns in bytes, from benchmarks/columns.py."""

LOOPS = 20_000_000
VEHICLES, HOURS_A_DAY = 1_000_000, 1.0


def rows(quick: bool) -> Iterator[Row]:
    one, two = (workers * LOOPS / bare_s(workers) for workers in (1, 2))
    yield Row("bare loops in two processes", two, None, "in one", one, rate=True)
    if installed("ray") and installed("libsumo"):
        episodes = 30 if quick else 120
        for what, pool, least in (
            ("processes, without Ray", Processes, None),
            ("Ray workers", lambda n: OnRay(HERE, n), 1.8),
        ):
            one, two = (episodes / worked_s(pool(n), n, episodes) for n in (1, 2))
            yield Row(
                f"runs of s1 in two {what}", two, None, "in one", one, least, True
            )


class Fleet:
    """Vehicles in the same world, each of which has driven for an hour."""

    def __init__(self, folder: Path, vehicles: int) -> None:
        rng = np.random.default_rng(1)
        self.abstraction = _abstraction()
        codes = rng.choice(1 << 40, STATES, replace=False).tolist()
        self.names = [self.abstraction.state_name(code) for code in codes]
        # In a consistent tally, each state has as many arrivals as departures.
        moves = [rng.permutation(STATES) for _ in range(SUCCESSORS - 1)]
        self.targets = [np.arange(STATES), *moves]
        self.shares = rng.dirichlet([20.0, *[0.5] * (SUCCESSORS - 1)])
        self.model = self._learned(self._drive(rng, 100 * STEPS))
        subject = Subject.of(self.model)
        self.files = [folder / f"{i}.tally.json.gz" for i in range(vehicles)]
        for i, path in enumerate(self.files):
            own = f"vehicle-{i:012}"
            tally = FleetTally.of(own, subject, Counted(self._drive(rng, STEPS)))
            write_tallies(path, [tally])

    def _drive(self, rng: np.random.Generator, steps: int) -> Tally:
        tally = Tally()
        tally.begin(self.names[0])
        seen = rng.multinomial(steps // STATES, self.shares).tolist()
        for targets, times in zip(self.targets, seen, strict=True):
            for name, j in zip(self.names, targets.tolist(), strict=True):
                if times:
                    tally.step(name, self.names[j], times)
        tally.finish(self.names[0])
        return tally

    def _learned(self, tally: Tally) -> Model:
        return learn(
            tally, Support("observed"), Fraction(0), "absorb",
            abstraction=self.abstraction.as_dict(), period_s=0.1,
            laws=("always speed <= 60",),
        )  # fmt: skip

    def merged(self) -> Model:
        read = ((str(path), each) for path in self.files for each in read_tallies(path))
        found = merge(self.model, read)
        assert len(found.added) == len(self.files)
        return found.model


def _abstraction() -> Abstraction:
    texts = [f"speed > {i + 1}" for i in range(PREDICATES)]
    return from_expressions(texts, load_vocabulary("driving"), period_s=0.1)


def counting_s() -> float:
    """Returns the time that counting adds to a guard's frame."""
    codes = np.random.default_rng(2).choice(1 << 40, 2_000).tolist()
    live, rounds = LiveTally(), 100
    began_s = time.process_time()
    for _ in range(rounds):
        for code in codes:
            live.observe(code)
    return (time.process_time() - began_s) / (rounds * len(codes))


def worked_s(pool: Pool, workers: int, episodes: int) -> float:
    """Returns the time for runs after all workers have started."""
    scenario = load_scenario("s1")
    with tempfile.TemporaryDirectory() as folder:
        # The first worker completes many runs before the last one has started.
        before = 20 * workers
        seeds = range(1_500_000, 1_500_000 + before + episodes)
        todo = jobs(scenario_plan(scenario), scenario, seeds, Path(folder))
        with closing(campaign(todo, pool)) as done:
            for _ in range(before):
                next(done)
            began_s = time.perf_counter()
            for _ in range(episodes):
                next(done)
            return time.perf_counter() - began_s


def bare_s(workers: int) -> float:
    """Returns the time of processes that run a bare loop, which is a lower bound."""
    command = [sys.executable, "-c", f"sum(i * i for i in range({LOOPS}))"]
    began_s = time.perf_counter()
    counting = [subprocess.Popen(command) for _ in range(workers)]
    for process in counting:
        process.wait()
    return time.perf_counter() - began_s


def plan() -> Iterator[str]:
    """Yields an estimate of the cost of one model a day from a million vehicles at 10
    Hz, on one machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), 1_000)
        packed = sum(path.stat().st_size for path in fleet.files) / 1_000
        began_s = time.process_time()
        model = fleet.merged()
        merge_s = time.process_time() - began_s
        text = len(json.dumps(model_as_dict(model)))
        ledger = len(json.dumps(dict(model.training["fleet"]))) / 1_000
    raw = HOURS_A_DAY * STEPS * FRAME_BYTES
    batches = VEHICLES / 1_000
    yield f"one vehicle's tally of {HOURS_A_DAY:g} h: {packed / 1e3:.1f} kB gzipped"
    yield f"its frames in columns, at {FRAME_BYTES} bytes each: {raw / 1e3:.0f} kB"
    yield f"from {VEHICLES:,} vehicles a day: {VEHICLES * packed / 1e9:.1f} GB"
    yield f"a merge of 1,000 tallies: {merge_s:.2f} s of one core"
    yield f"{batches:,.0f} merges: {batches * merge_s / 3600:.2f} hours of one core"
    yield f"the merged model: {text / 1e3:.0f} kB with 1,000 contributors"
    yield f"of these, the ledger: {ledger:.0f} bytes per contributor"
    yield f"counting adds to each frame: {counting_s() * 1e9:.0f} ns"


if __name__ == "__main__":
    print("\n".join(plan()))
