"""The remote calls about the server, maps, weather and recordings.

`ANSWERS` contains the calls that return a value, by name, and `DOES` the calls that
return nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from forewarn.standins.carla import actors, blueprints
from forewarn.standins.carla.actors import Refusal, number, transform
from forewarn.standins.carla.logs import part_of

if TYPE_CHECKING:
    from forewarn.standins.carla.server import Server

Handler = Callable[..., Any]
"""Carries out a call, given the server and the arguments of the call."""

_MOST_STEP_S = 10.0
_OTHER_SETTINGS = (bool, float, int, float, bool, float, float, bool)


def _sensor_token(host: Server, stream: int) -> list[bytes]:
    if host.world.sensors.has(stream):
        host.world.streams.expect(stream)
    return [host.token(stream)]


def _set_settings(host: Server, wanted: list[Any]) -> int:
    sync, no_rendering, fixed, *rest = wanted
    if len(rest) != len(_OTHER_SETTINGS):
        raise Refusal("the episode settings are not in the format of CARLA 0.9.16")
    kept = [
        bool(value) if kind is bool else kind(number(value))
        for kind, value in zip(_OTHER_SETTINGS, rest, strict=True)
    ]
    if len(fixed) == 2 and fixed[1]:
        step = number(fixed[1])
        if not 0.0 < step <= _MOST_STEP_S:
            raise Refusal(
                f"'fixed_delta_seconds' must be between 0 and 10 s, not {step:g} s"
            )
        fixed = [True, step]
    else:
        fixed = [False]
    world, was = host.world, host.world.synchronous
    world.settings = [bool(sync), bool(no_rendering), fixed, *kept]
    if world.synchronous and not was:
        world.rewind()
    return world.frame


def _set_weather(host: Server, wanted: list[Any]) -> None:
    if len(wanted) != len(host.world.weather):
        raise Refusal("the weather parameters are not in the format of CARLA 0.9.16")
    host.world.weather = [number(value) for value in wanted]


def _add_manager(host: Server, where: list[Any]) -> bool:
    address, port = where
    if port in host.managers or len(host.managers) >= 64:
        return False
    host.managers[port] = [str(address), int(port)]
    return True


def _missing(host: Server, name: str) -> str:
    return f"File {host.recordings.path(name)} not found on server\n"


def _info(host: Server, name: str, everything: bool = False) -> str:
    """Returns CARLA's summary of a recording, without the recorded events."""
    try:
        with host.recordings.open(name) as log:
            return (
                f"Version: {log.version}\nMap: {log.map}\n\n"
                f"\nFrames: {log.frames}\nDuration: {log.duration_s:g} seconds\n"
            )
    except FileNotFoundError:
        return _missing(host, name)


def _replay(host: Server, name: str, begin_s: float, lasts_s: float, *_: Any) -> str:
    recordings = host.recordings
    recordings.leave(host.world)
    told = [f"Replaying File: {recordings.path(name)}"]
    try:
        log = recordings.open(name)
    except FileNotFoundError:
        return f"{told[0]}\n{_missing(host, name)}"
    try:
        begin_s, end_s = part_of(log, number(begin_s), number(lasts_s))
        bare = log.map.rpartition("/")[2]
        if bare != host.world.roads.name:
            if not bare:
                raise Refusal(f"the recording {log.path.name} has no map name")
            host.load(bare, keep_settings=False)
            told.append(f"Loading map {log.map}")
            told.append("Replayer will start after map is loaded...")
        recordings.play(host.world, log, begin_s, end_s)
    except BaseException:
        log.close()
        raise
    told += [
        f"Total time recorded: {log.duration_s:g}",
        f"Replaying from {begin_s:g} s - {end_s:g} s ({log.duration_s:g} s) at 1.0x",
    ]
    return "\n".join([*told, ""])


def _set_pace(host: Server, factor: float) -> None:
    if factor != 1.0:
        raise Refusal("recordings can only be replayed with a time factor of 1")


def _ignore_hero(host: Server, ignored: bool) -> None:
    if ignored:
        raise Refusal(
            "the hero vehicle of a recording cannot be left out of its replay"
        )


ANSWERS: Mapping[str, Handler] = {
    "version": lambda host: actors.VERSION,
    "get_episode_info": lambda host: [
        host.world.episode, [host.token(actors.WORLD_STREAM)]
    ],
    "get_sensor_token": _sensor_token,
    "get_episode_settings": lambda host: host.world.settings,
    "set_episode_settings": _set_settings,
    "tick_cue": lambda host: host.world.tick(),
    "get_map_info": lambda host: [
        f"Carla/Maps/{host.world.roads.name}",
        [transform(point) for point in host.world.roads.spawn_points],
    ],
    "get_map_data": lambda host: host.world.roads.text,
    "get_available_maps": lambda host: [
        f"/Game/Carla/Maps/{name}" for name in host.maps()
    ],
    # Meshes, textures and street lights are not simulated.
    "get_required_files": lambda host, folder, *_: [],
    "query_lights_state": lambda host, *_: [],
    "get_weather_parameters": lambda host: host.world.weather,
    "get_actor_definitions": lambda host: [
        blueprint.encoded() for blueprint in blueprints.library().values()
    ],
    # Traffic managers run in clients and are only registered here.
    "is_traffic_manager_running": lambda host, port: port in host.managers,
    "get_traffic_manager_running": lambda host, port: host.managers.get(port, ["", 0]),
    "add_traffic_manager_running": _add_manager,
    "destroy_traffic_manager": lambda host, port: (
        host.managers.pop(port, None) is not None
    ),
    "start_recorder": lambda host, name, *_: str(
        host.recordings.record(host.world, name)
    ),
    "show_recorder_file_info": _info,
    "replay_file": _replay,
}  # fmt: skip

DOES: Mapping[str, Handler] = {
    "load_new_episode": lambda host, name, reset_settings=True, layers=0: host.load(
        name, keep_settings=not reset_settings
    ),
    "copy_opendrive_to_file": lambda host, text, parameters: host.load_text(text),
    "set_weather_parameters": _set_weather,
    "stop_recorder": lambda host: host.recordings.stop(host.world),
    "stop_replayer": lambda host, keep=False: host.recordings.end_replay(
        host.world, bool(keep)
    ),
    "set_replayer_time_factor": _set_pace,
    "set_replayer_ignore_hero": _ignore_hero,
    # CARLA does not have this call.
    "forewarn_restart": lambda host, seed: host.restart(int(seed)),
}
