"""Who knows one bridge knows all: the same files, and the same public names in them."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from forewarn.plugins.contracts import Actuator, World
from forewarn.plugins.support import Support

BRIDGES = {
    "Sumo": "forewarn.plugins.sumo",
    "Carla": "forewarn.plugins.carla",
    "Apollo": "forewarn.apollo_bridge",
    "Thor": "forewarn.thor_bridge",
}
SHARED = {
    "ThorSenses": ("forewarn.plugins.household", "ObjectSenses"),
    "ThorActuator": ("forewarn.plugins.household", "Withholding"),
}
"""What every household has in common, AI2-THOR's and VirtualHome's."""

bridges = pytest.mark.parametrize(("name", "room"), BRIDGES.items())


def methods(contract: type) -> set[str]:
    return {name for name in vars(contract) if not name.startswith("_")}


@bridges
def test_the_world_is_in_bridge(name: str, room: str) -> None:
    world = getattr(import_module(f"{room}.bridge"), f"{name}World")
    assert methods(World) - set(dir(world)) <= {"source", "actions"}


@bridges
def test_signals_are_made_in_sense(name: str, room: str) -> None:
    room, known_as = SHARED.get(f"{name}Senses", (room, f"{name}Senses"))
    senses = getattr(import_module(f"{room}.sense"), known_as)
    told = inspect.signature(senses.values).return_annotation
    assert told.startswith("dict[str, ")


@bridges
def test_decisions_are_carried_out_in_act(name: str, room: str) -> None:
    room, known_as = SHARED.get(f"{name}Actuator", (room, f"{name}Actuator"))
    actuator = getattr(import_module(f"{room}.act"), known_as)
    assert methods(Actuator) - set(dir(actuator)) <= {"can"}


@bridges
def test_the_way_there_is_in_wire(name: str, room: str) -> None:
    connect = import_module(f"{room}.wire").connect
    assert inspect.getdoc(connect)


@bridges
def test_what_is_here_is_in_support(name: str, room: str) -> None:
    found = import_module(f"{room}.support").examine()
    assert isinstance(found, Support)
    assert found.versions and set(found.as_dict()) >= {"versions", "missing"}
