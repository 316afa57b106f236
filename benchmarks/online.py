"""What is done at each frame: one law, and a full step of the guard's watch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from measuring import Row, installed, peer_seconds

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.guarding.watch import Watch, load_watch
from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.monitor import Monitor

STEPS = 100
LAW = "always (brake > 5 % -> eventually[0, 10 s] speed < 0.5 km/h)"
LAWS = (
    "always (traffic_light == red and stop_line_distance < 20 m"
    " -> eventually[0, 10 s] speed < 0.5 km/h)",
    "always (lead_distance < 5 m -> eventually[0, 10 s] speed < 5 km/h)",
    "always (brake > 5 % -> eventually[0, 10 s] speed < 15 km/h)",
)
PREDICATES = (
    "speed < 0.5 km/h", "speed < 5 km/h", "speed < 15 km/h", "speed < 30 km/h",
    "stop_line_distance < 5 m", "stop_line_distance < 20 m", "lead_distance < 5 m",
    "lead_distance < 20 m", "traffic_light == red", "brake > 5 %",
    "required_deceleration > 3 m/s²", "in_junction",
)  # fmt: skip


def rows(quick: bool) -> Iterator[Row]:
    frames = drive(5_000 if quick else 50_000)
    yield from one_law(frames)
    watch = watching(frames)
    read = watch.read
    stream = [Frame(0.1 * i, i, values) for i, values in enumerate(frames)]
    yield Row(
        f"full step: frame, {len(PREDICATES)} predicates, {len(LAWS)} laws, risk",
        a_call(read, stream),
        4e-6,
    )


def one_law(frames: Sequence[dict[str, Any]]) -> Iterator[Row]:
    vocabulary = load_vocabulary("driving")
    law = compile_law(parse_formula(LAW, vocabulary), 0.1, vocabulary=vocabulary)
    ours = a_call(Monitor(law).step, frames)
    what = f"one law online, frame by frame: 2 predicates, K = {STEPS}"
    pairs = [(frame["speed"], frame["brake"]) for frame in frames[:5_000]]
    for module, least in (("rtamt", 50), ("reelay", 2)):
        if installed(module):
            theirs = peer_seconds(f"{module}_online.py", steps=STEPS, frames=pairs)
            yield Row(what, ours, 0.3e-6, module, theirs, least)
        else:
            yield Row(what, ours, 0.3e-6, f"{module}: not installed")


def a_call(read: Callable[[Any], object], inputs: Sequence[Any]) -> float:
    """The median over batches of a call's time, loop included."""
    size = 1_000
    times = []
    for begin in range(0, len(inputs), size):
        batch = inputs[begin : begin + size]
        start = time.perf_counter()
        for item in batch:
            read(item)
        times.append((time.perf_counter() - start) / len(batch))
    return statistics.median(times)


def watching(frames: Sequence[dict[str, Any]]) -> Watch:
    """A model of the drive itself, with the laws' risks solved."""
    abstraction = from_expressions(PREDICATES, load_vocabulary("driving"))
    tally = Tally()
    names = [abstraction.state_name(abstraction.encode(frame)) for frame in frames]
    for begin in range(0, len(names), 500):
        tally.add_sequence(names[begin : begin + 500])
    model = learn(
        tally,
        Support("observed"),
        Fraction(1),
        "absorb",
        abstraction=abstraction.as_dict(),
        period_s=0.1,
    )
    return load_watch(model, horizon_s=5.0, laws=LAWS)


def drive(length: int) -> list[dict[str, Any]]:
    """A car that stops at some red lights and follows another one."""
    rng = np.random.default_rng(0)
    speed, to_line, lead, red, phase = 40.0, 150.0, 60.0, False, 0
    frames = []
    for _ in range(length):
        phase -= 1
        if phase < 0:
            red, phase = not red, int(rng.integers(100, 300))
        needed = speed**2 / 26 / max(to_line, 0.5) if red else 0.0
        braking = needed > 2 or lead < 8
        speed += rng.normal(-2.5, 0.5) if braking else rng.normal(0.6, 0.3)
        speed = float(np.clip(speed, 0, 50))
        to_line -= speed / 36
        lead = float(np.clip(lead + rng.normal(0, 1.5), 2, 80))
        inside = to_line < 0
        to_line = 150.0 if to_line < -15 else to_line
        frames.append({
            "speed": speed,
            "stop_line_distance": max(to_line, 0.0),
            "lead_distance": lead if lead < 75 else None,
            "traffic_light": "red" if red else "green",
            "brake": 30.0 if braking else 0.0,
            "required_deceleration": needed,
            "in_junction": inside,
        })  # fmt: skip
    return frames
