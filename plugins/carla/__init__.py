"""Guards for vehicles in CARLA, and a world that runs scenarios on a CARLA server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn import _front

if TYPE_CHECKING:
    from forewarn.plugins.carla.act import (
        TrafficManagerActuator as TrafficManagerActuator,
    )
    from forewarn.plugins.carla.act import control_of as control_of
    from forewarn.plugins.carla.guarded import PROVIDES as PROVIDES
    from forewarn.plugins.carla.guarded import GuardedVehicle as GuardedVehicle
    from forewarn.plugins.carla.wire import connect as connect
    from forewarn.plugins.carla.wire import kept_settings as kept_settings

__all__, __getattr__, __dir__ = _front(
    __name__,
    {
        "act": ("TrafficManagerActuator", "control_of"),
        "guarded": ("PROVIDES", "GuardedVehicle"),
        "wire": ("connect", "kept_settings"),
    },
)
