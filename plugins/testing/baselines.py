"""What every baseline is held to."""

from __future__ import annotations

import copy
import math
import random

from forewarn.plugins.baseline import Baseline
from forewarn.plugins.contracts import Pilot, World
from forewarn.plugins.testing.promises import (
    HAS_THRESHOLDS,
    KEEPS_FRAMES,
    NO_GLOBAL_LUCK,
    NUMBERS,
    SAME_SEED,
)
from forewarn.plugins.testing.worlds import same


class BaselineContract:
    """What every baseline promises, watching a pilot in a world.

    Attributes:
        steps: How long the suite follows an episode.
    """

    steps = 60

    def make_baseline(self) -> Baseline:
        """One for a law that it can judge, and for the world's source."""
        raise NotImplementedError

    def make_world(self) -> World:
        raise NotImplementedError

    def make_pilot(self) -> Pilot:
        raise NotImplementedError

    def _scores(self, baseline: Baseline, seed: int) -> list[float]:
        world, pilot = self.make_world(), self.make_pilot()
        frame = world.reset(seed)
        pilot.reset(seed)
        baseline.reset()
        scores: list[float] = []
        while len(scores) < self.steps:
            was = copy.deepcopy(frame)
            scores.append(baseline.score(frame))
            assert same(frame, was), KEEPS_FRAMES
            if world.ended() is not None:
                break
            frame = world.step(pilot.propose(frame))
        world.close()
        return scores

    def test_it_says_when_it_alarms(self) -> None:
        thresholds = list(self.make_baseline().thresholds)
        assert thresholds and all(map(math.isfinite, thresholds)), HAS_THRESHOLDS

    def test_its_scores_are_numbers(self) -> None:
        for seed in range(3):
            scores = self._scores(self.make_baseline(), seed)
            assert not any(map(math.isnan, scores)), NUMBERS

    def test_an_episode_does_not_depend_on_the_one_before(self) -> None:
        baseline = self.make_baseline()
        self._scores(baseline, 1)
        again = self._scores(baseline, 2)
        assert again == self._scores(self.make_baseline(), 2), SAME_SEED

    def test_global_randomness_is_left_alone(self) -> None:
        before = random.getstate()
        self._scores(self.make_baseline(), 3)
        assert random.getstate() == before, NO_GLOBAL_LUCK
