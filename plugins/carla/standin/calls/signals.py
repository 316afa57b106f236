"""Calls about traffic lights."""

from __future__ import annotations

from typing import Any

from forewarn.plugins.carla.standin.actors import GREEN, RED, YELLOW, TrafficLight
from forewarn.plugins.carla.standin.calls import Host, answers, does
from forewarn.plugins.carla.standin.encoding import Refusal, number
from forewarn.plugins.carla.standin.ground.lights import Group


def _light(host: Host, which: int) -> TrafficLight:
    actor = host.world.actor(which)
    if not isinstance(actor, TrafficLight):
        raise Refusal(f"actor {which} is no traffic light")
    return actor


def _taken(host: Host, which: int) -> tuple[TrafficLight, Group]:
    light = _light(host, which)
    group = host.world.group_of(light)
    host.world.take_lights(group)
    return light, group


@does("set_traffic_light_state")
def set_state(host: Host, which: int, wanted: int) -> None:
    if wanted not in range(5):
        raise Refusal(f"{wanted!r:.40} is no state of a traffic light")
    light, group = _taken(host, which)
    group.force(light, wanted)
    host.world.mark(light)


@does("set_traffic_light_green_time")
def set_green_time(host: Host, which: int, seconds: float) -> None:
    light, group = _taken(host, which)
    group.last(light, GREEN, number(seconds))


@does("set_traffic_light_yellow_time")
def set_yellow_time(host: Host, which: int, seconds: float) -> None:
    light, group = _taken(host, which)
    group.last(light, YELLOW, number(seconds))


@does("set_traffic_light_red_time")
def set_red_time(host: Host, which: int, seconds: float) -> None:
    light, group = _taken(host, which)
    group.last(light, RED, number(seconds))


@does("freeze_traffic_light")
def freeze(host: Host, which: int, frozen: bool) -> None:
    _, group = _taken(host, which)
    group.freeze(bool(frozen))


@does("freeze_all_traffic_lights")
def freeze_all(host: Host, frozen: bool) -> None:
    for group in host.world.groups:
        host.world.take_lights(group)
        group.freeze(bool(frozen))


@does("reset_traffic_light_group")
def reset_group(host: Host, which: int) -> None:
    _, group = _taken(host, which)
    group.reset()


@does("reset_all_traffic_lights")
def reset_all(host: Host) -> None:
    for group in host.world.groups:
        host.world.take_lights(group)
        group.reset()


@answers("get_group_traffic_lights")
def group_of(host: Host, which: int) -> list[int]:
    group = host.world.group_of(_light(host, which))
    return [light.number for light in group.lights.values()]


@answers("get_light_boxes")
def boxes(host: Host, which: int) -> list[Any]:
    light = _light(host, which)
    x, y, z, pitch, yaw, roll = light.at
    return [[[x, y, z], [0.13, 0.13, 0.4], [pitch, yaw, roll], which]]
