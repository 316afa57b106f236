"""What every pilot is held to."""

from __future__ import annotations

import copy
import json
import random

from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.contracts import Pilot, World
from forewarn.plugins.testing.promises import (
    KEEPS_FRAMES,
    NO_GLOBAL_LUCK,
    PLAIN,
    SAME_SEED,
)
from forewarn.plugins.testing.worlds import same


class PilotContract:
    """What every pilot promises. `make_pilot`, and a world for it to act in.

    Attributes:
        steps: How long the suite follows an episode.
        deterministic: Whether its proposals follow from the seed. An agent behind a
            remote model cannot promise that.
    """

    steps = 60
    deterministic = True

    def make_pilot(self) -> Pilot:
        raise NotImplementedError

    def make_world(self) -> World:
        raise NotImplementedError

    def _proposals(
        self, pilot: Pilot, seed: int, reflection: str | None = None
    ) -> list[Action]:
        world = self.make_world()
        frame = world.reset(seed)
        pilot.reset(seed)
        proposals: list[Action] = []
        while world.ended() is None and len(proposals) < self.steps:
            was = copy.deepcopy(frame)
            proposals.append(pilot.propose(frame, reflection))
            assert same(frame, was), KEEPS_FRAMES
            frame = world.step(proposals[-1])
        world.close()
        return proposals

    def test_it_proposes_actions(self) -> None:
        for action in self._proposals(self.make_pilot(), 1):
            assert isinstance(action, Action), "A pilot proposes actions."
            assert action.name, "An action has a name."
            assert json.loads(json.dumps(dict(action.arguments))) == action.arguments, (
                PLAIN
            )

    def test_the_same_seed_gives_the_same_proposals(self) -> None:
        if not self.deterministic:
            return
        pilot = self.make_pilot()
        self._proposals(pilot, 2)  # what came before must not matter
        assert self._proposals(pilot, 3) == self._proposals(self.make_pilot(), 3), (
            SAME_SEED
        )

    def test_global_randomness_is_left_alone(self) -> None:
        before = random.getstate()
        self._proposals(self.make_pilot(), 4)
        assert random.getstate() == before, NO_GLOBAL_LUCK

    def test_it_can_be_asked_to_think_again(self) -> None:
        words = "Think again: the rule is at risk."
        assert self._proposals(self.make_pilot(), 5, words), "A pilot proposes actions."
