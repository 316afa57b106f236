"""Who touches whom, and what a ray meets: boxes on level ground."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from forewarn.plugins.carla.standin.actors import (
    Actor,
    Sensor,
    TrafficLight,
    TrafficSign,
    Vehicle,
    along,
)

_LONGEST = 14.0


def overlapping(actor: Actor, others: Iterable[Actor]) -> Iterator[Actor]:
    """Those whose bodies share ground with the actor's."""
    x, y, z = actor.at[:3]
    for other in others:
        ox, oy, oz = other.at[:3]
        if abs(ox - x) > _LONGEST or abs(oy - y) > _LONGEST:
            continue
        if other is actor or not solid(other) or _attached(actor, other):
            continue
        apart = abs((z + actor.half[2]) - (oz + other.half[2]))
        if apart > actor.half[2] + other.half[2] + 0.3:
            continue
        if _overlap(actor, other):
            yield other


def _attached(one: Actor, other: Actor) -> bool:
    """Whether one of them is mounted on the other."""
    if one.parent and one.parent == other.number:
        return True
    return bool(other.parent) and other.parent == one.number


def touching(
    actors: Sequence[Actor], others: Iterable[Actor]
) -> Iterator[tuple[Actor, frozenset[int]]]:
    """For each actor the numbers of those that it overlaps."""
    # Along one axis, sorted: only neighbours can touch.
    bodies = sorted(
        (
            (other.at[0], other.at[1], other.half[0], other.number, other)
            for other in others
            if solid(other)
        ),
        key=_along,
    )
    start, count = 0, len(bodies)
    for actor in sorted(actors, key=lambda a: a.at[0]):
        x, y = actor.at[:2]
        half = actor.half[0] + 1.0
        while start < count and bodies[start][0] < x - _LONGEST:
            start += 1
        met: list[int] = []
        for index in range(start, count):
            ox, oy, its, number, other = bodies[index]
            if ox > x + _LONGEST:
                break
            reach = half + its
            if abs(oy - y) > reach or abs(ox - x) > reach or other is actor:
                continue
            if _overlap(actor, other) and not _attached(actor, other):
                met.append(number)
        yield actor, frozenset(met)


def _along(body: tuple[float, float, float, int, Actor]) -> float:
    return body[0]


def hold_back(car: Vehicle, other: Actor) -> bool:
    """Brings a car that runs into something to that one's speed, if it is slower."""
    ahead = along(car, 1.0)
    way = sum((b - a) * u for a, b, u in zip(car.at, other.at, ahead[:2], strict=False))
    its = other.velocity[0] * ahead[0] + other.velocity[1] * ahead[1]
    bound = max(0.0, its) if way > 0.0 else min(0.0, its)
    held = car.speed > bound if way > 0.0 else car.speed < bound
    if held:
        car.speed, car.velocity = bound, along(car, bound)
    return held


def solid(actor: Actor) -> bool:
    if isinstance(actor, Sensor | TrafficLight | TrafficSign) or not any(actor.half):
        return False
    return bool(getattr(actor, "solid", True))


def _overlap(a: Actor, b: Actor) -> bool:
    """Whether two rectangles share ground: no axis keeps them apart."""
    dx, dy = b.at[0] - a.at[0], b.at[1] - a.at[1]
    one, other = math.radians(a.at[4]), math.radians(b.at[4])
    turn = other - one
    cosine, sine = abs(math.cos(turn)), abs(math.sin(turn))
    (al, aw, _), (bl, bw, _) = a.half, b.half
    for angle, la, wa, lb, wb in ((one, al, aw, bl, bw), (other, bl, bw, al, aw)):
        c, s = math.cos(angle), math.sin(angle)
        if abs(dx * c + dy * s) > la + lb * cosine + wb * sine:
            return False
        if abs(dy * c - dx * s) > wa + lb * sine + wb * cosine:
            return False
    return True


def ray(
    origin: tuple[float, float], direction: tuple[float, float], body: Actor,
    widened: float = 0.0,
) -> float | None:  # fmt: skip
    """How far a ray on the ground goes until it meets a body."""
    turn = math.radians(body.at[4])
    c, s = math.cos(turn), math.sin(turn)
    dx, dy = origin[0] - body.at[0], origin[1] - body.at[1]
    ox, oy = dx * c + dy * s, dy * c - dx * s
    rx = direction[0] * c + direction[1] * s
    ry = direction[1] * c - direction[0] * s
    near, far = 0.0, math.inf
    for place, slope, half in (
        (ox, rx, body.half[0] + widened),
        (oy, ry, body.half[1] + widened),
    ):
        if abs(slope) < 1e-12:
            if abs(place) > half:
                return None
            continue
        first, second = (-half - place) / slope, (half - place) / slope
        near = max(near, min(first, second))
        far = min(far, max(first, second))
    return near if near <= far else None
