"""Handlers of the calls that spawn, move, control, describe and destroy actors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
from forewarn.standins.carla.calls import CALLS, Call, Handler, answers, does
from forewarn.standins.carla.lights import Group
from forewarn.standins.carla.motion import physics_of

if TYPE_CHECKING:
    from forewarn.standins.carla.server import Server


@answers("spawn_actor")
def spawn(host: Server, description: Sequence[Any], at: Any) -> list[Any]:
    return _spawn(host, description, pose(at), None).described()


@answers("spawn_actor_with_parent")
def spawn_attached(
    host: Server, description: Sequence[Any], at: Any, parent: int, *_: Any
) -> list[Any]:
    carrier = host.world.actor(parent)
    return _spawn(host, description, pose(at), carrier).described()


def spawn_by_command(host: Server, payload: Sequence[Any]) -> int:
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


@answers("destroy_actor")
def destroy(host: Server, number: int) -> bool:
    return host.world.destroy(number)


@answers("get_actors_by_id")
def by_id(host: Server, numbers: Sequence[int]) -> list[Any]:
    actors = host.world.actors
    return [actors[number].described() for number in numbers if number in actors]


@answers("get_spectator")
def spectator(host: Server) -> list[Any]:
    return host.world.spectator.described()


@answers("get_actor_bounding_box")
def bounding_box(host: Server, number: int) -> list[Any]:
    actor = host.world.actors.get(number)
    if actor is None:
        # A client's traffic manager may query vehicles that have just been removed, in
        # a thread where an error would terminate the whole process.
        return [[0.0] * 3, [0.0] * 3, [0.0] * 3, 0]
    return actor.box()


# -- position and motion -----------------------------------------------------


@does("set_actor_transform")
def set_transform(host: Server, number: int, at: Any) -> None:
    host.world.place(host.world.actor(number), pose(at))


@does("set_actor_location")
def set_location(host: Server, number: int, location: Any) -> None:
    actor = host.world.actor(number)
    _, _, _, *turn = actor.mount or actor.at
    host.world.place(actor, (*vector(location), turn[0], turn[1], turn[2]))


@does("set_actor_target_velocity")
def set_velocity(host: Server, number: int, velocity: Any) -> None:
    actor = host.world.actor(number)
    x, y, z = vector(velocity)
    if isinstance(actor, Vehicle):
        ahead = along(actor, 1.0)
        actor.speed = x * ahead[0] + y * ahead[1]
        actor.velocity = along(actor, actor.speed)
    else:
        actor.velocity = x, y, z


@does("set_actor_simulate_physics")
def simulate_physics(host: Server, number: int, enabled: bool) -> None:
    actor = host.world.actor(number)
    if isinstance(actor, Vehicle | Walker):
        actor.physical = bool(enabled)


@does("set_actor_collisions")
def set_collisions(host: Server, number: int, enabled: bool) -> None:
    actor = host.world.actor(number)
    if isinstance(actor, Vehicle | Walker):
        actor.solid = bool(enabled)


def vehicle_of(host: Server, which: int) -> Vehicle:
    """Returns the vehicle with the given id.

    Raises:
        Refusal: There is no actor with this id, or the actor is not a vehicle.
    """
    actor = host.world.actor(which)
    if not isinstance(actor, Vehicle):
        raise Refusal(f"actor {which} is not a vehicle")
    return actor


def _walker(host: Server, which: int) -> Walker:
    actor = host.world.actor(which)
    if not isinstance(actor, Walker):
        raise Refusal(f"actor {which} is not a walker")
    return actor


@does("apply_control_to_vehicle")
def control(host: Server, which: int, wanted: list[Any]) -> None:
    car = vehicle_of(host, which)
    throttle, steer, brake, hand_brake, reverse, manual, gear = wanted
    car.control = [
        number(throttle), number(steer), number(brake), bool(hand_brake),
        bool(reverse), bool(manual), max(-10, min(20, int(gear))),
    ]  # fmt: skip
    car.ackermann = None


@does("apply_ackermann_control_to_vehicle")
def ackermann(host: Server, which: int, wanted: list[Any]) -> None:
    steer, steer_speed, speed, acceleration, jerk = map(number, wanted)
    car = vehicle_of(host, which)
    if car.ackermann is None:
        car.control = list(STANDARD_CONTROL)
    car.ackermann = [steer, steer_speed, speed, acceleration, jerk]


@does("set_actor_autopilot")
def autopilot(host: Server, which: int, enabled: bool) -> None:
    vehicle_of(host, which).autopilot = bool(enabled)


@answers("get_physics_control")
def physics(host: Server, which: int) -> list[Any]:
    return physics_of(blueprints.find(vehicle_of(host, which).kind))


@answers("get_vehicle_light_state")
def lamps(host: Server, which: int) -> list[int]:
    return [vehicle_of(host, which).lamps]


@does("set_vehicle_light_state")
def set_lamps(host: Server, which: int, wanted: list[int]) -> None:
    vehicle_of(host, which).lamps = int(wanted[0]) & 0xFFFFFFFF


@answers("get_vehicle_light_states")
def all_lamps(host: Server) -> list[list[int]]:
    actors = host.world.actors.values()
    return [[a.number, a.lamps] for a in actors if isinstance(a, Vehicle)]


@does("apply_control_to_walker")
def walk(host: Server, which: int, wanted: list[Any]) -> None:
    walker = _walker(host, which)
    direction, pace, jump = wanted
    walker.direction, walker.pace = vector(direction), number(pace)
    walker.jump = bool(jump)


def _light(host: Server, which: int) -> TrafficLight:
    actor = host.world.actor(which)
    if not isinstance(actor, TrafficLight):
        raise Refusal(f"actor {which} is not a traffic light")
    return actor


def _taken(host: Server, which: int) -> tuple[TrafficLight, Group]:
    light = _light(host, which)
    group = host.world.group_of(light)
    host.world.take_lights(group)
    return light, group


@does("set_traffic_light_state")
def set_state(host: Server, which: int, wanted: int) -> None:
    if wanted not in range(5):
        raise Refusal(f"a traffic light state must be from 0 to 4, not {wanted!r:.40}")
    light, group = _taken(host, which)
    group.force(light, wanted)


@does("freeze_traffic_light")
def freeze(host: Server, which: int, frozen: bool) -> None:
    _, group = _taken(host, which)
    group.freeze(bool(frozen))


@does("freeze_all_traffic_lights")
def freeze_all(host: Server, frozen: bool) -> None:
    for group in host.world.groups:
        host.world.take_lights(group)
        group.freeze(bool(frozen))


@does("reset_traffic_light_group")
def reset_group(host: Server, which: int) -> None:
    _, group = _taken(host, which)
    group.reset()


@does("reset_all_traffic_lights")
def reset_all(host: Server) -> None:
    for group in host.world.groups:
        host.world.take_lights(group)
        group.reset()


@answers("get_group_traffic_lights")
def group_of(host: Server, which: int) -> list[int]:
    group = host.world.group_of(_light(host, which))
    return [light.number for light in group.lights.values()]


MOST = 20_000
DESTROY = 1


def _lamps(host: Server, which: int, wanted: int) -> None:
    set_lamps(host, which, [wanted])


_COMMANDS: Mapping[int, Handler] = {
    0: spawn_by_command,
    DESTROY: destroy,
    2: control,
    3: ackermann,
    4: walk,
    6: set_transform,
    8: set_velocity,
    14: simulate_physics,
    16: lambda host, which, on, *_: autopilot(host, which, on),
    18: _lamps,
    19: set_location,
    21: set_state,
}
"""The handlers of batch commands, by the command's index in CARLA's list."""


def apply(host: Server, commands: Sequence[Any], then_tick: bool) -> list[Any]:
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
    handler = _COMMANDS.get(index)
    if handler is None:
        return refused(
            f"the stand-in for CARLA does not support the command {index!r:.40}"
        )
    try:
        if index == 0:
            number = spawn_by_command(host, payload)
            for following in payload[-1]:
                _apply(host, following, number)
            return result(number)
        number = payload[0] if payload and isinstance(payload[0], int) else 0
        if spawned is not None:
            number = spawned
            payload = [spawned, *payload[1:]]
        done = handler(host, *payload)
    except ForewarnError as problem:
        return refused(str(problem))
    except Exception as problem:  # the payload is untrusted
        return refused(f"{handler.__name__}: {type(problem).__name__}: {problem}"[:300])
    if index == DESTROY and not done:
        return refused(f"unable to destroy actor {number}: not found")
    return result(number)


class _Batch(Call):
    """A call that returns a list of results, one for each command of a batch."""

    def answer(self, host: Server, arguments: list[Any]) -> Any:
        try:
            return apply(host, *arguments)
        except Exception as problem:  # the arguments are untrusted
            return [refused(f"apply_batch: {problem}"[:300])]


CALLS["apply_batch"] = _Batch("apply_batch", "answers", apply)
