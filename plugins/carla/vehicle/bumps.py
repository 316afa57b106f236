"""CARLA's collision sensor on a vehicle."""

from __future__ import annotations

import contextlib
from typing import Any

from forewarn.plugins.carla.support import carla_module


class Bumps:
    """Hears of collisions, from when it is made until it is closed.

    Args:
        world: A `carla.World`.
        vehicle: The vehicle's actor.
    """

    def __init__(self, world: Any, vehicle: Any) -> None:
        kind = world.get_blueprint_library().find("sensor.other.collision")
        place = carla_module().Transform()
        self._sensor = world.spawn_actor(kind, place, attach_to=vehicle)
        self._others: list[str] = []
        self._sensor.listen(self._hear)

    def _hear(self, event: Any) -> None:
        other = event.other_actor
        self._others.append("" if other is None else str(other.id))

    def take(self) -> str | None:
        """Whom the vehicle has run into since it was last asked; None: nobody.

        It is empty where that is no actor but a part of the map.
        """
        if not self._others:
            return None
        first, self._others = self._others[0], []
        return first

    def close(self) -> None:
        """Takes the sensor away; safe to call twice."""
        sensor, self._sensor = self._sensor, None
        if sensor is not None:
            # A server that is gone has taken it along.
            with contextlib.suppress(RuntimeError):
                sensor.stop()
                sensor.destroy()
