"""Clients that do anything at all in SUMO's traffic: SUMO must not go down with it.

libsumo ends its process where it is used wrongly, so each case has one of its own.
"""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [
    pytest.mark.needs("libsumo"),
    pytest.mark.needs("carla"),
    pytest.mark.needs("msgpack"),
]

KINDS = [
    "vehicle.tesla.model3", "walker.pedestrian.0001", "vehicle.bh.crossbike",
    "vehicle.mitsubishi.fusorosa", "static.prop.barrel",
]  # fmt: skip


@pytest.mark.parametrize("name", ["crossing", "merge"])
def test_a_few_hundred_ticks_with_random_calls(name: str) -> None:
    _run(name, 1, 300)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize(
    "name", ["boulevard", "crossing", "highway", "merge", "roundabout", "tee"]
)
def test_thousands_of_ticks_with_random_calls(name: str, seed: int) -> None:
    _run(name, seed, 3000)


def _run(name: str, seed: int, ticks: int) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", __file__, name, str(seed), str(ticks)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def _play(name: str, seed: int, ticks: int) -> None:
    from forewarn.standins.carla.guests import Busy
    from tests.standins.carla.made import made_server

    luck = random.Random(seed)
    server = made_server(name, Busy(3000, 1500), seed=seed)

    def ask(call: str, *arguments: Any) -> Any:
        error, answer = server._answer(call, list(arguments))
        assert error is None
        return answer

    def place(spread: float) -> Any:
        x, y, *_, yaw, _ = luck.choice(server.world.roads.spawn_points)
        if luck.random() < 0.4:
            yaw = luck.uniform(-180, 180)
        where = [x + luck.gauss(0, spread), y + luck.gauss(0, spread), 0.0]
        return [where, [0.0, yaw, 0.0]]

    ours: list[int] = []
    world = server.world
    for _ in range(ticks):
        dice = luck.random()
        if dice < 0.2 and len(ours) < 25:
            answer = ask("spawn_actor", [1, luck.choice(KINDS), []], place(3.0))
            if answer[0][0] == 1:
                ours.append(answer[0][1][0])
        elif dice < 0.3 and ours:
            ask("destroy_actor", ours.pop(luck.randrange(len(ours))))
        elif dice < 0.5 and ours:
            which = luck.choice(ours)
            pedals = [luck.random(), luck.uniform(-1, 1), 0.0]
            ask("apply_control_to_vehicle", which,
                [*pedals, False, luck.random() < 0.1, False, 0])  # fmt: skip
            way = [luck.gauss(0, 1), luck.gauss(0, 1), 0.0]
            ask("apply_control_to_walker", which, [way, 2.0, False])
        elif dice < 0.55 and ours:
            ask("set_actor_transform", luck.choice(ours), place(200.0))
        elif dice < 0.6 and world.movers:
            ask("destroy_actor", luck.choice(sorted(world.movers.values())))
        elif dice < 0.63 and world.lights:
            ask("set_traffic_light_state", luck.choice(world.lights).number,
                luck.randrange(5))  # fmt: skip
        elif dice < 0.64 and world.lights:
            ask("freeze_traffic_light", luck.choice(world.lights).number,
                luck.random() < 0.5)  # fmt: skip
        world.tick()
    # Another world in the same process, and back.
    server.load("tee" if name != "tee" else "crossing", keep_settings=True)
    for _ in range(50):
        server.world.tick()


if __name__ == "__main__":
    # A server announces its new worlds in a loop; here there is none.
    import asyncio

    class _Deaf:
        def call_later(self, *_: Any) -> None:
            pass

    asyncio.get_running_loop = _Deaf  # type: ignore[assignment]
    _play(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
