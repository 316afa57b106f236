"""The guard end to end: one review, its record line, and where the time goes."""

from __future__ import annotations

import hashlib
import json
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
PUBLISHED_S = 0.10079
"""ProbGuard's mean time a decision for driving, as its paper states it (RQ3)."""


def rows(quick: bool) -> Iterator[Row]:
    frames = drive(5_000 if quick else 50_000)
    watch = watching(frames)
    what = f"review: {len(PREDICATES)} predicates, {len(LAWS)} laws"
    yield Row(
        f"{what}, no record",
        a_call(Reviewing(watch, []), stream(frames)),
        8e-6,
        "ProbGuard, driving, published",
        PUBLISHED_S,
    )
    yield from recorded(what, watch, frames)
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
    what: str, watch: Watch, frames: Sequence[dict[str, Any]]
) -> Iterator[Row]:
    """With a line of about 60 signals, beside the least that such a line costs."""
    padding = {f"signal_{i}": 0.1 * i + 1 / 3 for i in range(SIGNALS - 7)}
    full = stream([{**values, **padding} for values in frames])
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
    yield Row(
        f"{what}, a record line of {SIGNALS} signals",
        median,
        40e-6,
        peer,
        statistics.median(least),
        1 / 2.5,
    )
    slowest = sorted(times)[int(len(times) * 0.999)]
    yield Row("the same, the 999th of a thousand", slowest, 200e-6)


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

    class Listener:
        def reviewed(self, *heard: Any) -> None:
            readings.append(heard[3])

    policy = Policy(deadline_s=dict.fromkeys(STAGES, 10.0), max_age_s=1e9)
    guard = Guard(watch, policy, clock=time.perf_counter, observers=[Listener()])
    guard.reset()
    for frame in stream(frames[:5_000]):
        guard.review(frame)
    n = watch.model.chain.n
    for i, stage in enumerate(STAGES):
        times = [r[i + 1] - r[i] for r in readings if len(r) == len(STAGES) + 1]
        spread = statistics.stdev(times)
        yield Row(
            f"{stage}, {n} states: mean, deviation {spread * 1e6:.1f} µs",
            statistics.fmean(times),
        )
