"""The remote calls that clients can make, by name.

`answers` registers a call that returns a value; `does` registers a call that returns
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from forewarn import ForewarnError
from forewarn.standins.carla import actors, blueprints
from forewarn.standins.carla.actors import Refusal, number, transform
from forewarn.standins.carla.logs import part_of

if TYPE_CHECKING:
    from forewarn.standins.carla.server import Server


Manner = Literal["answers", "does"]


Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A remote call with its handler."""

    name: str
    kind: Manner
    handler: Handler

    def answer(self, host: Server, arguments: list[Any]) -> Any:
        """Carries out the call and returns its encoded answer or an error."""
        error = actors.refused if self.kind == "answers" else actors.failed
        try:
            value = self.handler(host, *arguments)
        except ForewarnError as problem:
            return error(str(problem))
        except Exception as problem:  # the arguments are untrusted
            return error(f"{self.name}: {type(problem).__name__}: {problem}"[:300])
        return actors.result(value) if self.kind == "answers" else actors.DONE


CALLS: dict[str, Call] = {}


def _marked(name: str, kind: Manner) -> Callable[[Handler], Handler]:
    def keep(handler: Handler) -> Handler:
        CALLS[name] = Call(name, kind, handler)
        return handler

    return keep


answers = partial(_marked, kind="answers")
does = partial(_marked, kind="does")

_MOST_STEP_S = 10.0
_OTHER_SETTINGS = (bool, float, int, float, bool, float, float, bool)


@answers("version")
def version(host: Server) -> str:
    return actors.VERSION


@answers("get_episode_info")
def episode_info(host: Server) -> list[Any]:
    return [host.world.episode, [host.token(actors.WORLD_STREAM)]]


@answers("get_sensor_token")
def sensor_token(host: Server, stream: int) -> list[bytes]:
    if host.world.sensors.has(stream):
        host.world.streams.expect(stream)
    return [host.token(stream)]


@answers("get_episode_settings")
def settings(host: Server) -> list[Any]:
    return host.world.settings


@answers("set_episode_settings")
def set_settings(host: Server, wanted: list[Any]) -> int:
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


@answers("tick_cue")
def tick(host: Server) -> int:
    return host.world.tick()


# -- maps -----------------------------------------------------------------------------


@answers("get_map_info")
def map_info(host: Server) -> list[Any]:
    roads = host.world.roads
    return [
        f"Carla/Maps/{roads.name}",
        [transform(point) for point in roads.spawn_points],
    ]


@answers("get_map_data")
def map_data(host: Server) -> str:
    return host.world.roads.text


@answers("get_available_maps")
def available_maps(host: Server) -> list[str]:
    return [f"/Game/Carla/Maps/{name}" for name in host.maps()]


@does("load_new_episode")
def load(host: Server, name: str, reset_settings: bool = True, layers: int = 0) -> None:
    host.load(name, keep_settings=not reset_settings)


@does("copy_opendrive_to_file")
def load_text(host: Server, text: str, parameters: list[Any]) -> None:
    host.load_text(text)


@answers("get_required_files")
def required_files(host: Server, folder: str, *_: Any) -> list[str]:
    return []  # meshes and textures are not simulated


# -- weather and blueprints -----------------------------------------------------------


@answers("get_weather_parameters")
def weather(host: Server) -> list[float]:
    return host.world.weather


@does("set_weather_parameters")
def set_weather(host: Server, wanted: list[Any]) -> None:
    if len(wanted) != len(host.world.weather):
        raise Refusal("the weather parameters are not in the format of CARLA 0.9.16")
    host.world.weather = [number(value) for value in wanted]


@answers("get_actor_definitions")
def definitions(host: Server) -> list[Any]:
    return [blueprint.encoded() for blueprint in blueprints.library().values()]


# -- traffic managers: they run in clients and are registered here
# -----------------------------


@answers("is_traffic_manager_running")
def manager_runs(host: Server, port: int) -> bool:
    return port in host.managers


@answers("get_traffic_manager_running")
def manager(host: Server, port: int) -> list[Any]:
    return host.managers.get(port, ["", 0])


@answers("add_traffic_manager_running")
def add_manager(host: Server, where: list[Any]) -> bool:
    address, port = where
    if port in host.managers or len(host.managers) >= 64:
        return False
    host.managers[port] = [str(address), int(port)]
    return True


@answers("destroy_traffic_manager")
def destroy_manager(host: Server, port: int) -> bool:
    return host.managers.pop(port, None) is not None


# -- calls that CARLA does not have ---------------------------------------------------


@does("forewarn_restart")
def restart(host: Server, seed: int) -> None:
    host.restart(int(seed))


@answers("query_lights_state")
def street_lights(host: Server, *_: Any) -> list[Any]:
    return []


# -- recordings -----------------------------------------------------------------------


@answers("start_recorder")
def start(host: Server, name: str, *_: Any) -> str:
    return str(host.recordings.record(host.world, name))


@does("stop_recorder")
def stop(host: Server) -> None:
    host.recordings.stop(host.world)


def _missing(host: Server, name: str) -> str:
    return f"File {host.recordings.path(name)} not found on server\n"


@answers("show_recorder_file_info")
def info(host: Server, name: str, everything: bool = False) -> str:
    """Returns CARLA's summary of a recording, without the recorded events."""
    try:
        with host.recordings.open(name) as log:
            return (
                f"Version: {log.version}\nMap: {log.map}\n\n"
                f"\nFrames: {log.frames}\nDuration: {log.duration_s:g} seconds\n"
            )
    except FileNotFoundError:
        return _missing(host, name)


@answers("replay_file")
def replay(host: Server, name: str, begin_s: float, lasts_s: float, *_: Any) -> str:
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


@does("stop_replayer")
def stop_replayer(host: Server, keep: bool = False) -> None:
    host.recordings.end_replay(host.world, bool(keep))


@does("set_replayer_time_factor")
def pace(host: Server, factor: float) -> None:
    if factor != 1.0:
        raise Refusal("recordings can only be replayed with a time factor of 1")


@does("set_replayer_ignore_hero")
def ignore_hero(host: Server, ignored: bool) -> None:
    if ignored:
        raise Refusal(
            "the hero vehicle of a recording cannot be left out of its replay"
        )
