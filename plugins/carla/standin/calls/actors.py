"""Calls about actors: to spawn, find, place and destroy them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forewarn.abstractions.errors import ForewarnError
from forewarn.plugins.carla.standin import blueprints
from forewarn.plugins.carla.standin.actors import Actor, Sensor, Vehicle, Walker, along
from forewarn.plugins.carla.standin.calls import Host, answers, does
from forewarn.plugins.carla.standin.calls.vehicles import vehicle_of
from forewarn.plugins.carla.standin.encoding import (
    Pose,
    compose,
    pose,
    vector,
)
from forewarn.plugins.carla.standin.movement.physics import physics_of


@answers("spawn_actor")
def spawn(host: Host, description: Sequence[Any], at: Any) -> list[Any]:
    return _spawn(host, description, pose(at), None).described()


@answers("spawn_actor_with_parent")
def spawn_attached(
    host: Host, description: Sequence[Any], at: Any, parent: int, *_: Any
) -> list[Any]:
    carrier = host.world.actor(parent)
    return _spawn(host, description, pose(at), carrier).described()


def spawn_by_command(host: Host, payload: Sequence[Any]) -> int:
    """The command: description, transform, parent if any, and how it is attached."""
    description, at, parent = payload[:3]
    carrier = host.world.actor(parent[1]) if len(parent) == 2 and parent[0] else None
    return _spawn(host, description, pose(at), carrier).number


def _spawn(
    host: Host, description: Sequence[Any], at: Pose, parent: Actor | None
) -> Actor:
    world = host.world
    _, name, given = description
    blueprint = blueprints.find(name)
    attributes = blueprint.given(
        {str(key): str(value)[:200] for key, _, value in given}
    )
    place = at if parent is None else compose(parent.at, at)
    make: type[Actor] = Actor
    if blueprint.wheels:
        make = Vehicle
    elif name.startswith("walker."):
        make = Walker
    elif name.startswith("sensor."):
        make = Sensor
    actor = make(
        0, name, place, attributes, blueprint.half, (0.0, 0.0, blueprint.half[2]),
        bytes([blueprint.tag]) if blueprint.tag else b"", blueprint=blueprint.number,
    )  # fmt: skip
    if parent is not None:
        actor.parent, actor.mount = parent.number, at
    if not isinstance(actor, Sensor):
        world.make_room(actor)
    if isinstance(actor, Vehicle):
        actor.physics = physics_of(blueprint)
        actor.wheelbase = 1.2 * blueprint.half[0]
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
def destroy(host: Host, number: int) -> bool:
    return host.world.destroy(number)


@answers("get_actors_by_id")
def by_id(host: Host, numbers: Sequence[int]) -> list[Any]:
    actors = host.world.actors
    return [actors[number].described() for number in numbers if number in actors]


@answers("get_spectator")
def spectator(host: Host) -> list[Any]:
    return host.world.spectator.described()


@answers("get_actor_bounding_box")
def bounding_box(host: Host, number: int) -> list[Any]:
    actor = host.world.actors.get(number)
    if actor is None:
        # A client's traffic manager asks of vehicles that are just gone, in a thread
        # that an error would take its whole process with.
        return [[0.0] * 3, [0.0] * 3, [0.0] * 3, 0]
    return actor.box()


# -- where it is and how it moves -----------------------------------------------------


@does("set_actor_transform")
def set_transform(host: Host, number: int, at: Any) -> None:
    host.world.place(host.world.actor(number), pose(at))


@does("set_actor_location")
def set_location(host: Host, number: int, location: Any) -> None:
    actor = host.world.actor(number)
    _, _, _, *turn = actor.mount or actor.at
    host.world.place(actor, (*vector(location), turn[0], turn[1], turn[2]))


@does("set_actor_target_velocity")
def set_velocity(host: Host, number: int, velocity: Any) -> None:
    actor = host.world.actor(number)
    x, y, z = vector(velocity)
    if isinstance(actor, Vehicle):
        ahead = along(actor, 1.0)
        actor.speed = x * ahead[0] + y * ahead[1]
        actor.velocity = along(actor, actor.speed)
    else:
        actor.velocity = x, y, z
    host.world.mark(actor)


@does("set_actor_target_angular_velocity")
def set_spin(host: Host, number: int, spin: Any) -> None:
    actor = host.world.actor(number)
    actor.spin = vector(spin)
    host.world.mark(actor)


@does("enable_actor_constant_velocity")
def constant_velocity(host: Host, number: int, velocity: Any) -> None:
    vehicle_of(host, number).constant = vector(velocity)


@does("disable_actor_constant_velocity")
def no_constant_velocity(host: Host, number: int) -> None:
    vehicle_of(host, number).constant = None


@does("add_actor_impulse")
def impulse(host: Host, number: int, wanted: Any, *_: Any) -> None:
    _push(host, number, wanted, 1.0 / host.world.delta_s)


@does("add_actor_impulse_at_location")
def impulse_at(host: Host, number: int, wanted: Any, at: Any) -> None:
    impulse(host, number, wanted)


@does("add_actor_force")
def force(host: Host, number: int, wanted: Any) -> None:
    _push(host, number, wanted, 1.0)


@does("add_actor_force_at_location")
def force_at(host: Host, number: int, wanted: Any, at: Any) -> None:
    force(host, number, wanted)


def _push(host: Host, number: int, wanted: Any, factor: float) -> None:
    car = vehicle_of(host, number)
    x, y, _ = vector(wanted)
    ahead = along(car, 1.0)
    mass = max(1.0, float(car.physics[11]) if car.physics else 1500.0)
    car.push += factor * (x * ahead[0] + y * ahead[1]) / mass


@does("set_actor_simulate_physics")
def simulate_physics(host: Host, number: int, enabled: bool) -> None:
    actor = host.world.actor(number)
    if isinstance(actor, Vehicle | Walker):
        actor.physical = bool(enabled)


@does("set_actor_collisions")
def set_collisions(host: Host, number: int, enabled: bool) -> None:
    actor = host.world.actor(number)
    if isinstance(actor, Vehicle | Walker):
        actor.solid = bool(enabled)


@does("set_actor_dead")
def set_dead(host: Host, number: int) -> None:
    actor = host.world.actor(number)
    if isinstance(actor, Vehicle):
        actor.control = [0.0, 0.0, 1.0, True, False, False, 0]
    if isinstance(actor, Vehicle | Walker):
        actor.physical = False
        actor.velocity = (0.0, 0.0, 0.0)
    host.world.mark(actor)
