"""What a recorder log holds, in the words of CARLA's own answers: scripts parse them.

Positions are told in centimetres, as CARLA does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from forewarn.plugins.carla.standin.recording import logs
from forewarn.plugins.carla.standin.recording.logs import BadLog, Frame, Log

LONGEST: Final = 8 << 20
"""Characters of an answer."""

_MOST_ACTORS = 100_000
_ANY, _HERO, _NOBODY = "a", "h", 0xFFFFFFFF
_LETTERS = ("o", "v", "w", "t")
_LAMPS = (
    "Position", "LowBeam", "HighBeam", "Brake", "RightBlinker", "LeftBlinker",
    "Reverse", "Fog", "Interior", "Special1", "Special2",
)  # fmt: skip


def info(log: Log, everything: bool) -> str:
    """Who comes, goes and collides when; with everything, each frame's packets."""
    return _bounded(_info(log, everything))


def _info(log: Log, everything: bool) -> Iterator[str]:
    yield _head(log)
    for frame in log:
        lines = list(_events(frame))
        if everything:
            for kind, tell in _TOLD.items():
                lines += tell(frame.records(kind) if kind in frame.packets else None)
            clock_s = frame.platform_s()
            if clock_s is not None:
                lines.append(f" Current platform time: {clock_s:g}")
        if lines or everything:
            yield f"Frame {frame.number} at {frame.elapsed_s:g} seconds\n"
            yield "".join(f"{line}\n" for line in lines)
    yield _tail(log, f"{log.duration_s:g}")


def _events(frame: Frame) -> Iterator[str]:
    for added in frame.added():
        where = ", ".join(f"{value:g}" for value in logs.place(added.at)[:3])
        yield f" Create {added.number}: {added.name} ({added.kind}) at ({where})"
        for _, name, value in added.attributes:
            yield f"  {name} = {value}"
    for (which,) in frame.records(logs.REMOVED):
        yield f" Destroy {which}"
    for which, parent in frame.records(logs.PARENTS):
        yield f" Parenting {which} with {parent} (parent)"
    for number, one, other, hero, its in frame.records(logs.COLLISIONS):
        first, second = (" (hero) " if is_hero else "" for is_hero in (hero, its))
        yield f" Collision id {number} between {one}{first} with {other}{second}"


Records = list[tuple[Any, ...]] | None


def _table(
    title: str, row: Callable[..., str]
) -> Callable[[list[tuple[Any, ...]] | None], list[str]]:
    def tell(records: Records) -> list[str]:
        if records is None:
            return []
        rows = [f"  Id: {which}{row(*rest)}" for which, *rest in records]
        return [f" {title}: {len(records)}", *rows]

    return tell


def _vector(values: tuple[float, ...]) -> str:
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"


def _lit(bits: int) -> str:
    on = [name for bit, name in enumerate(_LAMPS) if bits & (1 << bit)]
    return " " + (" ".join(on) or "None")


_TOLD: Final = {
    logs.POSITIONS: _table(
        "Positions",
        lambda *v: f" Location: {_vector(v[:3])} Rotation: {_vector(v[3:])}",
    ),
    logs.LIGHTS: _table(
        "State traffic lights",
        lambda frozen, since, shown: (
            f" state: {shown} frozen: {frozen:d} elapsedTime: {since:g}"
        ),
    ),
    logs.PEDALS: _table(
        "Vehicle animations",
        lambda steer, throttle, brake, hand, gear: (
            f" Steering: {steer:g} Throttle: {throttle:g} Brake: {brake:g}"
            f" Handbrake: {hand:d} Gear: {gear}"
        ),
    ),
    logs.WALKS: _table("Walker animations", lambda speed: f" speed: {speed:g}"),
    logs.LAMPS: _table("Vehicle light animations", _lit),
    logs.KINEMATICS: _table(
        "Dynamic actors",
        lambda *v: (
            f" linear_velocity: {_vector(v[:3])} angular_velocity: {_vector(v[3:])}"
        ),
    ),
    logs.BOXES: _table(
        "Actor bounding boxes",
        lambda *v: f" origin: {_vector(v[:3])} extension: {_vector(v[3:])}",
    ),
    logs.VOLUMES: _table(
        "Actor trigger volumes",
        lambda *v: f" origin: {_vector(v[:3])} extension: {_vector(v[3:])}",
    ),
    logs.LIGHT_TIMES: _table(
        "Traffic Light time events",
        lambda green, yellow, red: (
            f" green_time: {green:g} yellow_time: {yellow:g} red_time: {red:g}"
        ),
    ),
}


# -- collisions -----------------------------------------------------------------------


def collisions(log: Log, one: str, other: str) -> str:
    """When who began to touch whom, of these kinds: o, v, w, t, h for hero, a for any.

    A contact that lasts is told once.
    """
    return _bounded(_collisions(log, one, other))


def _collisions(log: Log, one: str, other: str) -> Iterator[str]:
    yield _head(log)
    yield (
        f"{'Time':>8} {'Types':>6} {'Id':>6} {'Actor 1':<35} {'Id':>6}"
        f" {'Actor 2':<35}\n"
    )
    actors: dict[int, tuple[str, str]] = {_NOBODY: ("o", "")}
    before: set[tuple[int, int]] = set()
    for frame in log:
        for added in frame.added():
            letter = _LETTERS[added.kind] if added.kind < len(_LETTERS) else "o"
            actors[added.number] = letter, added.name
        _check(log, len(actors))
        now: set[tuple[int, int]] = set()
        for _, a, b, hero, its in frame.records(logs.COLLISIONS):
            (first, name), (second, other_name) = (
                actors.get(n, ("o", "")) for n in (a, b)
            )
            fits = one in (_ANY, first) or (one == _HERO and hero)
            if not fits or not (other in (_ANY, second) or (other == _HERO and its)):
                continue
            if (a, b) not in before:
                yield (
                    f"{frame.elapsed_s:8.0f}   {first} {second}  {a:>6} {name:<35}"
                    f" {b:>6} {other_name:<35}\n"
                )
            now.add((a, b))
        before = now
    yield _tail(log, f"{log.duration_s:.0f}")


# -- who stands -----------------------------------------------------------------------


@dataclass(slots=True)
class _Still:
    name: str = ""
    at: tuple[float, ...] = (0.0, 0.0, 0.0)
    since_s: float = 0.0
    for_s: float = 0.0


def blocked(log: Log, least_s: float, least_cm: float) -> str:
    """Who moved less than so far for at least so long, the longest first."""
    return _bounded(_blocked(log, least_s, least_cm))


def _blocked(log: Log, least_s: float, least_cm: float) -> Iterator[str]:
    yield _head(log)
    yield f"{'Time':>8} {'Id':>6} {'Actor':<35} {'Duration':>10}\n"
    actors: dict[int, _Still] = {}
    found: list[tuple[float, str]] = []

    def ended(which: int, actor: _Still) -> None:
        if actor.for_s >= least_s:
            row = (
                f"{actor.since_s:8.0f} {which:>6} {actor.name:<35} {actor.for_s:10.0f}"
            )
            found.append((actor.for_s, row))

    for frame in log:
        for added in frame.added():
            actors[added.number] = _Still(added.name)
        for which, *place in frame.records(logs.POSITIONS):
            actor = actors.setdefault(which, _Still())
            at = tuple(place[:3])
            if math.dist(at, actor.at) < least_cm:
                if not actor.for_s:
                    actor.since_s = frame.elapsed_s
                actor.for_s += max(0.0, frame.lasts_s)
            else:
                ended(which, actor)
                actor.for_s, actor.at = 0.0, at
        _check(log, len(actors))
    for which, actor in actors.items():
        ended(which, actor)
    for _, row in sorted(found, key=lambda each: -each[0]):
        yield f"{row}\n"
    yield _tail(log, f"{log.duration_s:g}")


# -- frames ---------------------------------------------------------------------------


def _check(log: Log, actors: int) -> None:
    if actors > _MOST_ACTORS:
        raise BadLog(f"{log.path.name}: it has more than {_MOST_ACTORS} actors")


def _head(log: Log) -> str:
    try:
        date = time.strftime("%m/%d/%y %H:%M:%S", time.localtime(log.date_s))
    except (OverflowError, ValueError, OSError):
        date = "unknown"
    return f"Version: {log.version}\nMap: {log.map}\nDate: {date}\n\n"


def _tail(log: Log, duration: str) -> str:
    return f"\nFrames: {log.frames}\nDuration: {duration} seconds\n"


def _bounded(parts: Iterator[str]) -> str:
    told: list[str] = []
    length = 0
    for part in parts:
        length += len(part)
        if length > LONGEST:
            told.append("... and more: the answer is cut off here\n")
            break
        told.append(part)
    return "".join(told)
