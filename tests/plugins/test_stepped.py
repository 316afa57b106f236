"""The base of worlds: an episode's beginning, its steps, its end."""

from __future__ import annotations

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.actions import Actions, ActionSpec
from forewarn.plugins.contracts import Source, SteppedWorld


class Counter(SteppedWorld):
    source = Source("counter", "driving", ("speed",), 0.1)
    actions = Actions(ActionSpec("go"))
    longest_steps = 4

    def begin(self, seed: int) -> None:
        if seed == 13:
            raise InvalidInput("there is no such episode")
        self.speed = float(seed)

    def move(self, action: Action | None) -> None:
        self.speed += action is not None
        if self.speed > 90.0:
            self.over = "it is too fast"

    def values(self) -> dict[str, float]:
        return {"speed": self.speed}


def test_steps_are_counted_until_time_is_up() -> None:
    world = Counter()
    frames = [world.reset(5)]
    while world.ended() is None:
        frames.append(world.step(Action("go")))
    assert [frame.sequence for frame in frames] == [0, 1, 2, 3, 4]
    assert [frame.time_s for frame in frames] == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert frames[-1].values == {"speed": 9.0}
    assert world.ended() == "time was up"
    with pytest.raises(InvalidInput, match="cannot step: time was up"):
        world.step(None)


def test_a_step_can_end_the_run() -> None:
    world = Counter()
    world.reset(90)
    assert world.step(None).values and world.ended() is None
    world.step(Action("go"))
    assert world.ended() == "it is too fast"
    assert world.reset(1).sequence == 0 and world.ended() is None


def test_step_before_reset_is_rejected() -> None:
    world = Counter()
    with pytest.raises(InvalidInput, match="has not begun"):
        world.step(None)
    with pytest.raises(InvalidInput, match="no such episode"):
        world.reset(13)
    with pytest.raises(InvalidInput, match="has not begun"):
        world.step(None)
    world.reset(1)
    world.close()
    with pytest.raises(InvalidInput, match="is closed"):
        world.step(None)


def test_a_rejected_action_changes_nothing() -> None:
    world = Counter()
    world.reset(1)
    with pytest.raises(InvalidInput, match="has no action 'fly'"):
        world.step(Action("fly"))
    assert world.step(None).sequence == 1
