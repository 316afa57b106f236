"""The remote calls that spawn, move, control, describe and destroy actors.

`ANSWERS` contains the calls that return a value, by name, and `DOES` the calls that
return nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from forewarn import ForewarnError
from forewarn.standins.carla import blueprints
from forewarn.standins.carla.actors import (
    STANDARD_CONTROL,
    Actor,
    Pose,
    Refusal,
    Sensor,
    TrafficLight,
    Vehicle,
    Walker,
    along,
    compose,
    number,
    pose,
    refused,
    result,
    vector,
)
from forewarn.standins.carla.calls import Handler
from forewarn.standins.carla.lights import Group
from forewarn.standins.carla.motion import physics_of

if TYPE_CHECKING:
    from forewarn.standins.carla.server import Server


def _spawn_by_command(host: Server, payload: Sequence[Any]) -> int:
    """Spawns an actor from its description, transform and optional parent; returns its
    id.
    """
    description, at, parent = payload[:3]
    carrier = host.world.actor(parent[1]) if len(parent) == 2 and parent[0] else None
    return _spawn(host, description, pose(at), carrier).number


def _spawn(
    host: Server, description: Sequence[Any], at: Pose, parent: Actor | None
) -> Actor:
    world = host.world
    _, name, given = description
    values = {str(key): str(value)[:200] for key, _, value in given}
    place = at if parent is None else compose(parent.at, at)
    actor = blueprints.actor_of(name, place, values)
    if parent is not None:
        actor.parent, actor.mount = parent.number, at
    if not isinstance(actor, Sensor):
        world.make_room(actor)
    world.spawn(actor)
    if isinstance(actor, Sensor):
        try:
            world.sensors.add(actor)
        except (ForewarnError, ValueError):
            world.destroy(actor.number)
            raise
        if actor.stream:
            actor.token = host.token(actor.stream)
    elif parent is None:
        world.place(actor, at)
    return actor


def _by_id(host: Server, numbers: Sequence[int]) -> list[Any]:
    actors = host.world.actors
    return [actors[number].described() for number in numbers if number in actors]


def _bounding_box(host: Server, number: int) -> list[Any]:
    actor = host.world.actors.get(number)
    if actor is None:
        # A client's traffic manager may query vehicles that have just been removed, in
        # a thread where an error would terminate the whole process.
        return [[0.0] * 3, [0.0] * 3, [0.0] * 3, 0]
    return actor.box()


# -- position and motion -----------------------------------------------------


def _set_transform(host: Server, number: int, at: Any) -> None:
    host.world.place(host.world.actor(number), pose(at))


def _set_location(host: Server, number: int, location: Any) -> None:
    actor = host.world.actor(number)
    _, _, _, *turn = actor.mount or actor.at
    host.world.place(actor, (*vector(location), turn[0], turn[1], turn[2]))


def _set_velocity(host: Server, number: int, velocity: Any) -> None:
    actor = host.world.actor(number)
    x, y, z = vector(velocity)
    if isinstance(actor, Vehicle):
        ahead = along(actor, 1.0)
        actor.speed = x * ahead[0] + y * ahead[1]
        actor.velocity = along(actor, actor.speed)
    else:
        actor.velocity = x, y, z


def _simulate_physics(host: Server, number: int, enabled: bool) -> None:
    actor = host.world.actor(number)
    if isinstance(actor, Vehicle | Walker):
        actor.physical = bool(enabled)


def _set_collisions(host: Server, number: int, enabled: bool) -> None:
    actor = host.world.actor(number)
    if isinstance(actor, Vehicle | Walker):
        actor.solid = bool(enabled)


_KINDS = {Vehicle: "vehicle", Walker: "walker", TrafficLight: "traffic light"}

Kind = TypeVar("Kind", Vehicle, Walker, TrafficLight)


def _found(host: Server, which: int, kind: type[Kind]) -> Kind:
    """Returns the actor with the given id.

    Raises:
        Refusal: There is no such actor, or it is of another kind.
    """
    actor = host.world.actor(which)
    if not isinstance(actor, kind):
        raise Refusal(f"actor {which} is not a {_KINDS[kind]}")
    return actor


def _control(host: Server, which: int, wanted: list[Any]) -> None:
    car = _found(host, which, Vehicle)
    throttle, steer, brake, hand_brake, reverse, manual, gear = wanted
    car.control = [
        number(throttle), number(steer), number(brake), bool(hand_brake),
        bool(reverse), bool(manual), max(-10, min(20, int(gear))),
    ]  # fmt: skip
    car.ackermann = None


def _ackermann(host: Server, which: int, wanted: list[Any]) -> None:
    steer, steer_speed, speed, acceleration, jerk = map(number, wanted)
    car = _found(host, which, Vehicle)
    if car.ackermann is None:
        car.control = list(STANDARD_CONTROL)
    car.ackermann = [steer, steer_speed, speed, acceleration, jerk]


def _walk(host: Server, which: int, wanted: list[Any]) -> None:
    walker = _found(host, which, Walker)
    direction, pace, jump = wanted
    walker.direction, walker.pace = vector(direction), number(pace)
    walker.jump = bool(jump)


def _taken(host: Server, which: int) -> tuple[TrafficLight, Group]:
    light = _found(host, which, TrafficLight)
    group = host.world.group_of(light)
    host.world.take_lights(group)
    return light, group


def _set_state(host: Server, which: int, wanted: int) -> None:
    if wanted not in range(5):
        raise Refusal(f"a traffic light state must be from 0 to 4, not {wanted!r:.40}")
    light, group = _taken(host, which)
    group.force(light, wanted)


def _freeze_all(host: Server, frozen: bool) -> None:
    for group in host.world.groups:
        host.world.take_lights(group)
        group.freeze(bool(frozen))


def _reset_all(host: Server) -> None:
    for group in host.world.groups:
        host.world.take_lights(group)
        group.reset()


def _set_autopilot(host: Server, which: int, enabled: bool, *_: Any) -> None:
    _found(host, which, Vehicle).autopilot = bool(enabled)


def _set_lamps(host: Server, which: int, wanted: list[int]) -> None:
    _found(host, which, Vehicle).lamps = int(wanted[0]) & 0xFFFFFFFF


ANSWERS: Mapping[str, Handler] = {
    "spawn_actor": lambda host, description, at: _spawn(
        host, description, pose(at), None
    ).described(),
    "spawn_actor_with_parent": lambda host, description, at, parent, *_: _spawn(
        host, description, pose(at), host.world.actor(parent)
    ).described(),
    "destroy_actor": lambda host, which: host.world.destroy(which),
    "get_actors_by_id": _by_id,
    "get_spectator": lambda host: host.world.spectator.described(),
    "get_actor_bounding_box": _bounding_box,
    "get_physics_control": lambda host, which: physics_of(
        blueprints.find(_found(host, which, Vehicle).kind)
    ),
    "get_vehicle_light_state": lambda host, which: [_found(host, which, Vehicle).lamps],
    "get_vehicle_light_states": lambda host: [
        [actor.number, actor.lamps]
        for actor in host.world.actors.values()
        if isinstance(actor, Vehicle)
    ],
    "get_group_traffic_lights": lambda host, which: [
        light.number
        for light in host.world.group_of(
            _found(host, which, TrafficLight)
        ).lights.values()
    ],
}

DOES: Mapping[str, Handler] = {
    "set_actor_transform": _set_transform,
    "set_actor_location": _set_location,
    "set_actor_target_velocity": _set_velocity,
    "set_actor_simulate_physics": _simulate_physics,
    "set_actor_collisions": _set_collisions,
    "apply_control_to_vehicle": _control,
    "apply_ackermann_control_to_vehicle": _ackermann,
    "set_actor_autopilot": _set_autopilot,
    "set_vehicle_light_state": _set_lamps,
    "apply_control_to_walker": _walk,
    "set_traffic_light_state": _set_state,
    "freeze_traffic_light": lambda host, which, frozen: _taken(host, which)[1].freeze(
        bool(frozen)
    ),
    "freeze_all_traffic_lights": _freeze_all,
    "reset_traffic_light_group": lambda host, which: _taken(host, which)[1].reset(),
    "reset_all_traffic_lights": _reset_all,
}

_CALLS = {**ANSWERS, **DOES}

MOST = 20_000
_SPAWN, _DESTROY, _LAMPS = 0, 1, 18
_COMMANDS = {
    _SPAWN: "spawn_actor",
    _DESTROY: "destroy_actor",
    2: "apply_control_to_vehicle",
    3: "apply_ackermann_control_to_vehicle",
    4: "apply_control_to_walker",
    6: "set_actor_transform",
    8: "set_actor_target_velocity",
    14: "set_actor_simulate_physics",
    16: "set_actor_autopilot",
    _LAMPS: "set_vehicle_light_state",
    19: "set_actor_location",
    21: "set_traffic_light_state",
}
"""The call that corresponds to each batch command, by the command's index in CARLA's
list.
"""


def apply_batch(host: Server, commands: Sequence[Any], then_tick: bool) -> list[Any]:
    """Carries out commands; returns a list of results, one for each command."""
    if len(commands) > MOST:
        raise Refusal(f"a batch must not have more than {MOST} commands")
    answers = [_apply(host, command) for command in commands]
    if then_tick:
        host.world.tick()
    return answers


def _apply(
    host: Server, command: Sequence[Any], spawned: int | None = None
) -> list[Any]:
    ((index, payload),) = command
    name = _COMMANDS.get(index)
    if name is None:
        return refused(
            f"the stand-in for CARLA does not support the command {index!r:.40}"
        )
    try:
        if index == _SPAWN:
            number = _spawn_by_command(host, payload)
            for following in payload[-1]:
                _apply(host, following, number)
            return result(number)
        number = payload[0] if payload and isinstance(payload[0], int) else 0
        if spawned is not None:
            number = spawned
            payload = [spawned, *payload[1:]]
        if index == _LAMPS:
            payload = [payload[0], [payload[1]]]
        done = _CALLS[name](host, *payload)
    except ForewarnError as problem:
        return refused(str(problem))
    except Exception as problem:  # the payload is untrusted
        return refused(f"{name}: {type(problem).__name__}: {problem}"[:300])
    if index == _DESTROY and not done:
        return refused(f"unable to destroy actor {number}: not found")
    return result(number)
