"""CARLA's rows in the table of capabilities."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from forewarn.abstractions.frame import Frame, Source
from forewarn.plugins.loop.guarding import Guarding
from tests.plugins.capabilities import BLIND, Way


@cache
def _port() -> int:
    from forewarn.plugins.carla.wire import StandIn

    server = StandIn(["--map", "crossing", "--kinematic"])
    atexit.register(server.stop)
    return server.port


def _drive() -> Any:
    from tests.plugins.carla.test_guarded import Drive

    return Drive(_port())


@cache
def _seen() -> tuple[Source, Frame]:
    from forewarn.plugins.carla.guarded import SOURCE, Watching

    drive = _drive()
    with Watching(drive.world, drive.car, sensor=False) as watching:
        return replace(SOURCE, period_s=0.05), watching.frame()


class Vehicle(Way):
    name, title = "GuardedVehicle", "a vehicle in your own CARLA client"
    needs = "carla"
    without: ClassVar[Mapping[str, str]] = {"`when: before`": BLIND}

    def sees(self, foresees: bool) -> tuple[Source, Frame]:
        return _seen()

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        from forewarn.plugins.carla.guarded import GuardedVehicle

        drive = _drive()
        with GuardedVehicle(drive.world, drive.car, guarding, sensor=False) as guarded:
            for _ in range(6):
                drive.apply(guarded.filter(drive.towards(5.0)))


class BesideAnother(Vehicle):
    name, title = "carla guard", "`forewarn carla guard`, next to a CARLA client"
    command = ("carla", "guard")

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        from forewarn.plugins.carla.beside import Beside
        from forewarn.plugins.carla.guarded import GuardedVehicle
        from forewarn.plugins.carla.wire import connect

        drive, client = _drive(), connect("127.0.0.1", _port())
        world = client.get_world()
        ego = world.get_actor(drive.car.id)
        guarded = GuardedVehicle(world, ego, guarding, sensor=False)
        done = threading.Event()

        def ticking() -> None:
            with suppress(RuntimeError):
                for _ in range(15):
                    drive.apply(drive.towards(5.0))
                    time.sleep(0.01)
            done.set()

        thread = threading.Thread(target=ticking)
        with Beside(client, world, guarded, lambda *_: None) as beside:
            thread.start()
            beside.run(done.is_set)
        thread.join()
