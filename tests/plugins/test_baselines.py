"""The plain baseline: a law's own monitor."""

from __future__ import annotations

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabulary import load_vocabulary
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.plugins.baselines import Deadline
from forewarn.plugins.contracts import Baseline, Pilot, Source, World
from forewarn.plugins.registry import load, plugs
from forewarn.plugins.testing import BaselineContract
from forewarn.plugins.tiny import TinyPilot, TinyWorld

SOURCE = Source("hand", "driving", ("speed", "horn_on", "collision"), 0.1)
STANDS = "always (horn_on -> eventually[0, 0.2 s] speed < 1 km/h)"


class TestDeadline(BaselineContract):
    def make_baseline(self) -> Baseline:
        (law,) = find_laws(
            "always (traffic_light == yellow -> eventually[0, 1 s] speed < 1 km/h)",
            vocabulary=load_vocabulary("driving"),
        )
        return Deadline(law, TinyWorld.source)

    def make_world(self) -> World:
        return TinyWorld()

    def make_pilot(self) -> Pilot:
        return TinyPilot()


def scores(law: str, text: str) -> str:
    """h honks, s stands, x collides; 1 where it alarms."""
    (found,) = find_laws(law, vocabulary=load_vocabulary("driving"))
    baseline = Deadline(found, SOURCE)
    for _ in range(2):  # what came before does not matter
        baseline.reset()
        said = ""
        for i, c in enumerate(text):
            values = {
                "horn_on": c == "h",
                "speed": 0.0 if c == "s" else 9.0,
                "collision": c == "x",
            }
            score = baseline.score(Frame(round(0.1 * i, 1), i, values))
            said += "1" if score >= baseline.thresholds[0] else "0"
    return said


@pytest.mark.parametrize(
    ("text", "said"),
    [("...", "000"), (".h.s.", "01100"), (".h...", "01110"), ("h...h..", "1110111")],
)
def test_it_alarms_from_the_trigger_on(text: str, said: str) -> None:
    assert scores(STANDS, text) == said


def test_of_an_invariant_it_sees_nothing_coming() -> None:
    assert scores("no_collision", "..x..") == "00100"


def test_it_does_not_judge_what_is_not_provided() -> None:
    (law,) = find_laws("57")
    with pytest.raises(InvalidInput, match="hand does not provide .*turn_signal"):
        Deadline(law, SOURCE)


def test_it_is_registered() -> None:
    assert load("baseline", "deadline") is Deadline
    assert "deadline" in {plug.name for plug in plugs("baseline")}


def test_the_suite_notices_a_baseline_that_remembers() -> None:
    class Remembers:
        thresholds = (1.0,)
        frames = 0

        def reset(self) -> None:
            pass

        def score(self, frame: Frame) -> float:
            self.frames += 1
            return float(self.frames)

    class Suite(TestDeadline):
        def make_baseline(self) -> Baseline:
            return Remembers()

    Suite().test_its_scores_are_numbers()
    with pytest.raises(AssertionError, match="The same seed"):
        Suite().test_an_episode_does_not_depend_on_the_one_before()
