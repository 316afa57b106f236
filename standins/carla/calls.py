"""The calls that clients can make, by name.

`answers` marks one that returns something, `does` one that returns nothing, and `takes`
one of the latter that is accepted but has no effect in this world.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from forewarn import ForewarnError
from forewarn.standins.carla import actors, blueprints
from forewarn.standins.carla.actors import (
    ROAD,
    Actor,
    Refusal,
    Vehicle,
    Walker,
    number,
    pose,
    transform,
    vector,
)
from forewarn.standins.carla.motion import ray, solid

if TYPE_CHECKING:
    from forewarn.standins.carla.recordings import Recordings
    from forewarn.standins.carla.world import World


Manner = Literal["answers", "does", "takes"]


class Host(Protocol):
    """The server, as calls see it."""

    world: World
    managers: dict[int, list[Any]]
    """Traffic managers, which run in clients: host and port, by port."""
    recordings: Recordings

    def token(self, stream: int) -> bytes:
        """The address of a stream."""

    def load(self, name: str, *, keep_settings: bool) -> None:
        """Makes another world, of a map by name; empty for the same map."""

    def load_text(self, text: str) -> None:
        """Keeps an OpenDRIVE text for the next `load` of its name."""

    def maps(self) -> Iterable[str]:
        """The maps that can be loaded."""

    def restart(self, seed: int) -> None:
        """Makes the same world again, from another seed."""


Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what it does with the server and its arguments."""

    name: str
    kind: Manner
    handler: Handler

    def answer(self, host: Host, arguments: list[Any]) -> Any:
        """Carries out the call; a failure is an error in the call's own form."""
        error = actors.refused if self.kind == "answers" else actors.failed
        try:
            value = self.handler(host, *arguments)
        except ForewarnError as problem:
            return error(str(problem))
        except Exception as problem:  # the arguments are a stranger's
            return error(f"{self.name}: {type(problem).__name__}: {problem}"[:300])
        return actors.result(value) if self.kind == "answers" else actors.DONE


CALLS: dict[str, Call] = {}


def answers(name: str) -> Callable[[Handler], Handler]:
    return _marked(name, "answers")


def does(name: str) -> Callable[[Handler], Handler]:
    return _marked(name, "does")


def takes(name: str) -> Callable[[Handler], Handler]:
    return _marked(name, "takes")


def _marked(name: str, kind: Manner) -> Callable[[Handler], Handler]:
    def keep(handler: Handler) -> Handler:
        CALLS[name] = Call(name, kind, handler)
        return handler

    return keep


_MOST_STEP_S = 10.0
_WALKING = "Nav"
_OTHER_SETTINGS = (bool, float, int, float, bool, float, float, bool)


@answers("version")
def version(host: Host) -> str:
    return actors.VERSION


@answers("get_episode_info")
def episode_info(host: Host) -> list[Any]:
    return [host.world.episode, [host.token(actors.WORLD_STREAM)]]


@answers("get_sensor_token")
def sensor_token(host: Host, stream: int) -> list[bytes]:
    if host.world.sensors.has(stream):
        host.world.streams.expect(stream)
    return [host.token(stream)]


@answers("get_episode_settings")
def settings(host: Host) -> list[Any]:
    return host.world.settings


@answers("set_episode_settings")
def set_settings(host: Host, wanted: list[Any]) -> int:
    sync, no_rendering, fixed, *rest = wanted
    if len(rest) != len(_OTHER_SETTINGS):
        raise Refusal("these are no settings of CARLA 0.9.16")
    kept = [
        bool(value) if kind is bool else kind(number(value))
        for kind, value in zip(_OTHER_SETTINGS, rest, strict=True)
    ]
    if len(fixed) == 2 and fixed[1]:
        step = number(fixed[1])
        if not 0.0 < step <= _MOST_STEP_S:
            raise Refusal(f"fixed_delta_seconds is {step:g}, not within 0 and 10 s")
        fixed = [True, step]
    else:
        fixed = [False]
    world, was = host.world, host.world.synchronous
    world.settings = [bool(sync), bool(no_rendering), fixed, *kept]
    if world.synchronous and not was:
        world.rewind()
    return world.frame


@answers("tick_cue")
def tick(host: Host) -> int:
    return host.world.tick()


# -- maps -----------------------------------------------------------------------------


@answers("get_map_info")
def map_info(host: Host) -> list[Any]:
    roads = host.world.roads
    return [
        f"Carla/Maps/{roads.name}",
        [transform(point) for point in roads.spawn_points],
    ]


@answers("get_map_data")
def map_data(host: Host) -> str:
    return host.world.roads.text


@answers("get_available_maps")
def available_maps(host: Host) -> list[str]:
    return [f"/Game/Carla/Maps/{name}" for name in host.maps()]


@does("load_new_episode")
def load(host: Host, name: str, reset_settings: bool = True, layers: int = 0) -> None:
    host.load(name, keep_settings=not reset_settings)


@does("copy_opendrive_to_file")
def load_text(host: Host, text: str, parameters: list[Any]) -> None:
    host.load_text(text)


@answers("get_required_files")
def required_files(host: Host, folder: str, *_: Any) -> list[str]:
    roads = host.world.roads
    return [roads.mesh_name] if folder == _WALKING and roads.mesh else []


@answers("request_file")
def request_file(host: Host, name: str) -> bytes:
    roads = host.world.roads
    if name != roads.mesh_name:
        raise Refusal(f"there is no file {name!r:.80}")
    return roads.mesh


@answers("get_navigation_mesh")
def navigation_mesh(host: Host) -> bytes:
    return host.world.roads.mesh


# -- weather and blueprints -----------------------------------------------------------


@answers("get_weather_parameters")
def weather(host: Host) -> list[float]:
    return host.world.weather


@does("set_weather_parameters")
def set_weather(host: Host, wanted: list[Any]) -> None:
    if len(wanted) != len(host.world.weather):
        raise Refusal("this is no weather of CARLA 0.9.16")
    host.world.weather = [number(value) for value in wanted]


@answers("get_imui_gravity")
def imu_gravity(host: Host) -> float:
    return host.world.sensors.gravity


@does("set_imui_gravity")
def set_imu_gravity(host: Host, value: float) -> None:
    host.world.sensors.gravity = number(value)


@answers("get_actor_definitions")
def definitions(host: Host) -> list[Any]:
    return [blueprint.encoded() for blueprint in blueprints.library().values()]


# -- traffic managers: they run in clients, and meet here -----------------------------


@answers("is_traffic_manager_running")
def manager_runs(host: Host, port: int) -> bool:
    return port in host.managers


@answers("get_traffic_manager_running")
def manager(host: Host, port: int) -> list[Any]:
    return host.managers.get(port, ["", 0])


@answers("add_traffic_manager_running")
def add_manager(host: Host, where: list[Any]) -> bool:
    address, port = where
    if port in host.managers or len(host.managers) >= 64:
        return False
    host.managers[port] = [str(address), int(port)]
    return True


@answers("destroy_traffic_manager")
def destroy_manager(host: Host, port: int) -> bool:
    return host.managers.pop(port, None) is not None


# -- what only this server has --------------------------------------------------------


@does("forewarn_restart")
def restart(host: Host, seed: int) -> None:
    host.restart(int(seed))


# -- scenery --------------------------------------------------------------------------


for _name in (
    "get_environment_objects", "get_names_of_all_objects", "query_lights_state",
):  # fmt: skip
    answers(_name)(lambda host, *_: [])


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


_ANY = -1

_OF_NOBODY: Mapping[str, int] = {
    "load_map_layer": 1, "unload_map_layer": 1, "enable_environment_objects": 2,
    "apply_color_texture_to_objects": _ANY,
    "apply_float_color_texture_to_objects": _ANY, "update_lights_state": _ANY,
    "update_day_night_cycle": _ANY, "enable_sensor_for_ros": 1,
    "disable_sensor_for_ros": 1, "draw_debug_shape": 1, "clear_debug_shape": 0,
    "clear_debug_string": 0, "set_annotations_traverse_translucency": 1,
}  # fmt: skip
"""How many arguments each has."""

_OF: Mapping[type[Actor], Mapping[str, int]] = {
    Actor: {
        "set_ignored_vehicles": 2, "show_vehicle_debug_telemetry": 2,
        "set_actor_enable_gravity": 2, "add_actor_angular_impulse": 2,
        "add_actor_torque": 2, "send": 2,
    },
    Vehicle: {
        "open_vehicle_door": 2, "close_vehicle_door": 2,
        "set_wheel_steer_direction": 3, "set_wheel_pitch_angle": 3,
        "enable_carsim": _ANY, "use_carsim_road": _ANY, "enable_chrono_physics": _ANY,
        "restore_physx_physics": 1,
    },
    Walker: {
        "set_bones_transform": 2, "blend_pose": 2, "get_pose_from_animation": 1,
    },
}  # fmt: skip
"""The same of those about an actor of a kind, which is their first."""


def _taking(count: int, kind: type[Actor] | None = None) -> Handler:
    def take(host: Host, *given: Any) -> None:
        if count not in (_ANY, len(given)):
            raise Refusal(f"there are {len(given)} arguments, not {count}")
        if kind is not None and not isinstance(host.world.actor(*given[:1]), kind):
            raise Refusal(f"actor {given[0]} is no {kind.__name__.lower()}")

    return take


for _name, _count in _OF_NOBODY.items():
    takes(_name)(_taking(_count))
for _kind, _calls in _OF.items():
    for _name, _count in _calls.items():
        takes(_name)(_taking(_count, _kind))


_BEHIND = [[-10.0, 0.0, 5.0], [-25.0, 0.0, 0.0]]


@answers("start_recorder")
def start(host: Host, name: str, more: bool = False) -> str:
    return str(host.recordings.record(host.world, name, bool(more)))


@does("stop_recorder")
def stop(host: Host) -> None:
    host.recordings.stop(host.world)


def _missing(host: Host, name: str) -> str:
    return f"File {host.recordings.path(name)} not found on server\n"


@answers("show_recorder_file_info")
def info(host: Host, name: str, everything: bool = False) -> str:
    """CARLA's summary of a log, without the events in it."""
    try:
        with host.recordings.open(name) as log:
            return (
                f"Version: {log.version}\nMap: {log.map}\n\n"
                f"\nFrames: {log.frames}\nDuration: {log.duration_s:g} seconds\n"
            )
    except FileNotFoundError:
        return _missing(host, name)


@answers("replay_file")
def replay(
    host: Host,
    name: str,
    begin_s: float,
    lasts_s: float,
    follow: int,
    sensors: bool = False,
    offset: Any = None,
) -> str:
    recordings = host.recordings
    recordings.leave(host.world)
    told = [f"Replaying File: {recordings.path(name)}"]
    try:
        log = recordings.open(name)
    except FileNotFoundError:
        return f"{told[0]}\n{_missing(host, name)}"
    try:
        at = pose(_BEHIND if offset is None else offset)
        part = recordings.part(log, begin_s, lasts_s, follow, at)
        bare = log.map.rpartition("/")[2]
        if bare != host.world.roads.name:
            if not bare:
                raise Refusal(f"{log.path.name} names no map")
            host.load(bare, keep_settings=False)
            told.append(f"Loading map {log.map}")
            told.append("Replayer will start after map is loaded...")
        recordings.play(host.world, log, part)
    except BaseException:
        log.close()
        raise
    told += [
        f"Total time recorded: {log.duration_s:g}",
        f"Replaying from {part.begin_s:g} s - {part.end_s:g} s ({log.duration_s:g} s)"
        f" at {part.factor:.1f}x",
    ]
    if part.ignore_hero:
        told.append("Ignoring Hero vehicle")
    if part.ignore_spectator:
        told.append("Ignoring Spectator camera")
    return "\n".join([*told, ""])


@does("stop_replayer")
def stop_replayer(host: Host, keep: bool = False) -> None:
    host.recordings.end_replay(host.world, bool(keep))


@does("set_replayer_time_factor")
def pace(host: Host, factor: float) -> None:
    host.recordings.hurry(factor)


@does("set_replayer_ignore_hero")
def ignore_hero(host: Host, ignored: bool) -> None:
    host.recordings.habits.ignore_hero = bool(ignored)


@does("set_replayer_ignore_spectator")
def ignore_spectator(host: Host, ignored: bool) -> None:
    host.recordings.habits.ignore_spectator = bool(ignored)
