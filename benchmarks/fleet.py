"""What it takes to learn from a fleet: to count, to send, to merge.

python benchmarks/run.py fleet
python benchmarks/fleet.py         the plan for a million vehicles, from figures
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from measuring import Row, installed, seconds

from forewarn.abstractions.abstraction import Abstraction, from_expressions
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.chains.learning import LiveTally, Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.fleet.merging import merge
from forewarn.monitors.fleet.tallies import (
    FleetTally,
    Subject,
    read_tallies,
    write_tallies,
)
from forewarn.scenarios.running.campaign import campaign, jobs
from forewarn.scenarios.running.plan import plan as scenario_plan
from forewarn.scenarios.running.pools.local import Pool, Processes
from forewarn.scenarios.running.pools.on_ray import HERE, OnRay
from forewarn.scenarios.schema import load_scenario

STATES, SUCCESSORS, PREDICATES = 300, 6, 48
"""As the models of the driving scenarios: 180 to 520 states of up to 49 predicates."""

STEPS = 36_000
"""An hour of a vehicle at 10 Hz."""

FRAME_BYTES = 24
"""In columns, as benchmarks/columns.py has it."""

LOOPS = 20_000_000
VEHICLES, HOURS_A_DAY = 1_000_000, 1.0


def rows(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), 100 if quick else 1_000)
        files = len(fleet.files)
        yield Row(
            f"merge of {files:,} tallies of {STATES} states, read and tested",
            seconds(fleet.merged, repeat=3),
            2.0 * files / 1_000,
            "json.loads of the same files",
            seconds(fleet.parsed, repeat=3),
        )
    yield Row("counting one frame of a guard", counting_s())
    one, two = (workers * LOOPS / bare_s(workers) for workers in (1, 2))
    yield Row("bare loops in two processes", two, None, "in one", one, rate=True)
    if installed("ray") and installed("libsumo"):
        yield from ray_rows(30 if quick else 120)


def ray_rows(episodes: int) -> Iterator[Row]:
    """Whether twice the workers do twice the work, and who else takes time for it."""
    ours = [episodes / worked(Processes(n), n, episodes).wall_s for n in (1, 2)]
    yield Row(
        "episodes of s1 in two processes, without Ray",
        ours[1], None, "in one", ours[0], rate=True,
    )  # fmt: skip
    one, two = (worked(OnRay(HERE, n), n, episodes) for n in (1, 2))
    for who, took in two.spent_s.items():
        yield Row(
            f"  processor time an episode, {who}, of two workers",
            took / episodes, None, "of one", one.spent_s[who] / episodes,
        )  # fmt: skip
    yield Row(
        f"episodes of s1 on two Ray workers, load {os.getloadavg()[0]:.0f}",
        episodes / two.wall_s, None, "on one", episodes / one.wall_s, 1.8, rate=True,
    )  # fmt: skip


class Fleet:
    """Vehicles in one world, each of which drove for an hour."""

    def __init__(self, folder: Path, vehicles: int) -> None:
        rng = np.random.default_rng(1)
        self.abstraction = _abstraction()
        codes = rng.choice(1 << 40, STATES, replace=False).tolist()
        self.names = [self.abstraction.state_name(code) for code in codes]
        self.targets = [rng.choice(STATES, SUCCESSORS, False) for _ in range(STATES)]
        self.shares = rng.dirichlet([20.0, *[0.5] * (SUCCESSORS - 1)], STATES)
        self.model = self._learned(self._drive(rng, 100 * STEPS))
        subject = Subject.of(self.model)
        self.files = [folder / f"{i}.tally.json.gz" for i in range(vehicles)]
        for i, path in enumerate(self.files):
            own = f"vehicle-{i:012}"
            tally = FleetTally.of(own, subject, self._drive(rng, STEPS))
            write_tallies(path, [tally])

    def _drive(self, rng: np.random.Generator, steps: int) -> Tally:
        tally = Tally()
        tally.begin(self.names[0])
        for i, name in enumerate(self.names):
            seen = rng.multinomial(steps // STATES, self.shares[i])
            for j, times in zip(self.targets[i].tolist(), seen.tolist(), strict=True):
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

    def parsed(self) -> None:
        for path in self.files:
            json.loads(gzip.decompress(path.read_bytes()))


def _abstraction() -> Abstraction:
    texts = [f"speed > {i + 1}" for i in range(PREDICATES)]
    return from_expressions(texts, load_vocabulary("driving"), period_s=0.1)


def counting_s() -> float:
    """What a tally adds to a guard's frame."""
    codes = np.random.default_rng(2).choice(1 << 40, 2_000).tolist()
    live, rounds = LiveTally(), 100
    began_s = time.process_time()
    for _ in range(rounds):
        for code in codes:
            live.observe(code)
    return (time.process_time() - began_s) / (rounds * len(codes))


@dataclass(frozen=True, slots=True)
class Worked:
    """What episodes took, once all workers had begun.

    By the wall clock, and in processor time by who it was: where other work has the
    processors, two workers share what one had.
    """

    wall_s: float
    spent_s: Mapping[str, float]


def worked(pool: Pool, workers: int, episodes: int) -> Worked:
    scenario = load_scenario("s1")
    with tempfile.TemporaryDirectory() as folder:
        # While the last worker begins, the first does many.
        before = 20 * workers
        seeds = range(1_500_000, 1_500_000 + before + episodes)
        todo = jobs(scenario_plan(scenario), scenario, seeds, Path(folder))
        with closing(campaign(todo, pool)) as done:
            for _ in range(before):
                next(done)
            spent, began_s = spent_s(), time.perf_counter()
            for _ in range(episodes - workers):
                next(done)
            # Who has nothing left to do is gone soon, and with it what it took.
            wall_s, since = time.perf_counter() - began_s, spent_s()
            share = episodes / (episodes - workers)
            return Worked(
                wall_s * share, {who: share * (since[who] - spent[who]) for who in WHO}
            )


WHO = "workers", "the command", "Ray's own"


def spent_s() -> dict[str, float]:
    """The processor time of this process and all below it, by who it is."""
    below, spent = {os.getpid()}, dict.fromkeys(WHO, 0.0)
    for stat in sorted(Path("/proc").glob("[0-9]*/stat"), key=_started):
        with suppress(OSError):
            name, _, told = stat.read_text().partition("(")[2].rpartition(") ")
            fields = told.split()
            pid, parent = int(stat.parent.name), int(fields[1])
            if pid not in below and parent not in below:
                continue
            below.add(pid)
            who = "Ray's own"
            if pid == os.getpid():
                who = "the command"
            elif name.startswith("ray::Hand"):
                who = "workers"
            spent[who] += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return spent


def _started(stat: Path) -> int:
    with suppress(OSError):
        return int(stat.read_text().rpartition(") ")[2].split()[19])
    return 0


def bare_s(workers: int) -> float:
    """How long so many processes take that only count: what there is to win."""
    command = [sys.executable, "-c", f"sum(i * i for i in range({LOOPS}))"]
    began_s = time.perf_counter()
    counting = [subprocess.Popen(command) for _ in range(workers)]
    for process in counting:
        process.wait()
    return time.perf_counter() - began_s


def plan() -> Iterator[str]:
    """How a million vehicles at 10 Hz come to a model a day on one machine."""
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
    yield f"the model then: {text / 1e3:.0f} kB with 1,000 contributors"
    yield f"of them in its ledger: {ledger:.0f} bytes each"
    yield f"counting adds to each frame: {counting_s() * 1e9:.0f} ns"


if __name__ == "__main__":
    print("\n".join(plan()))
