"""Calls about vehicles and walkers: how they are driven and what they are like."""

from __future__ import annotations

from typing import Any

from forewarn.plugins.carla.standin.actors import (
    STANDARD_CONTROL,
    Actor,
    Vehicle,
    Walker,
    along,
)
from forewarn.plugins.carla.standin.calls import Host, answers, does
from forewarn.plugins.carla.standin.encoding import Refusal, number, transform, vector
from forewarn.plugins.carla.standin.movement.physics import telemetry_of


def vehicle_of(host: Host, which: int) -> Vehicle:
    """The vehicle of that number."""
    actor = host.world.actor(which)
    if not isinstance(actor, Vehicle):
        raise Refusal(f"actor {which} is no vehicle")
    return actor


def _walker(host: Host, which: int) -> Walker:
    actor = host.world.actor(which)
    if not isinstance(actor, Walker):
        raise Refusal(f"actor {which} is no walker")
    return actor


@does("apply_control_to_vehicle")
def control(host: Host, which: int, wanted: list[Any]) -> None:
    car = vehicle_of(host, which)
    throttle, steer, brake, hand_brake, reverse, manual, gear = wanted
    car.control = [
        number(throttle), number(steer), number(brake), bool(hand_brake),
        bool(reverse), bool(manual), max(-10, min(20, int(gear))),
    ]  # fmt: skip
    car.ackermann = None
    host.world.mark(car)


@does("apply_ackermann_control_to_vehicle")
def ackermann(host: Host, which: int, wanted: list[Any]) -> None:
    steer, steer_speed, speed, acceleration, jerk = map(number, wanted)
    car = vehicle_of(host, which)
    if car.ackermann is None:
        car.control = list(STANDARD_CONTROL)
    car.ackermann = [steer, steer_speed, speed, acceleration, jerk]


@answers("get_ackermann_controller_settings")
def ackermann_settings(host: Host, which: int) -> list[float]:
    return vehicle_of(host, which).ackermann_settings


@does("apply_ackermann_controller_settings")
def set_ackermann_settings(host: Host, which: int, wanted: list[Any]) -> None:
    values = [number(value) for value in wanted]
    if len(values) != 6:
        raise Refusal("an Ackermann controller has six settings")
    vehicle_of(host, which).ackermann_settings = values


@does("set_actor_autopilot")
def autopilot(host: Host, which: int, enabled: bool) -> None:
    vehicle_of(host, which).autopilot = bool(enabled)


@answers("get_physics_control")
def physics(host: Host, which: int) -> list[Any]:
    return _physics(host, which)


def _physics(host: Host, which: int) -> list[Any]:
    car = vehicle_of(host, which)
    if not car.physics:
        from forewarn.plugins.carla.standin import blueprints
        from forewarn.plugins.carla.standin.movement.physics import physics_of

        car.physics = physics_of(blueprints.find(car.kind))
    return car.physics


@does("apply_physics_control")
def set_physics(host: Host, which: int, wanted: list[Any]) -> None:
    if len(wanted) != 17 or number(wanted[11]) <= 0.0:
        raise Refusal("this is no physics control of CARLA 0.9.16")
    vehicle_of(host, which).physics = wanted


@answers("get_telemetry_data")
def telemetry(host: Host, which: int) -> list[Any]:
    _physics(host, which)
    return telemetry_of(vehicle_of(host, which))


@answers("get_vehicle_light_state")
def lamps(host: Host, which: int) -> list[int]:
    return [vehicle_of(host, which).lamps]


@does("set_vehicle_light_state")
def set_lamps(host: Host, which: int, wanted: list[int]) -> None:
    vehicle_of(host, which).lamps = int(wanted[0]) & 0xFFFFFFFF


@answers("get_vehicle_light_states")
def all_lamps(host: Host) -> list[list[int]]:
    actors = host.world.actors.values()
    return [[a.number, a.lamps] for a in actors if isinstance(a, Vehicle)]


@answers("get_wheel_steer_angle")
def wheel_angle(host: Host, which: int, wheel: int) -> float:
    return vehicle_of(host, which).steer_deg if wheel in (0, 1) else 0.0


@answers("get_wheel_pitch_angle")
def wheel_pitch(host: Host, which: int, wheel: int) -> float:
    vehicle_of(host, which)
    return 0.0


@does("apply_control_to_walker")
def walk(host: Host, which: int, wanted: list[Any]) -> None:
    walker = _walker(host, which)
    direction, pace, jump = wanted
    walker.direction, walker.pace = vector(direction), number(pace)
    walker.jump = bool(jump)
    host.world.mark(walker)


def walker_state(host: Host, which: int, at: Any, pace: float) -> None:
    """The command by which a client's crowd puts its walkers somewhere."""
    from forewarn.plugins.carla.standin.encoding import pose

    walker = _walker(host, which)
    place = pose(at)
    host.world.place(walker, place)
    walker.pace = 0.0
    walker.velocity = along(walker, number(pace))


@answers("get_bones_transform")
def bones(host: Host, which: int) -> list[Any]:
    walker = _walker(host, which)
    root = transform((0.0,) * 6)
    return [[["crl_root", transform(walker.at), root, root]]]


# -- parts ----------------------------------------------------------------------------


def _known(host: Host, which: int) -> Actor:
    return host.world.actor(which)


@answers("get_actor_component_names")
def components(host: Host, which: int) -> list[str]:
    _known(host, which)
    return ["root"]


@answers("get_actor_component_world_transform")
def component_in_world(host: Host, which: int, name: str) -> list[list[float]]:
    return transform(_known(host, which).at)


@answers("get_actor_component_relative_transform")
def component_in_actor(host: Host, which: int, name: str) -> list[list[float]]:
    _known(host, which)
    return transform((0.0,) * 6)


@answers("get_actor_bone_names")
def bone_names(host: Host, which: int) -> list[str]:
    _known(host, which)
    return []


@answers("get_actor_bone_world_transforms")
def bones_in_world(host: Host, which: int) -> list[Any]:
    _known(host, which)
    return []


@answers("get_vehicle_bone_world_transforms")
def vehicle_bones(host: Host, which: int) -> list[Any]:
    _known(host, which)
    return []


@answers("get_actor_bone_relative_transforms")
def bones_in_actor(host: Host, which: int) -> list[Any]:
    _known(host, which)
    return []


@answers("get_actor_socket_names")
def socket_names(host: Host, which: int) -> list[str]:
    _known(host, which)
    return []


@answers("get_actor_socket_world_transforms")
def sockets_in_world(host: Host, which: int) -> list[Any]:
    _known(host, which)
    return []


@answers("get_actor_socket_relative_transforms")
def sockets_in_actor(host: Host, which: int) -> list[Any]:
    _known(host, which)
    return []
