"""Safe distances of Responsibility-Sensitive Safety (RSS).

The parameters are those of CARLA for a car. Speeds are in m/s, and distances in m.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from forewarn.plugins.driving.others import Conflict
from forewarn.plugins.driving.scene import EGO_WIDTH_M, Scene

RESPONSE_S = 1.0
ACCELERATES = 3.5  # m/s², at most during the response time
BRAKES_MOST = 8.0  # m/s², the vehicle ahead
BRAKES_LEAST = 4.0  # m/s², after the response time
SIDEWAYS = 0.2  # m/s², lateral acceleration at most during the response time
SIDEWAYS_BRAKES = 0.8  # m/s², lateral braking at least after the response time


def stopping(speed: float) -> float:
    """Returns the stopping distance, including the response time."""
    after = speed + ACCELERATES * RESPONSE_S
    return (speed + after) / 2.0 * RESPONSE_S + after**2 / (2.0 * BRAKES_LEAST)


def behind(speed: float, lead_speed: float) -> float:
    """Returns the safe distance behind a vehicle."""
    return max(0.0, stopping(speed) - lead_speed**2 / (2.0 * BRAKES_MOST))


def towards(speed: float, oncoming_speed: float) -> float:
    """Returns the safe distance between oncoming vehicles, each in its own lane."""
    return stopping(speed) + stopping(oncoming_speed)


def beside(left_speed: float, right_speed: float) -> float:
    """Returns the safe lateral distance between two vehicles.

    The arguments are lateral speeds, positive to the right.
    """
    return max(0.0, _drift(left_speed) + _drift(-right_speed))


def _drift(speed: float) -> float:
    """Returns how far a vehicle approaches sideways before its lateral motion ends."""
    after = speed + SIDEWAYS * RESPONSE_S
    braking = max(0.0, after) ** 2 / (2.0 * SIDEWAYS_BRAKES)
    return (speed + after) / 2.0 * RESPONSE_S + braking


SIGNALS = ("rss_longitudinal_margin", "rss_lateral_margin")

SEEN_M = 80.0
_MOST_M = 1000.0


class Margins(NamedTuple):
    """The longitudinal and lateral RSS margins to one road user."""

    along_m: float
    across_m: float


def rss_margins(scene: Scene, conflicts: Iterable[Conflict]) -> dict[str, float | None]:
    """Returns the RSS margins of the ego to the most critical road user, as signals.

    Args:
        scene: The scene with all road users.
        conflicts: The conflicts with crossing road users.
    """
    found = [*_near(scene), *_crossing(scene.ego.speed, conflicts)]
    if not found:
        return dict.fromkeys(SIGNALS)
    critical = min(found, key=max)
    bounded = (max(-_MOST_M, min(_MOST_M, margin)) for margin in critical)
    return {k: round(v, 3) for k, v in zip(SIGNALS, bounded, strict=True)}


def _near(scene: Scene) -> Iterator[Margins]:
    ego = scene.ego
    hx, hy = math.cos(ego.heading), math.sin(ego.heading)
    vehicles = map(scene.watch, scene.vehicles.values())
    for other in (*vehicles, *scene.people.values()):
        dx, dy = other.x - ego.x, other.y - ego.y
        if other is ego or abs(dx) > SEEN_M or abs(dy) > SEEN_M:
            continue
        turned = other.heading - ego.heading
        along, aside = math.cos(turned), math.sin(turned)
        half_l, half_w = other.length / 2.0, other.width / 2.0
        ahead = dx * hx + dy * hy - half_l * along
        left = dy * hx - dx * hy - half_l * aside
        reach = half_l * abs(along) + half_w * abs(aside)
        breadth = half_l * abs(aside) + half_w * abs(along)
        if ahead + reach < -ego.length:
            continue
        its, its_aside = other.speed * along, other.speed * aside
        apart = behind(ego.speed, its) if its >= 0.0 else towards(ego.speed, -its)
        # `its_aside` is positive to the left.
        aside_m = beside(-its_aside, 0.0) if left > 0.0 else beside(0.0, -its_aside)
        yield Margins(
            ahead - reach - apart, abs(left) - breadth - EGO_WIDTH_M / 2.0 - aside_m
        )


def _crossing(speed: float, conflicts: Iterable[Conflict]) -> Iterator[Margins]:
    for begins, ends, comes_s, leaves_s, _ in conflicts:
        gone = leaves_s < begins / (speed + ACCELERATES * RESPONSE_S)
        passed = speed > 0.0 and comes_s > ends / speed + RESPONSE_S
        if begins > 0.0 and not gone and not passed:
            room = begins - stopping(speed)
            yield Margins(room, room)
