"""Calls about what is not in this world: scenery, textures, drawings.

What is only for the eye is accepted; what a script would build on is refused.
"""

from __future__ import annotations

import math
from typing import Any

from forewarn.plugins.carla.standin.actors import ROAD, Actor
from forewarn.plugins.carla.standin.calls import Host, answers, does
from forewarn.plugins.carla.standin.encoding import Refusal, number, vector
from forewarn.plugins.carla.standin.sensing.contacts import ray, solid

# -- scenery --------------------------------------------------------------------------


@answers("get_environment_objects")
def environment(host: Host, label: int) -> list[Any]:
    return []


@answers("get_all_level_BBs")
def level_boxes(host: Host, label: int) -> list[Any]:
    wanted = [
        actor
        for actor in host.world.actors.values()
        if actor.tags and label in (255, actor.tags[0]) and not actor.kind[0] == "s"
    ]
    boxes = []
    for actor in wanted:
        x, y, z, *turn = actor.at
        middle = [x, y, z + actor.centre[2]]
        boxes.append([middle, list(actor.half), turn, actor.number])
    return boxes


@answers("get_names_of_all_objects")
def names(host: Host) -> list[str]:
    return []


@answers("query_lights_state")
def street_lights(host: Host, client: str) -> list[Any]:
    return []


@answers("project_point")
def project(host: Host, start: Any, direction: Any, reach: float) -> list[Any]:
    x, y, z = vector(start)
    dx, dy, dz = vector(direction)
    length = math.hypot(dx, dy, dz)
    if length == 0.0 or dz >= 0.0 or z < 0.0:
        return [False, [[0.0, 0.0, 0.0], 0]]
    way = z * length / -dz
    if way > number(reach):
        return [False, [[0.0, 0.0, 0.0], 0]]
    share = way / length
    return [True, [[x + dx * share, y + dy * share, 0.0], ROAD]]


@answers("cast_ray")
def cast_ray(host: Host, start: Any, end: Any) -> list[Any]:
    x, y, z = vector(start)
    dx, dy, dz = (b - a for a, b in zip((x, y, z), vector(end), strict=True))
    flat = math.hypot(dx, dy)
    met: list[tuple[float, int]] = []
    for actor in host.world.actors.values() if flat else ():
        if not solid(actor):
            continue
        way = ray((x, y), (dx / flat, dy / flat), actor)
        if way is not None and way <= flat and _at_height(actor, z + dz * way / flat):
            met.append((way / flat, actor.tags[0] if actor.tags else 0))
    if dz and 0.0 <= -z / dz <= 1.0:
        met.append((-z / dz, ROAD))
    return [
        [[x + dx * share, y + dy * share, z + dz * share], label]
        for share, label in sorted(met)
    ]


def _at_height(actor: Actor, z: float) -> bool:
    low = actor.at[2]
    return low <= z <= low + 2.0 * actor.half[2]


@does("send")
def send(host: Host, number: int, text: str) -> None:
    host.world.sensors.radio.send(host.world.actor(number), text)


# -- what sensors of this world do not have -------------------------------------------


@does("enable_gbuffers")
def enable_buffers(host: Host, which: int, enabled: bool) -> None:
    if enabled:
        raise Refusal("there are no G-buffers: the stand-in renders nothing")


@answers("are_gbuffers_enabled")
def buffers(host: Host, which: int) -> bool:
    return False


@answers("get_gbuffer_token")
def buffer_token(host: Host, which: int, buffer: int) -> list[bytes]:
    raise Refusal("there are no G-buffers: the stand-in renders nothing")


@answers("is_sensor_enabled_for_ros")
def ros(host: Host, stream: int) -> bool:
    return False
