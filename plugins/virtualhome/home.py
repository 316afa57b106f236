"""A home in VirtualHome's own engine: a graph of things, and what is done to it.

A home is never changed: what is done in it gives another, so that trying costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from forewarn.abstractions.errors import InvalidInput, MissingDependency

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
    raise MissingDependency("VirtualHome's homes", "virtualhome") from error

_SLICE = "slice"  # VirtualHome's own word, cut, is what a guard says to end it all
_VERBS = {
    _SLICE if verb is Verb.CUT else name.lower(): verb
    for name, verb in Verb.__members__.items()
}
VERBS: Mapping[str, int] = {name: verb.value[1] for name, verb in _VERBS.items()}
"""VirtualHome's verbs, and of how many things each is."""

KNOWS = frozenset(
    ("is_inside", "is_on", "is_toggled", "is_open", "is_dirty", "is_held", "is_near")
)
"""The object predicates that the graph tells."""

_ROBOT, _FAR_M = "character", 1000.0
_HOLDS = (Relation.HOLDS_RH, Relation.HOLDS_LH)
_LIES = (Relation.INSIDE, Relation.ON)


def verb_of(name: str) -> str:
    """VirtualHome's name of a verb as one of `VERBS`, if it is one."""
    return _SLICE if name.lower() == "cut" else name.lower()


def kind_of(name: str) -> str:
    """VirtualHome's name of a class as a type's: `washing_machine`, WashingMachine."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", name))


class Plan:
    """A home as it is built: what there is, by type. It may be shared by episodes.

    Args:
        graph: Nodes and edges, as VirtualHome writes them.
        source: Where it is from, for errors.
    """

    def __init__(self, graph: Mapping[str, Any], source: str) -> None:
        try:
            self.graph = EnvironmentGraph(graph)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidInput(
                f"this is no graph of VirtualHome's: {error!r:.80}", source=source
            ) from error
        self.of_kind: dict[str, list[int]] = {}
        for node in sorted(self.graph.get_nodes(), key=lambda node: node.id):
            self.of_kind.setdefault(kind_of(node.class_name), []).append(node.id)
        robots = self.of_kind.get(kind_of(_ROBOT), [])
        if not robots:
            raise InvalidInput("nobody is in this home", source=source)
        self.robot = robots[0]

    def begun(self) -> Home:
        """The home before anything was done."""
        state = EnvironmentState(self.graph, {}, instance_selection=True)
        return Home(self, state)


@dataclass(frozen=True)
class Home:
    """A home at one moment.

    Args:
        plan: What there is.
        state: How it is, in the engine's own words.
        switched_on: What the robot switched on, and is on since.
        opened: What it opened, and is open since.
    """

    plan: Plan
    state: Any
    switched_on: frozenset[int] = frozenset()
    opened: frozenset[int] = frozenset()

    def do(self, verb: str, things: Sequence[str]) -> tuple[Home, bool]:
        """The home after a verb, and whether it could be done.

        Args:
            verb: One of `VERBS`.
            things: What it is about: types (`Fridge`), or instances (`Light#2`).
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
        """What there is, in the form in which AI2-THOR reports it."""
        held = self._to(_HOLDS, self.plan.robot)
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
        """The thing that is meant: the one at hand, the nearest, or the first."""
        kind, _, number = name.partition("#")
        ids = self.plan.of_kind.get(kind, [])
        if number:
            return next(iter(ids[int(number) - 1 : int(number)]), None)
        robot = self.plan.robot
        for nearer in (self._to(_HOLDS, robot), self._to((Relation.CLOSE,), robot)):
            if here := [each for each in ids if each in nearer]:
                return here[0]
        rooms = set(self._holders(robot))
        here = [each for each in ids if rooms.intersection(self._holders(each))]
        return next(iter(here or ids), None)

    @cached_property
    def _are(self) -> Mapping[State, frozenset[int]]:
        """Which things are on, and which are open."""
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
        """What it lies in or on, what that lies in or on, and so forth."""
        seen = {thing}
        todo = sorted(self._to(_LIES, thing))
        while todo:
            holder = todo.pop(0)
            if holder not in seen:
                seen.add(holder)
                yield holder
                todo += sorted(self._to(_LIES, holder))
