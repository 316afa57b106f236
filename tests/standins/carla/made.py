"""A stand-in server inside the test's process."""

from __future__ import annotations

from typing import Any

from forewarn.plugins.sumo import wire
from forewarn.plugins.sumo.support import MAPS
from forewarn.standins.carla.guests import Busy
from forewarn.standins.carla.roads import Maps
from forewarn.standins.carla.server import Server
from forewarn.standins.carla.traffic import makes_traffic

SHIPPED = Maps({path.stem: path for path in MAPS.glob("*.xodr")})


def made_server(name: str, busy: Busy | None = None, **settings: Any) -> Server:
    return Server(SHIPPED, name, makes_traffic(busy, wire), **settings)
