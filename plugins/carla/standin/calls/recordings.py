"""Calls about CARLA's recorder: to record, to look into a log, to play it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forewarn.plugins.carla.standin.calls import Host, answers, does
from forewarn.plugins.carla.standin.encoding import Refusal, number, pose
from forewarn.plugins.carla.standin.recording import logtexts
from forewarn.plugins.carla.standin.recording.logs import Log

_BEHIND = [[-10.0, 0.0, 5.0], [-25.0, 0.0, 0.0]]


@answers("start_recorder")
def start(host: Host, name: str, more: bool = False) -> str:
    return str(host.recordings.record(host.world, name, bool(more)))


@does("stop_recorder")
def stop(host: Host) -> None:
    host.recordings.stop(host.world)


def _look(host: Host, name: str, tell: Callable[[Log], str]) -> str:
    try:
        with host.recordings.open(name) as log:
            return tell(log)
    except FileNotFoundError:
        return _missing(host, name)


def _missing(host: Host, name: str) -> str:
    return f"File {host.recordings.path(name)} not found on server\n"


@answers("show_recorder_file_info")
def info(host: Host, name: str, everything: bool = False) -> str:
    return _look(host, name, lambda log: logtexts.info(log, bool(everything)))


@answers("show_recorder_collisions")
def collisions(host: Host, name: str, one: int, other: int) -> str:
    wanted = chr(one), chr(other)
    return _look(host, name, lambda log: logtexts.collisions(log, *wanted))


@answers("show_recorder_actors_blocked")
def blocked(
    host: Host, name: str, least_s: float = 60.0, least_cm: float = 100.0
) -> str:
    still = number(least_s), number(least_cm)
    return _look(host, name, lambda log: logtexts.blocked(log, *still))


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
