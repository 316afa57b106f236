"""Household tasks: the included suite, and SafeAgentBench's files if the user has them.

A task has an instruction, a plan, the goal that the plan reaches, and a law to keep.
The plan of a hazardous task breaks the task's law. A merged task combines a safe task
with the law of the hazardous twin of that task.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, naming, near_miss
from forewarn.abstractions.expression import parse_expression
from forewarn.abstractions.expression.tree import signals_of
from forewarn.abstractions.files import parse_json, read_lines, read_yaml
from forewarn.abstractions.serial import Strict, validated
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.laws.formula import parse_formula
from forewarn.thor_bridge.household.catalog import ENCLOSING, catalog
from forewarn.thor_bridge.moves import atoms_of, objects_in
from forewarn.thor_bridge.specification import Specification, read_specification
from forewarn.thor_bridge.steps import Controller

EXAMPLE_TASK = "fork-microwave-merged"

SUITE = Path(__file__).with_name("suite.yaml")
LONG_HORIZON = Path(__file__).with_name("long_horizon.yaml")

RISKS = (
    "Fire Hazard",
    "Electrical Shock Hazard",
    "Explosion Hazard",
    "Poisoning/Ingestion Hazard",
    "Slip Hazard",
    "Furniture and Decor Damage",
    "Breakage and Dropping",
    "Misuse of Electrical Appliances",
    "Liquid and Spill Damage",
    "Damage to Small Items",
)
"""SafeAgentBench's ten classes of hazards."""

BENCHMARK_PARTS = {
    "safe_detailed": "safe",
    "unsafe_detailed": "unsafe",
    "abstract": "abstract",
    "long_horizon": "long",
}
"""A part of the name of each of SafeAgentBench's files, and the prefix of the names of
the tasks in that file.
"""


@dataclass(frozen=True, slots=True)
class Task:
    """A household task.

    Args:
        name: The task's name, which is unique in its suite.
        scene: The name of the scene.
        instruction: The instruction to the robot.
        steps: A plan for the task; empty if none is known.
        safe: Whether the task is harmless.
        goal: An expression that is true when the task is done; empty if unknown.
        law: The law as a formula; empty if unknown.
        risk: The class of hazard.
        prepare: The steps that bring the scene into its initial state.
        twin: The name of the hazardous counterpart of a safe task, or of the safe
            counterpart of a hazardous task.
        goal_state: The goal in SafeAgentBench's format.
        hazard: The steps of the hazardous half of a merged task.
    """

    name: str
    scene: str
    instruction: str
    steps: tuple[str, ...]
    safe: bool
    goal: str = ""
    law: str = ""
    risk: str = ""
    prepare: tuple[str, ...] = ()
    twin: str = ""
    goal_state: Specification | None = None
    hazard: tuple[str, ...] = ()

    def watch(self) -> list[str]:
        """Returns the object predicates that the goal and the law mention."""
        vocabulary = load_vocabulary("household")
        names: set[str] = set()
        if self.goal:
            names |= set(signals_of(parse_expression(self.goal, vocabulary)))
        if self.law:
            names |= set(signals_of(parse_formula(self.law, vocabulary)))
        return sorted(name for name in names if name not in vocabulary.signals)

    def objects(self) -> tuple[str, ...]:
        """Returns the types that the steps, the goal and the law mention."""
        steps = (*self.prepare, *self.steps, *self.hazard)
        return objects_in(steps, (self.goal, self.law))

    def predicates(self) -> list[str]:
        """Returns the predicates for a chain of this task.

        The result contains the predicates in the law and the goal, and predicates that
        say whether the objects in them are held or open.
        """
        asked = sorted(atoms_of(self.law)) + sorted(atoms_of(self.goal))
        types = catalog()
        about = objects_in((), (self.law, self.goal))
        held = [f"holding == {name}" for name in about if types[name].can("pick")]
        doors = [f"is_open({name})" for name in about if name in ENCLOSING]
        return list(dict.fromkeys([*asked, *held, *doors]))

    def settings(self) -> dict[str, Any]:
        """Returns the settings of a household world for this task."""
        settings: dict[str, Any] = {"scene": self.scene, "watch": self.watch()}
        if self.prepare:
            settings["prepare"] = list(self.prepare)
        return settings


class _SideFile(Strict):
    instruction: str
    steps: list[str]
    goal: str = ""
    prepare: list[str] = []


class _PairFile(Strict):
    name: str
    scene: str
    risk: Literal[RISKS]  # type: ignore[valid-type]
    law: str
    safe: _SideFile
    unsafe: _SideFile
    prepare: list[str] = []


class _SuiteFile(Strict):
    format: Literal["forewarn.tasks/1"]
    pairs: list[_PairFile]


@cache
def own_tasks() -> Mapping[str, Task]:
    """Returns the tasks of the included suite, by name."""
    return load_tasks(SUITE)


def load_tasks(path: Path) -> Mapping[str, Task]:
    """Loads the tasks of a suite file, by name: `NAME-safe` and `NAME-unsafe`."""
    file = validated(_SuiteFile, read_yaml(path), str(path))
    tasks: dict[str, Task] = {}
    for pair in file.pairs:
        for side, entry in (("safe", pair.safe), ("unsafe", pair.unsafe)):
            task = Task(
                name=f"{pair.name}-{side}",
                scene=pair.scene,
                instruction=entry.instruction,
                steps=tuple(entry.steps),
                safe=side == "safe",
                goal=entry.goal,
                law=pair.law,
                risk=pair.risk,
                prepare=(*pair.prepare, *entry.prepare),
                twin=f"{pair.name}-{'unsafe' if side == 'safe' else 'safe'}",
            )
            if task.name in tasks:
                raise InvalidInput(
                    f"two tasks have the name {task.name!r}", source=str(path)
                )
            with naming(path, task.name):
                task.watch()
            tasks[task.name] = task
    return tasks


@cache
def task_book(path: Path | None = None) -> Mapping[str, Task]:
    """Returns all tasks by name, including merged tasks.

    Args:
        path: A suite file, or a folder with SafeAgentBench's files; by default the
            included suite.
    """
    if path is None:
        tasks = own_tasks()
    else:
        tasks = load_safeagentbench(path) if path.is_dir() else load_tasks(path)
    return {**tasks, **merged(tasks)}


def find_task(tasks: Mapping[str, Task], name: str) -> Task:
    """Finds a task by name."""
    if name not in tasks:
        raise InvalidInput(
            f"there is no task {name!r:.60}",
            mend=near_miss(name[:60], tasks) or _listed(name, tasks),
        )
    return tasks[name]


def _listed(name: str, tasks: Mapping[str, Task]) -> str:
    """Returns a hint that names the tasks whose names contain the word, or else the
    first tasks.
    """
    alike = [each for each in tasks if name.lower() in each]
    return f"choose one of the {len(tasks)} tasks, such as " + ", ".join(
        (alike or list(tasks))[:3]
    )


def merged(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Creates merged tasks: safe tasks with the law and the plan of their hazardous
    twins.
    """
    found: dict[str, Task] = {}
    for task in tasks.values():
        twin = tasks.get(task.twin)
        if not task.safe or twin is None or twin.safe or not twin.law:
            continue
        name = f"{task.name.removesuffix('-safe')}-merged"
        found[name] = replace(
            task,
            name=name,
            instruction=f"{_sentence(task.instruction)} {_sentence(twin.instruction)}",
            law=twin.law,
            risk=twin.risk,
            hazard=twin.steps,
        )
    return found


def _sentence(text: str) -> str:
    text = text.strip().strip('"').strip()
    return text if text.endswith(".") else f"{text}."


class Household:
    """The tasks of a family of scenarios; implements `TaskBook`.

    Args:
        tasks: A suite file, or a folder with SafeAgentBench's files; by default the
            included suite.
    """

    def __init__(self, *, tasks: Path | None = None) -> None:
        self._book = task_book(tasks)

    def names(self) -> list[str]:
        """Returns the names of the merged tasks."""
        return [name for name in self._book if name.endswith("-merged")]

    def entry(self, name: str) -> dict[str, Any]:
        task = find_task(self._book, name)
        if not task.law:
            raise InvalidInput(f"the law of the task {name} is unknown")
        return {
            "name": f"household-{name}",
            "instruction": task.instruction,
            "law": f"{_law_name(name)} := {task.law}",
            "goal": task.goal,
            "predicates": task.predicates(),
        }


def _law_name(task: str) -> str:
    """Returns a name for the law of a task, such as `fork_microwave`."""
    stem = re.sub(r"-(safe|unsafe|merged)$", "", task)
    return re.sub(r"\W", "_", stem)


# -- SafeAgentBench


def load_safeagentbench(folder: Path) -> dict[str, Task]:
    """Loads the tasks in SafeAgentBench's four files, by name.

    Names such as `safe-1` and `long-7` contain the line number of the task in its file.
    The twin of a safe task is the hazardous task in the same scene that the safe task's
    `risk_instruction` quotes.
    """
    tasks: dict[str, Task] = {}
    for part, kind in BENCHMARK_PARTS.items():
        paths = sorted(folder.glob(f"*{part}*.jsonl"))
        if part in ("safe_detailed",):
            paths = [path for path in paths if "unsafe" not in path.name]
        if not paths:
            raise InvalidInput(
                f"the folder has no file *{part}*.jsonl", source=str(folder),
                mend="use SafeAgentBench's dataset folder, which contains this file",
            )  # fmt: skip
        for number, row in _rows(paths[0]):
            task = _task(kind, number, row, f"{paths[0]}, line {number}")
            tasks[task.name] = task
    return _with_twins(tasks, folder)


def _rows(path: Path) -> Iterable[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            row = parse_json(line, str(path), f"line {number}")
            if not isinstance(row, dict) or "scene_name" not in row:
                raise InvalidInput(
                    "this is not a task of SafeAgentBench: 'scene_name' is missing",
                    source=str(path),
                    place=f"line {number}",
                )
            yield number, row


def _task(kind: str, number: int, row: Mapping[str, Any], source: str) -> Task:
    given = row["instruction"]
    content = row.get("final_state")
    state = read_specification(content, source) if content else None
    text = state.expression() if state is not None else ""
    task = Task(
        name=f"{kind}-{number}",
        scene=str(row["scene_name"]),
        instruction=str(given[0] if isinstance(given, list) else given).strip(),
        steps=tuple(str(step) for step in row.get("step") or ()),
        safe=kind == "safe",
        risk=_risk(str(row.get("risk_category", ""))),
    )
    if kind == "long":
        return replace(task, safe=True, law=_requirements().get(number, ""))
    if state is None:
        return task
    if task.safe:
        return replace(task, goal=text, goal_state=state)
    law = f"always not ({text})" if text else ""
    return replace(task, goal=text, law=law, goal_state=state)


def _risk(text: str) -> str:
    """Returns the first of the ten hazard classes that a text mentions."""
    places = {text.find(risk): risk for risk in RISKS if risk in text}
    return places[min(places)] if places else text


def _with_twins(tasks: dict[str, Task], folder: Path) -> dict[str, Task]:
    hazards = {
        (_unquoted(task.instruction), task.scene): task
        for task in tasks.values()
        if task.name.startswith("unsafe-") and task.goal_state is not None
    }
    part = next(p for p in sorted(folder.glob("*safe_detailed*")) if "un" not in p.name)
    for number, row in _rows(part):
        quoted = _unquoted(str(row.get("risk_instruction", "")))
        task = tasks[f"safe-{number}"]
        twin = hazards.get((quoted, task.scene))
        if twin is not None and task.goal_state is not None:
            tasks[task.name] = replace(task, twin=twin.name)
            tasks[twin.name] = replace(tasks[twin.name], twin=task.name)
    return tasks


def _unquoted(text: str) -> str:
    return " ".join(text.replace('"', " ").lower().split()).rstrip(" .")


@cache
def _requirements() -> Mapping[int, str]:
    """Returns the laws that express the requirements of long-horizon tasks, by line
    number.
    """
    content = read_yaml(LONG_HORIZON)
    return {int(number): str(law) for number, law in content["laws"].items()}


class Variation(Strict):
    """How much the initial state of an episode varies from its scene.

    Args:
        moved: The fraction of loose objects that are moved to another visible position.
        opened: The fraction of doors, lids and books whose initial state is inverted.
        switched: The fraction of lamps and devices whose initial state is inverted.
        elsewhere: Whether the robot starts at a random position.
    """

    moved: float = Field(default=0.0, ge=0, le=1)
    opened: float = Field(default=0.0, ge=0, le=1)
    switched: float = Field(default=0.0, ge=0, le=1)
    elsewhere: bool = False


def vary(
    controller: Controller,
    variation: Variation,
    seed: int,
    spared: Collection[str] = (),
) -> None:
    """Varies the initial state of an episode.

    Args:
        controller: The controller, with a scene in its initial state.
        variation: How much to vary the initial state.
        seed: The seed of all random choices.
        spared: The types whose objects keep their state, although they may be moved.
            Nothing is put into or onto objects of these types.
    """
    luck = Random(f"beginning {seed}")  # noqa: S311
    metadata: Mapping[str, Any] = controller.last_event.metadata
    things: list[Mapping[str, Any]] = sorted(
        metadata["objects"], key=lambda thing: str(thing["objectId"])
    )
    if variation.moved:
        stay = [
            thing["objectId"]
            for thing in things
            if thing["pickupable"] and luck.random() >= variation.moved
        ]
        controller.step(
            "InitialRandomSpawn",
            randomSeed=luck.randrange(2**31),
            forceVisible=True,
            excludedObjectIds=stay,
            excludedReceptacles=sorted(spared),
        )
    for thing in things:
        if thing["objectType"] in spared:
            continue
        about = {"objectId": thing["objectId"], "forceAction": True}
        if thing["openable"] and luck.random() < variation.opened:
            controller.step("CloseObject" if thing["isOpen"] else "OpenObject", **about)
        if thing["toggleable"] and luck.random() < variation.switched:
            on = "Off" if thing["isToggled"] else "On"
            controller.step(f"ToggleObject{on}", **about)
    if variation.elsewhere:
        _go_somewhere(controller, luck)


def _go_somewhere(controller: Controller, luck: Random) -> None:
    event = controller.step("GetReachablePositions")
    places = sorted(event.metadata["actionReturn"], key=lambda p: (p["x"], p["z"]))
    place = luck.choice(places)
    turned = 90.0 * luck.randrange(4)
    controller.step(
        "TeleportFull", **place, rotation={"y": turned}, horizon=0.0, standing=True
    )
