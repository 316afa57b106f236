"""Homes in VirtualHome: their graphs, actions and programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from forewarn.abstractions.errors import (
    InvalidInput,
    MissingDependency,
    naming,
    near_miss,
)
from forewarn.abstractions.files import read_json, read_yaml
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.guarding.decision import Action

try:
    from virtualhome_eval.simulation.evolving_graph.environment import (
        EnvironmentGraph,
        EnvironmentState,
        Property,
        Relation,
        State,
    )
    from virtualhome_eval.simulation.evolving_graph.execution import (
        ExecutionInfo,
        ScriptExecutor,
    )
    from virtualhome_eval.simulation.evolving_graph.scripts import (
        Action as Verb,
    )
    from virtualhome_eval.simulation.evolving_graph.scripts import (
        Script,
        ScriptLine,
        ScriptObject,
    )
except ImportError as error:
    raise MissingDependency("VirtualHome", "virtualhome") from error

_SLICE = "slice"  # VirtualHome's name for it, `cut`, is a kind of decision
_VERBS = {
    _SLICE if verb is Verb.CUT else name.lower(): verb
    for name, verb in Verb.__members__.items()
}
VERBS: Mapping[str, int] = {name: verb.value[1] for name, verb in _VERBS.items()}
"""The actions of VirtualHome, with the number of objects that each takes."""

KNOWS = frozenset(
    ("is_inside", "is_on", "is_toggled", "is_open", "is_dirty", "is_held", "is_near")
)
"""The object predicates that can be evaluated on a graph."""

_ROBOT, _FAR_M = "character", 1000.0
_HOLDING = (Relation.HOLDS_RH, Relation.HOLDS_LH)
_PLACED = (Relation.INSIDE, Relation.ON)


def verb_of(name: str) -> str:
    """Converts VirtualHome's name of an action to its name in `VERBS`."""
    return _SLICE if name.lower() == "cut" else name.lower()


def kind_of(name: str) -> str:
    """Converts VirtualHome's name of a class to an object type.

    For example, `washing_machine` becomes `WashingMachine`.
    """
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", name))


class HomeLayout:
    """The static content of a home, which episodes share.

    Args:
        graph: The graph with nodes and edges in VirtualHome's format.
        source: The origin of the graph, for error messages.
    """

    def __init__(self, graph: Mapping[str, Any], source: str) -> None:
        try:
            self.graph = EnvironmentGraph(graph)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidInput(
                f"the file is not a valid VirtualHome graph: {error!r:.80}",
                source=source,
            ) from error
        self.of_kind: dict[str, list[int]] = {}
        for node in sorted(self.graph.get_nodes(), key=lambda node: node.id):
            self.of_kind.setdefault(kind_of(node.class_name), []).append(node.id)
        robots = self.of_kind.get(kind_of(_ROBOT), [])
        if not robots:
            raise InvalidInput(
                "the graph has no node of class 'character'", source=source
            )
        self.robot = robots[0]

    def begun(self) -> Home:
        """Returns the home in its initial state."""
        state = EnvironmentState(self.graph, {}, instance_selection=True)
        return Home(self, state)


@dataclass(frozen=True)
class Home:
    """A home at one time.

    Args:
        plan: The parts of the home that never change.
        state: The state in the format of the VirtualHome engine.
        switched_on: The ids of objects that the person switched on and that are still
            on.
        opened: The ids of objects that the person opened and that are still open.
    """

    plan: HomeLayout
    state: Any
    switched_on: frozenset[int] = frozenset()
    opened: frozenset[int] = frozenset()

    def do(self, verb: str, things: Sequence[str]) -> tuple[Home, bool]:
        """Returns the home after an action, and whether the action succeeded.

        Args:
            verb: The name of the action, from `VERBS`.
            things: The objects of the action, as types (`Fridge`) or instances
                (`Light#2`).
        """
        found = [self._meant(thing) for thing in things]
        if None in found:
            return self, False
        objects = [ScriptObject(verb, each) for each in found]
        line = ScriptLine(_VERBS[verb], objects, 1)
        states = ScriptExecutor.call_action_method(
            Script([line]), self.state, ExecutionInfo(), 0
        )
        state = next(states, None)
        if state is None:
            return self, False
        after = replace(self, state=state)
        on, was_on = after._are[State.ON], self._are[State.ON]
        is_open, was_open = after._are[State.OPEN], self._are[State.OPEN]
        return replace(
            after,
            switched_on=on & self.switched_on | on - was_on,
            opened=is_open & self.opened | is_open - was_open,
        ), True

    def things(self) -> dict[str, Any]:
        """Returns the objects in the metadata format of AI2-THOR."""
        held = self._to(_HOLDING, self.plan.robot)
        near = self._to((Relation.CLOSE,), self.plan.robot)
        kinds = {each: kind for kind, ids in self.plan.of_kind.items() for each in ids}
        things = [
            {
                "objectId": str(node.id),
                "objectType": kinds[node.id],
                "isToggled": State.ON in node.states,
                "toggleable": Property.HAS_SWITCH in node.properties,
                "isOpen": State.OPEN in node.states,
                "openable": Property.CAN_OPEN in node.properties,
                "isDirty": State.DIRTY in node.states,
                "dirtyable": True,
                "isPickedUp": node.id in held,
                "pickupable": Property.GRABBABLE in node.properties,
                "distance": 0.0 if node.id in near else _FAR_M,
                "parentReceptacles": [str(each) for each in self._holders(node.id)],
            }
            for node in self.state.get_nodes()
        ]
        inventory = [{"objectType": kinds[each]} for each in sorted(held)]
        return {"objects": things, "inventoryObjects": inventory}

    def _meant(self, name: str) -> int | None:
        """Returns the object to which a name refers.

        Without a number, it is an object that is held, close, in the same room, or the
        first of its type, in this order of preference.
        """
        kind, _, number = name.partition("#")
        ids = self.plan.of_kind.get(kind, [])
        if number:
            return next(iter(ids[int(number) - 1 : int(number)]), None)
        robot = self.plan.robot
        for nearer in (self._to(_HOLDING, robot), self._to((Relation.CLOSE,), robot)):
            if here := [each for each in ids if each in nearer]:
                return here[0]
        rooms = set(self._holders(robot))
        here = [each for each in ids if rooms.intersection(self._holders(each))]
        return next(iter(here or ids), None)

    @cached_property
    def _are(self) -> Mapping[State, frozenset[int]]:
        """The ids of the objects that are on, and of those that are open."""
        nodes = self.state.get_nodes()
        return {
            state: frozenset(node.id for node in nodes if state in node.states)
            for state in (State.ON, State.OPEN)
        }

    def _to(self, relations: Sequence[Relation], thing: int) -> set[int]:
        return {
            each
            for relation in relations
            for each in self.state.get_node_ids_from(thing, relation)
        }

    def _holders(self, thing: int) -> Iterator[int]:
        """Yields everything that an object is in or on, recursively."""
        seen = {thing}
        todo = sorted(self._to(_PLACED, thing))
        while todo:
            holder = todo.pop(0)
            if holder not in seen:
                seen.add(holder)
                yield holder
                todo += sorted(self._to(_PLACED, holder))


HERE = Path(__file__).parent
FLAT = "flat"

_TASK = re.compile(r"task:(\d+_\d+)")
_GRAPHS = (
    "dataset/programs_processed_precond_nograb_morepreconds/init_and_final_graphs/"
    "TrimmedTestScene1_graph/results_intentions_march-13-18/file{}.json"
)


@lru_cache(maxsize=64)
def load_plan(scene: str) -> HomeLayout:
    """Loads a home, given the setting `scene` of `VirtualHomeWorld`."""
    if scene == FLAT:
        path = HERE / "flat.json"
    elif found := _TASK.fullmatch(scene):
        path = _of_virtualhome(found[1])
    else:
        path = Path(scene)
    graph = read_json(path)
    if isinstance(graph, dict):
        # VirtualHome stores the initial and final graphs of a task in one file.
        graph = graph.get("init_graph", graph)
    return HomeLayout(graph, str(path))


def _of_virtualhome(task: str) -> Path:
    """Returns the path of the graph for a task in virtualhome-eval."""
    package = find_spec("virtualhome_eval")
    assert package is not None and package.origin  # noqa: S101 - it was imported
    path = Path(package.origin).parent / _GRAPHS.format(task)
    if not path.exists():
        raise InvalidInput(
            f"virtualhome-eval has no task {task}", mend="an example is task:27_2"
        )
    return path


STEPS_LEFT, NEXT = "steps_left", "next_action"
"""The names of the arguments that announce the remaining steps and the next action.
"""

OURS = Path(__file__).with_name("programs.yaml")

_LINE = re.compile(r"\[(\w+)\]((?:\s*<[^<>]{1,60}>(?:\s*\([\d.]{1,20}\))?)*)")
_THING = re.compile(r"<([^<>]+)>(?:\s*\((?:1\b|0*(\d+)))?")
_PLACES = ("object", "receptacle")


@dataclass(frozen=True, slots=True)
class Program:
    """A program for a task: a named sequence of steps.

    Args:
        name: The name of the task.
        steps: The actions of the program.
        scene: The scene, if it is not that of the world.
    """

    name: str
    steps: tuple[Action, ...]
    scene: str = ""


class _Entry(Strict):
    name: str
    scene: str = ""
    steps: list[str | list[str | list[str]]] = Field(max_length=1000)


class _File(Strict):
    format: Literal["forewarn.household-programs/1"]
    programs: list[_Entry] = Field(min_length=1)


@cache
def load_programs(path: Path | None = None) -> tuple[Program, ...]:
    """Loads the programs in a YAML or JSON file; by default, in the shipped file."""
    path = path or OURS
    source = str(path)
    plain = path.name.endswith((".json", ".json.gz"))
    file = validated(_File, read_json(path) if plain else read_yaml(path), source)
    return tuple(_program(entry, source) for entry in file.programs)


def the_program(path: Path | None, number: int) -> Program:
    """Loads one program, given its index starting at 0."""
    programs = load_programs(path)
    if not 0 <= number < len(programs):
        raise InvalidInput(
            f"there is no program {number}: the file has {len(programs)} programs, "
            "numbered from 0",
            source=str(path or OURS),
        )
    return programs[number]


def _program(entry: _Entry, source: str) -> Program:
    with naming(source, f"the program {entry.name!r:.60}"):
        steps = tuple(parse_step(step) for step in entry.steps)
    return Program(entry.name, steps, entry.scene)


def parse_step(step: str | Sequence[object]) -> Action:
    """Parses a step such as `[PUTIN] <milk> (1) <fridge> (2)`, or a list.

    A list contains the name of the action and a list of objects.

    The number 1 refers to the object of its class that is held or nearest. Other
    numbers refer to objects in the order of the scene.

    Raises:
        InvalidInput: The step is invalid, or VirtualHome has no such action.
    """
    if isinstance(step, str):
        line = _LINE.fullmatch(step.strip())
        if line is None:
            raise InvalidInput(
                f"{step!r:.80} is not a valid step",
                mend="write it as in [OPEN] <fridge> (1)",
            )
        verb, things = verb_of(line[1]), _THING.findall(line[2])
    else:
        verb, things = _pair(step)
    if verb not in VERBS:
        raise InvalidInput(
            f"VirtualHome has no action {verb!r:.60}", mend=near_miss(verb, VERBS)
        )
    if len(things) != VERBS[verb]:
        raise InvalidInput(f"{verb} takes {VERBS[verb]} objects, not {len(things)}")
    named = [f"{kind_of(name)}#{n}" if n else kind_of(name) for name, n in things]
    return Action(verb, dict(zip(_PLACES, named, strict=False)))


def _pair(step: Sequence[object]) -> tuple[str, list[tuple[str, str]]]:
    match step:
        case [str(verb), list(names)] if all(isinstance(name, str) for name in names):
            return verb_of(verb), [(str(name), "") for name in names]
    raise InvalidInput(
        f"{step!r:.80} is not a valid step", mend="write it as in [OPEN, [fridge]]"
    )
