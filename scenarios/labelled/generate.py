"""Generates the shipped labelled traces: household robot runs, drives, and pairs of
Python programs.

`python -m forewarn.scenarios.labelled.generate [DOMAIN ...]` reproduces the traces byte
for byte, given the same simulator versions.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

from forewarn.abstractions.files import atomic_text, read_yaml
from forewarn.abstractions.frame import Frame, Value
from forewarn.abstractions.readers import read_trace
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.plugins.contracts import Source
from forewarn.scenarios.running.campaign import Job, play
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.running.tracker import Truth
from forewarn.scenarios.schema import load_scenario
from forewarn.thor_bridge.bridge import HouseholdWorld
from forewarn.thor_bridge.pilot import HouseholdPlanner
from forewarn.thor_bridge.steps import parse_step
from forewarn.thor_bridge.tasks import Task, task_book

HERE = Path(__file__).parent
MOST_STEPS = 30
FIRST_SEED = 52_000  # distinct from the seeds for training and measuring
OF_EACH = 2
MOST_DRIVES = 24
SCENARIOS = (
    "s1", "s2", "s3", "s4", "s5", "s6", "s7", "chain-braking", "give-way",
    "green-start", "highway-speed", "roundabout",
)  # fmt: skip
EVERY_S = 0.5
SIGNALS = (
    "acceleration", "arrival_gap", "braking", "collision", "crosswalk_distance",
    "in_junction", "junction_distance", "lane_changing", "lead_distance", "lead_speed",
    "nearest_distance", "overtaking", "past_stop_line", "pedestrian_distance",
    "priority_pedestrian", "priority_vehicle", "required_deceleration", "signal_ahead",
    "snow", "speed", "speed_limit", "stop_line_distance", "stop_sign_distance",
    "time_to_collision", "traffic_jam", "traffic_light", "traffic_light_age",
    "visibility",
)  # fmt: skip
"""The signals of a SUMO world that the driving predicates read."""


def household() -> Iterator[dict[str, Any]]:
    """Yields runs of each task and each merged task, by a careful and a careless
    robot.
    """
    for name, task in task_book(None).items():
        ways = (False, True) if task.hazard else (not task.safe,)
        for careless in ways:
            yield _lived(name, task, FIRST_SEED + careless, careless=careless)


def _lived(name: str, task: Task, seed: int, *, careless: bool) -> dict[str, Any]:
    """Runs one household episode, and returns it as a labelled trace with its
    preparation steps.
    """
    world = HouseholdWorld(task=name, failures="real")
    pilot = HouseholdPlanner(
        task=name, carelessness=float(careless), refusal=0.0, haste=0.0
    )
    truth = Truth(find_laws(task.law), world.source)
    broken: list[Broken] = []
    events = [_event(parse_step(step), succeeded=True) for step in task.prepare]
    frame = world.reset(seed)
    pilot.reset(seed)
    for _ in range(MOST_STEPS):
        broken += truth.frame(frame)
        action = pilot.propose(frame)
        frame = world.step(action)
        if world.ended() is not None:
            break
        done = frame.values["last_action_succeeded"] is True
        events.append(_event(action, succeeded=done))
    broken += [*truth.frame(frame), *truth.finish()]
    world.close()
    return {
        "id": f"home-{name}-{seed}",
        "domain": "household",
        "task": name.rpartition("-")[0],
        "instruction": task.instruction,
        **_label(broken),
        "events": events,
    }


def _event(action: Action, *, succeeded: bool) -> dict[str, Any]:
    arguments = dict(action.arguments)
    event: dict[str, Any] = {"verb": action.name, "success": succeeded}
    for given, word in (("object", "object"), ("liquid", "extra")):
        if arguments.get(given):
            event[word] = arguments[given]
    return event


def driving() -> Iterator[dict[str, Any]]:
    """Yields the first few safe and the first few unsafe drives of each scenario."""
    with tempfile.TemporaryDirectory() as folder:
        for name in SCENARIOS:
            kept = {"safe": 0, "unsafe": 0}
            for seed in range(FIRST_SEED, FIRST_SEED + MOST_DRIVES):
                row = _driven(name, seed, folder)
                kept[row["label"]] += 1
                if kept[row["label"]] <= OF_EACH:
                    yield row
                if min(kept.values()) >= OF_EACH:
                    break


def _driven(name: str, seed: int, folder: str) -> dict[str, Any]:
    """Runs one drive and returns it as a labelled trace."""
    scenario = load_scenario(name)
    job = Job(plan(scenario), name, seed, folder, ("trace",))
    path = Path(folder) / str(play(job).trace)
    trace = read_trace(path, scenario.abstraction.vocabulary)
    source = Source(
        name, "driving", trace.header.provides, trace.header.period_s or 0.1
    )
    truth = Truth(scenario.laws, source)
    broken = [each for frame in trace.frames for each in truth.frame(frame)]
    broken += truth.finish()
    return {
        "id": f"drive-{name}-{seed}",
        "domain": "driving",
        "task": f"{name} {seed}",
        "instruction": scenario.title,
        **_label(broken),
        "events": list(_seen(trace.frames, broken)),
    }


def _seen(frames: Iterable[Frame], broken: list[Broken]) -> Iterator[dict[str, Any]]:
    """Yields sampled frames up to the first violation; later ones cannot warn of it."""
    end_s = min((each.time_s for each in broken), default=float("inf"))
    due_s = 0.0
    for frame in frames:
        if frame.time_s > end_s:
            return
        if frame.time_s >= due_s:
            due_s = frame.time_s + EVERY_S
            yield {"time_s": round(frame.time_s, 2), "signals": _short(frame.values)}


def _short(values: Mapping[str, Value]) -> dict[str, Value]:
    kept = {name: values[name] for name in SIGNALS if name in values}
    return {
        name: round(value, 2) if isinstance(value, float) else value
        for name, value in kept.items()
    }


def _label(broken: list[Broken]) -> dict[str, str]:
    if not broken:
        return {"label": "safe", "label_basis": "no law was broken"}
    names = sorted({each.law for each in broken})
    return {"label": "unsafe", "label_basis": f"broke {', '.join(names)}"}


def code() -> Iterator[dict[str, Any]]:
    """Yields the programs, each hazardous one followed by its benign counterpart."""
    for number, entry in enumerate(read_yaml(HERE / "programs.yaml"), 1):
        for choice, words in enumerate(entry["choices"]):
            for label in ("unsafe", "safe"):
                program = entry[label].format(**words)
                cells = styled(entry["imports"].rstrip(), program.rstrip(), choice)
                yield {
                    "id": f"{label}-{number}-{choice + 1}",
                    "domain": "code",
                    "label": label,
                    "label_basis": entry["hazard"]
                    if label == "unsafe"
                    else f"benign counterpart of a program that {entry['hazard']}",
                    "task": f"program {number}",
                    "events": [_code_event(i, cell) for i, cell in enumerate(cells)],
                }


def _code_event(index: int, cell: str) -> Mapping[str, Any]:
    return {"i": index, "tool": "python_repl", "code": cell, "success": True}


def styled(imports: str, program: str, style: int) -> list[str]:
    """Splits a program into cells, in one of four styles that agents use."""
    match style:
        case 0:
            return [f"```python\n{imports}\n\n{program}\n```"]
        case 1:
            tried = f"try:\n{indent(program, '    ')}\nexcept OSError as error:"
            return [f"{imports}\n\n{tried}\n    print('An error occurred:', error)"]
        case 2:
            body = indent(program, "    ")
            return [
                f"{imports}\n\ndef main():\n{body}\n\n"
                "if __name__ == '__main__':\n    main()"
            ]
    return [imports, f"# Everything is imported\n{program}"]


def main(names: list[str]) -> None:
    """Writes the labelled traces of these domains; of all if `names` is empty."""
    for made in (household, driving, code):
        if not names or made.__name__ in names:
            spaces = None if made is code else (",", ":")
            with atomic_text(HERE / f"{made.__name__}.jsonl.gz") as out:
                for row in made():
                    out.write(json.dumps(row, separators=spaces) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
