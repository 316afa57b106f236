"""Which traffic a world gets: SUMO's where it can be had, else none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from forewarn.plugins.carla.standin.ground.roads import Roads
from forewarn.plugins.carla.standin.movement.traffic import NoTraffic, Traffic
from forewarn.plugins.carla.standin.server import MakesTraffic

if TYPE_CHECKING:
    from forewarn.plugins.carla.standin.movement.sumo_traffic import Stage


@dataclass(frozen=True, slots=True)
class Busy:
    """How much traffic there is on roads that no scenario fills."""

    vehicles_per_hour: float = 900.0
    walkers_per_hour: float = 200.0


def makes_traffic(
    busy: Busy | None, stage: Callable[[int], Stage] | None = None
) -> MakesTraffic:
    """How the traffic of each world is made.

    Args:
        busy: How much there is; none for none at all.
        stage: A scenario's episode of a seed, on the scenario's own map.
    """

    def make(on: Roads, seed: int, step_s: float) -> Traffic:
        if busy is None or on.net is None or find_spec("libsumo") is None:
            return NoTraffic()
        from forewarn.plugins.carla.standin.movement.sumo_traffic import SumoTraffic

        if stage is not None:
            staged = stage(seed)
            beginning = staged.beginning()
            if beginning.map == on.net:
                return SumoTraffic(
                    on.net, seed, step_s, busy, beginning, staged.surroundings
                )
        return SumoTraffic(on.net, seed, step_s, busy)

    return make
