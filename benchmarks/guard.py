"""The guard end to end: one review, its record line, and where the time goes."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from measuring import Row
from online import LAWS, PREDICATES, a_call, drive, watching

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import STAGES, Policy
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.guarding.watch import Watch

SIGNALS = 60
DRIVING_S = 0.10079
"""ProbGuard's mean time a decision for driving, as its paper states it (RQ3)."""
EMBODIED_S = 0.005
"""The same for household robots with its cache, at its best: 5 to 28 ms."""


def rows(quick: bool) -> Iterator[Row]:
    frames = drive(5_000 if quick else 50_000)
    watch = watching(frames)
    what = f"review: {len(PREDICATES)} predicates, {len(LAWS)} laws"
    alone = a_call(Reviewing(watch, []), stream(frames))
    yield Row(
        f"{what}, no record", alone, 15e-6, "ProbGuard, driving, published", DRIVING_S
    )
    peer = "ProbGuard, embodied, cached, published"
    yield Row("the same", alone, None, f"{peer}: 5 to 28 ms", EMBODIED_S)
    for changing, said in ((2, "half"), (1, "all")):
        line = f"a record line of {SIGNALS} signals, {said} of them changed"
        yield from recorded(f"{what}, {line}", watch, frames, changing)
    for length in (500, 50_000):
        yield from stages(watching(frames[:length]), frames)


class Reviewing:
    """A guard whose clock is the frames' own."""

    def __init__(self, watch: Watch, observers: Sequence[Any]) -> None:
        limits = dict.fromkeys(STAGES, 1.0)
        policy = Policy(deadline_s=limits)
        self.now_s = 0.0
        self.guard = Guard(watch, policy, clock=lambda: self.now_s, observers=observers)
        self.guard.reset()

    def __call__(self, frame: Frame) -> None:
        self.now_s = frame.time_s
        self.guard.review(frame)


def stream(frames: Sequence[dict[str, Any]]) -> list[Frame]:
    return [Frame(0.1 * i, i, values) for i, values in enumerate(frames)]


def recorded(
    what: str, watch: Watch, frames: Sequence[dict[str, Any]], changing: int
) -> Iterator[Row]:
    """With a long line, beside the least that such a line costs.

    Args:
        what: Its name in the table.
        watch: What is reviewed by.
        frames: What is reviewed, to which more signals are added.
        changing: Each so-manieth of these has another value in every frame. In frames
            of the SUMO worlds a fifth has.
    """
    full = stream([padded(i, values, changing) for i, values in enumerate(frames)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        with RunRecord(path, {"scenario": "benchmark"}) as record:
            times = each_call(Reviewing(watch, [record]), full)
        lines = [json.loads(line) for line in path.read_text().splitlines()[1:-1]]
    least = each_call(
        lambda line: hashlib.sha256(json.dumps(line).encode()).hexdigest(), lines
    )
    median = statistics.median(times)
    peer = "json.dumps and sha256 of the line"
    yield Row(what, median, 40e-6, peer, statistics.median(least), 1 / 2.5)
    slowest = sorted(times)[int(len(times) * 0.999)]
    yield Row("the same, the 999th of a thousand", slowest, 200e-6)


def padded(frame: int, values: dict[str, Any], changing: int) -> dict[str, Any]:
    more = {
        f"signal_{i}": 0.1 * i + 1 / 3 + (frame / 7 if i % changing == 0 else 0.0)
        for i in range(SIGNALS - len(values))
    }
    return {**values, **more}


def each_call(run: Callable[[Any], object], inputs: Sequence[Any]) -> list[float]:
    """The time of every call."""
    times = []
    for item in inputs:
        start = time.perf_counter()
        run(item)
        times.append(time.perf_counter() - start)
    return times


def stages(watch: Watch, frames: Sequence[dict[str, Any]]) -> Iterator[Row]:
    """Mean and standard deviation of each stage, by the clock that the guard reads."""
    readings: list[tuple[float, ...]] = []
    written: list[float] = []

    class Recording:
        """Times the record, and keeps the guard's readings."""

        def __init__(self, record: RunRecord) -> None:
            self.record = record

        def reviewed(self, *heard: Any) -> None:
            began_s = time.perf_counter()
            self.record.reviewed(*heard)
            written.append(time.perf_counter() - began_s)
            readings.append(heard[3])

    policy = Policy(deadline_s=dict.fromkeys(STAGES, 10.0), max_age_s=1e9)
    full = [padded(i, values, 2) for i, values in enumerate(frames[:5_000])]
    with RunRecord(Path(os.devnull), {}) as record:
        listener = Recording(record)
        guard = Guard(watch, policy, clock=time.perf_counter, observers=[listener])
        guard.reset()
        for frame in stream(full):
            guard.review(frame)
    n = watch.parts[0].model.chain.n
    whole = [r for r in readings if len(r) == len(STAGES) + 1]
    times = {s: [r[i + 1] - r[i] for r in whole] for i, s in enumerate(STAGES)}
    lookups = each_call(Lookup(watch), range(5_000))
    for what, measured in (*times.items(), ("look-up", lookups), ("record", written)):
        spread = statistics.stdev(measured)
        within = " (within monitors)" if what == "look-up" else ""
        yield Row(
            f"{what}{within}, {n} states: mean, deviation {spread * 1e6:.1f} µs",
            statistics.fmean(measured),
        )


class Lookup:
    """Reads the risks of every law in one state after another."""

    def __init__(self, watch: Watch) -> None:
        self.tables = [law._risks[law.automaton.initial] for law in watch.laws]
        self.n = watch.parts[0].model.chain.n

    def __call__(self, frame: int) -> None:
        state = frame % self.n
        for bounds in self.tables:
            bounds[state]
