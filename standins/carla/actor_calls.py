"""Calls about actors: spawn, place, drive, describe and destroy them; batches too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forewarn import ForewarnError
from forewarn.standins.carla import blueprints
from forewarn.standins.carla.actors import (
    GREEN,
    RED,
    STANDARD_CONTROL,
    YELLOW,
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
    transform,
    vector,
)
from forewarn.standins.carla.calls import CALLS, Call, Handler, Host, answers, does
from forewarn.standins.carla.lights import Group
from forewarn.standins.carla.motion import physics_of, telemetry_of


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
        from forewarn.standins.carla import blueprints
        from forewarn.standins.carla.motion import physics_of

        car.physics = physics_of(blueprints.find(car.kind))
    return car.physics


@does("apply_physics_control")
def set_physics(host: Host, which: int, wanted: list[Any]) -> None:
    if len(wanted) != 17 or number(wanted[11]) <= 0.0:
        raise Refusal("this is not a physics control of CARLA 0.9.16")
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
    from forewarn.standins.carla.actors import pose

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


def _has_none(host: Host, which: int, *_: Any) -> list[Any]:
    host.world.actor(which)
    return []


for _name in (
    "get_actor_bone_names", "get_actor_bone_world_transforms",
    "get_vehicle_bone_world_transforms", "get_actor_bone_relative_transforms",
    "get_actor_socket_names", "get_actor_socket_world_transforms",
    "get_actor_socket_relative_transforms",
):  # fmt: skip
    answers(_name)(_has_none)


@answers("get_actor_component_names")
def components(host: Host, which: int) -> list[str]:
    host.world.actor(which)
    return ["root"]


@answers("get_actor_component_world_transform")
def component_in_world(host: Host, which: int, name: str) -> list[list[float]]:
    return transform(host.world.actor(which).at)


@answers("get_actor_component_relative_transform")
def component_in_actor(host: Host, which: int, name: str) -> list[list[float]]:
    host.world.actor(which)
    return transform((0.0,) * 6)


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


def _lasts(name: str, shown: int) -> None:
    @does(name)
    def set_time(host: Host, which: int, seconds: float) -> None:
        light, group = _taken(host, which)
        group.last(light, shown, number(seconds))


_lasts("set_traffic_light_green_time", GREEN)
_lasts("set_traffic_light_yellow_time", YELLOW)
_lasts("set_traffic_light_red_time", RED)


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


MOST = 20_000
DESTROY = 1


def _nothing(host: Host, *_: Any) -> None:
    pass


def _lamps(host: Host, which: int, wanted: int) -> None:
    set_lamps(host, which, [wanted])


_COMMANDS: Sequence[tuple[str, Handler]] = (
    ("SpawnActor", spawn_by_command),
    ("DestroyActor", destroy),
    ("ApplyVehicleControl", control),
    ("ApplyVehicleAckermannControl", ackermann),
    ("ApplyWalkerControl", walk),
    ("ApplyVehiclePhysicsControl", set_physics),
    ("ApplyTransform", set_transform),
    ("ApplyWalkerState", walker_state),
    ("ApplyTargetVelocity", set_velocity),
    ("ApplyTargetAngularVelocity", set_spin),
    ("ApplyImpulse", impulse),
    ("ApplyForce", force),
    ("ApplyAngularImpulse", _nothing),
    ("ApplyTorque", _nothing),
    ("SetSimulatePhysics", simulate_physics),
    ("SetEnableGravity", _nothing),
    ("SetAutopilot", lambda host, which, on, *_: autopilot(host, which, on)),
    ("ShowDebugTelemetry", _nothing),
    ("SetVehicleLightState", _lamps),
    ("ApplyLocation", set_location),
    ("ConsoleCommand", _nothing),
    ("SetTrafficLightState", set_state),
)


def apply(host: Host, commands: Sequence[Any], then_tick: bool) -> list[Any]:
    if len(commands) > MOST:
        raise Refusal(f"more than {MOST} commands in a batch")
    answers = [_apply(host, command) for command in commands]
    if then_tick:
        host.world.tick()
    return answers


def _apply(host: Host, command: Sequence[Any], spawned: int | None = None) -> list[Any]:
    ((index, payload),) = command
    name, handler = _COMMANDS[index]
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
    except Exception as problem:  # the payload is a stranger's
        return refused(f"{name}: {type(problem).__name__}: {problem}"[:300])
    if index == DESTROY and not done:
        return refused(f"unable to destroy actor {number}: not found")
    return result(number)


class _Batch(Call):
    """Its answers are bare, without the frame of other calls."""

    def answer(self, host: Host, arguments: list[Any]) -> Any:
        try:
            return apply(host, *arguments)
        except Exception as problem:  # the arguments are a stranger's
            return [refused(f"apply_batch: {problem}"[:300])]


CALLS["apply_batch"] = _Batch("apply_batch", "answers", apply)
