"""Figures of docs/own-world.md: our criticality signals compared with
CommonRoad-CriMe's.

CriMe measures pairs of vehicles, whereas our signals are the worst case over all
vehicles. We therefore compare the minimum of CriMe's times and distances, and the
maximum of its required deceleration. CriMe needs its own environment, because its
version of protobuf conflicts with ours:

    python -m venv crime && crime/bin/pip install commonroad-crime
    python benchmarks/crime.py SCENES --python crime/bin/python [--egos 1] [--every 10]

SCENES is a folder with CommonRoad files, of which `--egos` vehicles each are compared
at every tenth step.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from run import command_line, markdown

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.commonroad.bridge import scene_trace
from forewarn.plugins.commonroad.reading import read_scene

THERE = Path(__file__).with_name("crime_there.py")
PAIRS: dict[str, tuple[str, Callable[[Sequence[float]], float]]] = {
    "lead_distance": ("HW", min),
    "headway": ("THW", min),
    "time_to_collision": ("TTC", min),
    "required_deceleration": ("ALongReq", lambda v: -min(v)),
    "deceleration_to_avoid_crash": ("ALongReq", lambda v: -min(v)),
}
CLOSE = 0.1
"""The tolerated difference as a fraction of the larger value; a difference of one time
step is always tolerated.
"""


def asked(path: Path, every: int, egos: int) -> list[tuple[dict[str, Any], Any]]:
    """Returns some drives of a scene: the queries for CriMe, and our values."""
    told = read_scene(path)
    found = []
    for each in told.obstacles.values():
        if each.stands or each.on_foot or len(found) == egos:
            continue
        try:
            frames = scene_trace(path, each.number).frames
        except InvalidInput:
            continue
        first = each.states[0].step
        frames = frames[: min(len(frames), len(each.states) - 1)]
        steps = [first + at for at in range(every, len(frames), every)]
        question = {
            "file": str(path), "ego": each.number, "first": first, "steps": steps,
        }  # fmt: skip
        found.append((question, [dict(frame.values) for frame in frames]))
    return found


def equal(ours: float, theirs: float, step_s: float) -> bool:
    return abs(ours - theirs) <= max(CLOSE * max(abs(ours), abs(theirs)), step_s)


def compared(
    scenes: Path, *, python: str, egos: int = 1, every: int = 10
) -> Iterator[str]:
    """Yields the table, and why CriMe fails on some drives."""
    drives: list[tuple[dict[str, Any], Any]] = []
    read = 0
    for path in sorted(scenes.glob("*.xml*")):
        try:
            more = asked(path, every, egos)
        except InvalidInput as error:
            yield f"{path.name}: {error}"
            continue
        read += bool(more)
        drives += more
    done = subprocess.run(
        [python, str(THERE)], check=True, capture_output=True, text=True,
        input=json.dumps([question for question, _ in drives]),
    )  # fmt: skip
    answers = json.loads(done.stdout)
    rows = list[tuple[object, ...]]()
    for signal, (measure, worst) in PAIRS.items():
        both = same = ours_alone = theirs_alone = 0
        for (question, frames), answer in zip(drives, answers, strict=True):
            for step, values in answer.get("steps", {}).items():
                ours = frames[int(step) - question["first"]][signal]
                theirs = worst(values[measure]) if values[measure] else None
                if measure == "ALongReq" and theirs is not None and theirs <= 0.0:
                    theirs = None
                both += ours is not None and theirs is not None
                ours_alone += ours is not None and theirs is None
                theirs_alone += ours is None and theirs is not None
                if ours is not None and theirs is not None:
                    same += equal(ours, theirs, 0.1)
        rows.append((signal, measure, both, same, ours_alone, theirs_alone))
    both = same = ours_alone = theirs_alone = 0
    for (_, frames), answer in zip(drives, answers, strict=True):
        name = "post_encroachment_time"
        seen = [f[name] for f in frames if f[name] is not None]
        theirs = answer.get("PET", [])
        both += bool(seen) and bool(theirs)
        ours_alone += bool(seen) and not theirs
        theirs_alone += bool(theirs) and not seen
        same += bool(seen) and bool(theirs) and equal(min(seen), min(theirs), 0.3)
    rows.append(("post_encroachment_time", "PET", both, same, ours_alone, theirs_alone))
    failed = [a["error"] for a in answers if "error" in a]
    yield f"{read} scenes, {len(drives)} drives; CriMe fails on {len(failed)}"
    yield from (f"  {why:.200}" for why in sorted(set(failed)))
    head = ("signal", "measure", "both", "equal", "ours alone", "CriMe's alone")
    yield from markdown(head, rows)


if __name__ == "__main__":
    command_line(__doc__, compared)
