"""Writes the demo's traces: `python -m tests.scenarios.demo_traces FOLDER`.

Driving: a car approaches a traffic light that turns red. Most drivers notice it and
brake; some notice late and brake hard; a few run the light. Household: a robot warms
and rinses mugs. Sometimes it also puts a fork into the microwave, and sometimes it
leaves the faucet running.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from forewarn.abstractions.frame import Frame, Value
from forewarn.abstractions.trace import TraceHeader, trace_writer

Signals = dict[str, Value]

_STEP_S = 0.05
_STEPS_A_FRAME = 4


def approach(luck: Random) -> Iterator[Signals]:
    """Yields the signals of a car that approaches a traffic light, every 0.2 s."""
    v = 9.0 + 6.0 * luck.random()  # m/s
    d = 45.0 + 35.0 * luck.random()  # m to the stop line
    yellow_s = 0.4 + 2.0 * luck.random()
    red_s = yellow_s + 3.0
    attentive = luck.random() < 0.6
    notices_s = yellow_s + (0.5 if attentive else 1.5 + 4.5 * luck.random())
    comfort = 2.0 + 1.5 * luck.random()
    limit = 5.5 + 2.0 * luck.random()
    commits = False  # runs the light: it was too close to stop when the driver noticed
    after = 0
    for step in range(20 * 20):
        t = step * _STEP_S
        light = "green" if t < yellow_s else "yellow" if t < red_s else "red"
        gap = d - 1.0
        need = v * v / (2.0 * gap) if gap > 0.05 else limit
        a = 0.0
        if t >= notices_s and d > 0.0 and not commits:
            commits = need > limit and v > 2.0
            # Brake at the last comfortable moment, then as hard as necessary.
            late = need >= 0.8 * comfort or gap < 0.5
            a = -min(limit, need) if late and not commits else 0.0
        if step % _STEPS_A_FRAME == 0:
            before = d > 0.0
            yield {
                "speed": round(3.6 * v, 1),
                "braking": a < -0.5,
                "traffic_light": light if before else None,
                "stop_line_distance": round(d, 1) if before else None,
                "past_stop_line": not before,
                "required_deceleration": (
                    round(min(v * v / (2.0 * max(d, 0.1)), 20.0), 2) if before else 0.0
                ),
            }
            after += not before or (v < 0.05 and t > red_s)
            if after == 12:
                return
        v = max(0.0, v + a * _STEP_S)
        d -= v * _STEP_S


def chores(luck: Random) -> Iterator[Signals]:
    """Yields the signals of a robot that warms and rinses mugs, once per high-level
    action.
    """
    fork = mug = opened = heating = faucet = held = False
    for _ in range(24):
        yield {
            "is_inside(Fork, Microwave)": fork,
            "is_inside(Mug, Microwave)": mug,
            "is_open(Microwave)": opened,
            "is_toggled(Microwave)": heating,
            "is_toggled(Faucet)": faucet,
            "is_held(Mug)": held,
        }
        chance = luck.random()
        if faucet and chance < 0.75:
            faucet = False
        elif heating:
            heating = chance < 0.3
        elif opened:
            if held:
                held, mug = chance < 0.2, chance >= 0.2
            elif fork:
                fork = chance < 0.6
                opened = chance >= 0.25
            else:
                fork = chance < 0.1
                opened = chance < 0.3
        elif mug and not (fork and chance < 0.25):
            heating = chance < 0.6
            opened = chance > 0.8
        elif chance < 0.4:
            opened = True
            held, mug = held or mug, False
        elif held:
            faucet = True
        elif not mug:
            held = True


WORLDS = {
    "driving": (approach, 0.2, 80, 40),
    "household": (chores, 1.0, 80, 40),
}
"""By vocabulary: the world, its period in seconds, and the numbers of training and
held-out runs.
"""


def generate(folder: Path) -> None:
    """Writes the traces of both worlds to subfolders of `folder`."""
    for name, (world, period_s, train, held_out) in WORLDS.items():
        for seed in range(train + held_out):
            share = "train" if seed < train else "held_out"
            frames = list(world(Random(f"{name}-{seed}")))
            header = TraceHeader(
                vocabulary=name,
                provides=tuple(frames[0]),
                period_s=period_s,
                scenario=f"demo-{name}",
                seed=seed,
                source="forewarn.scenarios.demo.generate",
            )
            path = folder / name / share / f"{seed:03}.jsonl.gz"
            with trace_writer(path, header) as writer:
                for i, signals in enumerate(frames):
                    writer.write(Frame(round(i * period_s, 1), i, signals))


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
