"""What SUMO's roads look like from above."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

pytestmark = pytest.mark.needs("libsumo")

from forewarn.abstractions.frame import Frame  # noqa: E402
from forewarn.monitors.guarding.decision import Action  # noqa: E402
from forewarn.plugins.contracts import HIT, Thing  # noqa: E402
from forewarn.plugins.sumo.bridge import SumoWorld  # noqa: E402
from forewarn.scenarios.running.runner import Keep, Runner  # noqa: E402
from forewarn.scenarios.schema import load_scenario  # noqa: E402

BLIND = Action("control", {"acceleration": 1.0})


def episode(world: SumoWorld, seed: int) -> Iterator[tuple[dict[str, Thing], Frame]]:
    """Someone who looks at nothing drives on."""
    frame = world.reset(seed)
    while True:
        yield {thing.name: thing for thing in world.things()}, frame
        if world.ended() is not None:
            return
        frame = world.step(BLIND)


def world_of(name: str, seed: int) -> SumoWorld:
    made = Runner(load_scenario(name)).world(seed)
    assert isinstance(made, SumoWorld)
    return made


def test_the_light_that_is_shown_is_the_one_that_the_ego_sees() -> None:
    world = world_of("s1", 3)
    seen = set()
    for things, frame in episode(world, 3):
        light = frame.values["traffic_light"]
        line_m = frame.values["stop_line_distance"]
        if "ego" not in things or line_m is None or light is None or line_m > 40:
            continue
        ego = things["ego"]
        # The bars before the ego, in its own lane's direction.
        bars = [
            thing
            for thing in things.values()
            if thing.kind == "light"
            and abs(thing.heading_deg - ego.heading_deg) < 1
            and abs(thing.y - ego.y) < 1.7
        ]
        assert light in {bar.state for bar in bars}
        front = ego.x + ego.length_m / 2
        assert min(abs(bar.x - front - line_m) for bar in bars) < 0.6
        seen.add(light)
    assert {"green", "yellow"} <= seen
    world.close()


def test_hit_vehicle_is_marked() -> None:
    for seed in range(30):
        world = world_of("s3", seed)
        marked = [
            [thing for thing in things.values() if thing.state == HIT]
            for things, _ in episode(world, seed)
        ]
        why = world.ended() or ""
        world.close()
        if "collided" in why:
            assert not any(marked[:-1])
            (victim,) = marked[-1]
            assert victim.kind == ("vehicle" if "vehicle" in why else "pedestrian")
            return
    raise AssertionError("nobody was hit")


def test_vehicle_is_drawn_at_its_centre() -> None:
    world = world_of("s1", 1)
    world.reset(1)
    ego = world.things()[0]
    assert ego.kind == "ego"
    x, y = world._sumo.vehicle.getPosition("ego")
    ahead = math.radians(ego.heading_deg)
    assert ego.x + ego.length_m / 2 * math.sin(ahead) == pytest.approx(x)
    assert ego.y + ego.length_m / 2 * math.cos(ahead) == pytest.approx(y)
    world.close()


def test_the_ground_has_all_that_the_map_has() -> None:
    world = world_of("s6", 1)
    world.reset(1)
    kinds = {shape.kind for shape in world.ground()}
    assert kinds == {"lane", "junction", "sidewalk", "crosswalk"}
    world.close()


def test_the_same_seed_gives_the_same_scenes(tmp_path) -> None:  # type: ignore[no-untyped-def]
    runner = Runner(load_scenario("s3"))
    texts = []
    for name in ("a", "b"):
        path = tmp_path / name
        runner.run(7, Keep(scene=path))
        texts.append(path.read_bytes())
    assert texts[0] == texts[1] and len(texts[0]) > 10_000
