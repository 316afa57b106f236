"""The action that finds poses for viewing an object."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from forewarn.thor_bridge.household.moving import (
    Arguments,
    named,
    number,
    point,
)
from forewarn.thor_bridge.household.objects import vector
from forewarn.thor_bridge.household.seeing import Shapes
from forewarn.thor_bridge.household.world import AGENT_HEIGHT_M, ActionRejected, World


def interactable(world: World, action: Arguments) -> list[dict[str, Any]]:
    """Returns the poses from which an object is in view and within reach."""
    thing = named(world, action)
    places = action.get("positions")
    if places is None:
        cells = world.cells
    else:
        rows = [point({"positions": each}, "positions") for each in _list(places)]
        cells = np.array([(x, z) for x, _, z in rows], float).reshape(-1, 2)
    turns = _numbers(action, "rotations", (0.0, 90.0, 180.0, 270.0))
    horizons = _numbers(action, "horizons", (-30.0, 0.0, 30.0, 60.0))
    standings = [bool(each) for each in _list(action.get("standings", [True, False]))]
    most = number(action, "maxPoses", math.inf) if "maxPoses" in action else math.inf
    reach = number(action, "maxDistance", world.reach_m)
    found: list[dict[str, Any]] = []
    if world.hidden(thing):
        return found
    row = list(world.objects).index(thing["objectId"])
    shapes = Shapes(*(part[row : row + 1] for part in world.shapes.rows()))
    tangent = math.tan(math.radians(world.fov) / 2)
    widest = reach + float(np.hypot(*shapes.sizes[0, [0, 2]]))
    away = np.hypot(*(cells - shapes.centers[0, [0, 2]]).T)
    for x, z in cells[away <= widest].tolist():
        for turned in turns:
            for horizon in horizons:
                pose = (x, AGENT_HEIGHT_M, z, turned, horizon)
                aspect = world.width / world.height
                if not shapes.in_view(pose, reach, tangent, aspect)[0]:
                    continue
                for standing in standings:
                    if len(found) >= most:
                        return found
                    place = vector(x, AGENT_HEIGHT_M, z)
                    found.append(
                        {**place, "rotation": turned, "horizon": horizon,
                         "standing": standing}
                    )  # fmt: skip
    return found


def _list(given: object) -> list[Any]:
    if not isinstance(given, list | tuple):
        raise ActionRejected("Invalid argument: not a list", "InvalidArgument")
    return list(given)


def _numbers(
    action: Arguments, key: str, default: tuple[float, ...]
) -> tuple[float, ...]:
    if action.get(key) is None:
        return default
    return tuple(number({key: each}, key) for each in _list(action[key]))
