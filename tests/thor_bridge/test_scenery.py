"""What a room looks like from above."""

from __future__ import annotations

from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.contracts import Scenic, Thing
from forewarn.thor_bridge.bridge import HouseholdWorld


def things(world: HouseholdWorld) -> dict[str, Thing]:
    return {thing.name: thing for thing in world.things()}


def test_the_robot_and_all_placed_objects_are_in_the_room() -> None:
    world = HouseholdWorld(scene="Kitchen1")
    assert isinstance(world, Scenic)
    world.reset(1)
    (floor,) = world.ground()
    xs, ys = zip(*floor.points, strict=True)
    seen = things(world)
    assert len(seen) == len(world.metadata["objects"]), "the floor gave way to a robot"
    for thing in seen.values():
        assert min(xs) - 0.5 <= thing.x <= max(xs) + 0.5
        assert min(ys) - 0.5 <= thing.y <= max(ys) + 0.5
    robot = seen["robot"]
    place = world.metadata["agent"]["position"]
    assert (robot.kind, robot.x, robot.y) == ("ego", place["x"], place["z"])
    world.close()


def test_changes_of_objects_are_drawn() -> None:
    world = HouseholdWorld(scene="Kitchen1")
    world.reset(1)

    def state(kind: str) -> str:
        return next(t.state for t in world.things() if t.label == kind)

    assert state("Microwave") == ""
    for verb, thing in [("find", "Microwave"), ("open", "Microwave")]:
        world.step(Action(verb, {"object": thing}))
    assert state("Microwave") == "open"
    before = things(world)
    for verb in ("find", "pick"):
        world.step(Action(verb, {"object": "Fork"}))
    (fork,) = (t for t in world.things() if "held" in t.state)
    assert fork.label == "Fork"
    assert (fork.x, fork.y) != (before[fork.name].x, before[fork.name].y)
    world.close()
