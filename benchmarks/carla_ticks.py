"""The stand-in for CARLA: how fast CARLA's own client can tick it."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from measuring import PEERS, Row


def rows(quick: bool) -> Iterator[Row]:
    ticks = 2_000 if quick else 10_000
    if find_spec("msgpack") is None:
        yield Row(
            "the stand-in for CARLA", 0.0, peer="carla is not installed", rate=True
        )
        return
    with served("--kinematic") as port:
        empty, _ = ticked(port, 0, ticks)
    with served("--kinematic") as port:
        rate, cars = ticked(port, 20, ticks)
    what = f"CARLA ticks: {cars} vehicles that move, every snapshot read whole"
    yield Row(what, rate, 4_000, "an empty world", empty, rate=True)
    if find_spec("libsumo") is not None:
        with served() as port:
            rate, cars = ticked(port, 1, ticks // 4)
        what = f"CARLA ticks: SUMO's traffic, {cars} vehicles, snapshots read whole"
        yield Row(what, rate, 500, "an empty world", empty, rate=True)
    with served("--kinematic") as port:
        found = client("carla_sensors.py", port, 60 if quick else 400)
    what = "CARLA ticks: three cameras of 800 x 600 and two lidars of 600,000 points/s"
    yield Row(what, found["sensors"], 20, "bare ticks", found["bare"], rate=True)


@contextmanager
def served(*options: str) -> Iterator[int]:
    """A server in a process of its own; gives its port."""
    command = [sys.executable, "-m", "forewarn.cli", "carla", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--json", *options], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            yield int(said["listening"].rpartition(":")[2])
        finally:
            process.terminate()


def ticked(port: int, cars: int, ticks: int) -> tuple[float, int]:
    """The median rate of some rounds, and the most vehicles that were there."""
    found = client("carla_client.py", port, cars, ticks)
    return statistics.median(found["rates"]), found["vehicles"]


def client(script: str, *numbers: int) -> Any:
    """What a script with CARLA's own client found."""
    done = subprocess.run(
        [sys.executable, str(PEERS / script), *map(str, numbers)],
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])
