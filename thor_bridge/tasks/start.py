"""How an episode begins otherwise than the scene's file says: what lies elsewhere.

All of it is done through AI2-THOR's own actions, so it works on the real build too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Any, Protocol

from pydantic import Field

from forewarn.abstractions.serial import Strict


class Controlled(Protocol):
    """What takes AI2-THOR's actions and shows its metadata."""

    @property
    def last_event(self) -> Any:
        """What the last action gave back."""

    @property
    def step(self) -> Callable[..., Any]:
        """Carries out a low-level action."""


class Variation(Strict):
    """How much an episode's beginning differs from its scene; shares from 0 to 1.

    Args:
        moved: The share of loose things that begin somewhere else, in plain sight.
        opened: The share of doors, lids and books that begin the other way.
        switched: The share of lamps and devices that begin the other way.
        elsewhere: Whether the robot begins where chance has it.
    """

    moved: float = Field(default=0.0, ge=0, le=1)
    opened: float = Field(default=0.0, ge=0, le=1)
    switched: float = Field(default=0.0, ge=0, le=1)
    elsewhere: bool = False


def vary(
    controller: Controlled,
    variation: Variation,
    seed: int,
    spared: Collection[str] = (),
) -> None:
    """Makes the beginning of the episode with that seed.

    Args:
        controller: Of a scene that has just begun.
        variation: How much is to differ.
        seed: What chance follows from.
        spared: The types that stay as they are, apart from where they lie; nothing
            is put into or onto them.
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


def _go_somewhere(controller: Controlled, luck: Random) -> None:
    event = controller.step("GetReachablePositions")
    places = sorted(event.metadata["actionReturn"], key=lambda p: (p["x"], p["z"]))
    place = luck.choice(places)
    turned = 90.0 * luck.randrange(4)
    controller.step(
        "TeleportFull", **place, rotation={"y": turned}, horizon=0.0, standing=True
    )
