"""Harvesting: the scenes of a running AI2-THOR, as our household can play them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.thor_bridge.faults import SimulatorError
from forewarn.thor_bridge.household.furnishing.scenes import harvested
from forewarn.thor_bridge.wire import connect

SUFFIX = "_physics"


def harvest(
    player: str, wanted: Sequence[str] = (), *, timeout_s: float = 120.0
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each scene's name and its entry for a scene file.

    Args:
        player: `unity`, `household`, or the command line of a player.
        wanted: The scenes; all of the player's rooms if none is named.
        timeout_s: How long the player may take to start, and for each action.

    Raises:
        InvalidInput: The player has no such scene.
        SimulatorError: It does not start, or does not answer.
    """
    controller = connect(
        wanted[0] if wanted else None,
        player=player,
        start_timeout_s=timeout_s,
        action_timeout_s=timeout_s,
    )
    try:
        has = {name.removesuffix(SUFFIX) for name in controller.scenes_in_build}
        names = [name.removesuffix(SUFFIX) for name in wanted] or rooms(has)
        for name in names:
            # Old builds do not tell what they have.
            if has and name not in has:
                raise InvalidInput(
                    f"the player has no scene {name!r:.60}",
                    mend=near_miss(name[:60], has) or f"it has {len(has)} others",
                )
            begun = controller.reset(name)
            told = controller.step("GetReachablePositions")
            positions = told.metadata["actionReturn"]
            if not positions:
                why = told.metadata["errorMessage"] or "none is reported"
                raise SimulatorError(f"{name}: where the robot can stand: {why}")
            yield name, harvested(name, begun.metadata, positions)
    finally:
        controller.stop()


def rooms(names: Collection[str]) -> list[str]:
    """AI2-THOR's own rooms among its scenes, in order; all of them if it has none.

    A build also has houses that are made up as they are loaded, and mazes.
    """
    found = [name for name in names if _ROOM.fullmatch(name)]
    return sorted(found, key=lambda name: int(name[9:])) or sorted(names)


_ROOM = re.compile(r"FloorPlan\d+")
