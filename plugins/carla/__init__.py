"""CARLA: guards for its clients, and a server that stands in for the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn import _front

if TYPE_CHECKING:
    from forewarn.plugins.carla.act import TrafficManagerActuator, control_of
    from forewarn.plugins.carla.guarded import PROVIDES, GuardedVehicle
    from forewarn.plugins.carla.wire import connect, kept_settings

__all__ = [
    "PROVIDES",
    "GuardedVehicle",
    "TrafficManagerActuator",
    "connect",
    "control_of",
    "kept_settings",
]

__getattr__, __dir__ = _front(
    __name__,
    {
        "act": ("TrafficManagerActuator", "control_of"),
        "guarded": ("PROVIDES", "GuardedVehicle"),
        "wire": ("connect", "kept_settings"),
    },
)
