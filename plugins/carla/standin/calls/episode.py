"""Calls about the episode: handshake, map, settings, time, weather."""

from __future__ import annotations

from typing import Any

from forewarn.plugins.carla.standin import blueprints, encoding
from forewarn.plugins.carla.standin.calls import Host, answers, does
from forewarn.plugins.carla.standin.encoding import Refusal, number, transform

_MOST_STEP_S = 10.0
_WALKING = "Nav"
_OTHER_SETTINGS = (bool, float, int, float, bool, float, float, bool)


@answers("version")
def version(host: Host) -> str:
    return encoding.VERSION


@answers("get_episode_info")
def episode_info(host: Host) -> list[Any]:
    return [host.world.episode, [host.token(encoding.WORLD_STREAM)]]


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
