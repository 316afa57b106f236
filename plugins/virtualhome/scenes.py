"""Where homes come from: ours, a graph in a file, or those that VirtualHome brings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_json, read_yaml
from forewarn.abstractions.serial import Strict, validated
from forewarn.plugins.virtualhome.home import Plan

HERE = Path(__file__).parent
FLAT = "flat"

_TASK = re.compile(r"task:(\d+_\d+)")
_GRAPHS = (
    "dataset/programs_processed_precond_nograb_morepreconds/init_and_final_graphs/"
    "TrimmedTestScene1_graph/results_intentions_march-13-18/file{}.json"
)
_BEGINS = {"CAN_OPEN": "CLOSED", "HAS_SWITCH": "OFF"}
"""The state in which a thing begins that can be in more than one."""

_BELOW = {"inside": "INSIDE", "upon": "ON"}

_Things = dict[str, Any] | list[Any] | None


class _Rooms(Strict):
    """Our own way to write a home down.

    Args:
        kinds: What each class of things can do, in VirtualHome's words.
        rooms: The things of each room; what lies in or on one stands below it.
        starts: The room in which an episode begins.
    """

    format: str
    kinds: dict[str, list[str]]
    rooms: dict[str, _Things]
    starts: str


@lru_cache(maxsize=64)
def load_plan(scene: str) -> Plan:
    """The home of that name; see `VirtualHomeWorld`."""
    if scene == FLAT:
        return Plan(_built(HERE / "flat.yaml"), scene)
    if found := _TASK.fullmatch(scene):
        path = _of_virtualhome(found[1])
    else:
        path = Path(scene)
    graph = read_json(path)
    if isinstance(graph, dict):
        # VirtualHome keeps how a task begins and how it ends in one file.
        graph = graph.get("init_graph", graph)
    return Plan(graph, str(path))


def _of_virtualhome(task: str) -> Path:
    """The graph that is installed with it for a task."""
    package = find_spec("virtualhome_eval")
    assert package is not None and package.origin  # noqa: S101 - it was imported
    path = Path(package.origin).parent / _GRAPHS.format(task)
    if not path.exists():
        raise InvalidInput(
            f"virtualhome-eval has no task {task}", mend="such as task:27_2"
        )
    return path


def _built(path: Path) -> Mapping[str, Any]:
    """The graph of a home of ours."""
    home = validated(_Rooms, read_yaml(path), str(path))
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []

    def add(name: str, category: str = "") -> int:
        can = home.kinds[name] if category == "" else []
        states = [_BEGINS[each] for each in can if each in _BEGINS]
        nodes.append(
            {
                "id": len(nodes) + 1,
                "class_name": name,
                "category": category,
                "properties": can,
                "states": [*states, "CLEAN"],
            }
        )
        return len(nodes)

    def lay(thing: int, relation: str, holder: int) -> None:
        edge = {"from_id": thing, "relation_type": relation, "to_id": holder}
        edges.append(edge)

    def furnish(room: int, things: _Things, relation: str, holder: int) -> None:
        for name, below in _entries(things):
            thing = add(name)
            lay(thing, relation, holder)
            if relation == "ON":  # the engine finds the room by what it is inside
                lay(thing, "INSIDE", room)
            for how, what in (below or {}).items():
                furnish(room, what, _BELOW[how], thing)

    rooms = {name: add(name, "Rooms") for name in home.rooms}
    for name, room in rooms.items():
        furnish(room, home.rooms[name], "INSIDE", room)
    lay(add("character", "Characters"), "INSIDE", rooms[home.starts])
    return {"nodes": nodes, "edges": edges}


def _entries(things: _Things) -> Iterator[tuple[str, Any]]:
    if isinstance(things, dict):
        yield from things.items()
    else:
        yield from ((name, None) for name in things or ())
