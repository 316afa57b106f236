"""Other ways to warn: the contract of each, and what each sees coming."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.plugins.baselines import Deadline
from forewarn.plugins.baselines.driving import Reactive, ReDriver, TimeToCollision
from forewarn.plugins.baselines.learned import Paper
from forewarn.plugins.baselines.logistic import Logistic
from forewarn.plugins.baselines.rss import ResponsibilitySensitiveSafety
from forewarn.plugins.contracts import Baseline, Lessons, Pilot, Source, World
from forewarn.plugins.registry import load, plugins
from forewarn.plugins.testing import BaselineContract
from forewarn.plugins.tiny import TinyPilot, TinyWorld
from forewarn.scenarios.measuring.recorded import recorded_runs
from forewarn.scenarios.schema import load_scenario
from tests.scenarios import learned

SOURCE = Source("hand", "driving", ("speed", "horn_on", "collision"), 0.1)
STANDS = "always (horn_on -> eventually[0, 0.2 s] speed < 1 km/h)"


def law(text: str) -> Law:
    (found,) = find_laws(text, vocabulary=load_vocabulary("driving"))
    return found


YELLOW = "always (traffic_light == yellow -> eventually[0, 1 s] speed < 1 km/h)"


@cache
def lessons(traces: int | None = None) -> Lessons:
    found = recorded_runs(learned.traces("tiny-road"))[:traces]
    scenario = load_scenario("tiny-road")
    return Lessons(tuple(found), 0.1, scenario.abstraction, 3.0)


@cache
def trained(kind: type[Any], name: str = "stop_at_red") -> Baseline:
    (found,) = [x for x in load_scenario("tiny-road").laws if x.name == name]
    made: Baseline = kind(found, TinyWorld.source, kind.learn(found, lessons()))
    return made


def scores(text_of_law: str, text: str) -> str:
    """h honks, s stands, x collides; 1 where it alarms."""
    baseline = Deadline(law(text_of_law), SOURCE)
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
def test_the_deadline_baseline_alarms_from_the_trigger_on(text: str, said: str) -> None:
    assert scores(STANDS, text) == said


def test_the_deadline_baseline_cannot_predict_an_invariant() -> None:
    assert scores("no_collision", "..x..") == "00100"


def test_a_baseline_without_its_signals_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="hand does not provide .*turn_signal"):
        Deadline(law("57"), SOURCE)


def test_baselines_are_registered() -> None:
    names = {"deadline", "reactive", "redriver", "ttc", "rss", "paper", "released",
             "logistic"}  # fmt: skip
    assert names <= {plugin.name for plugin in plugins("baseline")}
    assert load("baseline", "deadline") is Deadline
    assert load("baseline", "redriver") is ReDriver


def test_the_suite_notices_a_baseline_that_remembers() -> None:
    class Remembers:
        thresholds = (1.0,)
        frames = 0

        def reset(self) -> None:
            pass

        def score(self, frame: Frame) -> float:
            self.frames += 1
            return float(self.frames)

    class Suite(BaselineContract):
        def make_world(self) -> World:
            return TinyWorld()

        def make_pilot(self) -> Pilot:
            return TinyPilot()

        def make_baseline(self) -> Baseline:
            return Remembers()

    Suite().test_scores_are_numbers()
    with pytest.raises(AssertionError, match="The same seed"):
        Suite().test_a_run_does_not_depend_on_the_previous_run()


# -- what each of them sees coming -----------------------------------------------------


STILL: dict[str, Any] = {
    "speed": 36.0, "acceleration": 0.0, "speed_limit": 50.0, "traffic_light": "red",
    "stop_line_distance": 42.0, "lead_distance": None, "lead_speed": None,
    "collision": False, "time_to_collision": None, "past_stop_line": False,
    "in_junction": False,
}  # fmt: skip
ROAD = Source("hand", "driving", tuple(STILL), 0.1)
RED = "always (traffic_light == red and stop_line_distance <= 2 m -> speed < 1 km/h)"


def score(baseline: Baseline, **changes: Any) -> float:
    baseline.reset()
    return baseline.score(Frame(0.0, 0, {**STILL, **changes}))


def test_redriver_measures_the_way_to_breaking_the_law() -> None:
    baseline = ReDriver(law(RED), ROAD)
    # At 10 m/s the line is passed at 36 km/h: 2 m too near, or 35 km/h too fast.
    assert score(baseline) == pytest.approx(2.0)
    # Braking by 2 m/s² the car stands after 25 m, 17 m before the line: 15 to spare.
    assert score(baseline, acceleration=-2.0) == pytest.approx(-15.0, abs=0.1)
    # A green light has no distance from a red one.
    assert score(baseline, traffic_light="green") == -1000.0


def test_redriver_measures_the_gap_to_the_vehicle_ahead() -> None:
    baseline = ReDriver(law("no_collision"), ROAD)
    assert score(baseline) == -1000.0
    same = score(baseline, lead_distance=7.5, lead_speed=36.0)
    assert same == pytest.approx(-7.5)
    slower = score(baseline, lead_distance=30.0, lead_speed=32.4)
    assert slower == pytest.approx(-(30.0 - 8.0), abs=1e-6)
    # On a collision course it is how much shorter the way would have to be.
    assert score(baseline, time_to_collision=3.0) == pytest.approx(80.0 - 30.0)
    stops = score(baseline, time_to_collision=3.0, acceleration=-2.0)
    assert stops == pytest.approx(-(30.0 - 25.0), abs=0.1)
    # The time to the vehicle ahead adds nothing to the room there is to it.
    ahead = {"lead_distance": 30.0, "lead_speed": 32.4, "time_to_collision": 30.0}
    assert score(baseline, **ahead) == pytest.approx(slower)
    assert score(baseline, collision=True) == 1000.0


def test_reactive_fires_just_before() -> None:
    baseline = Reactive(law(RED), ROAD)
    assert score(baseline) == -1000.0
    # 12 m before the line 2 m are reached in 1 s; 2 m before it is too late.
    assert score(baseline, stop_line_distance=11.95) == pytest.approx(-1.0)
    assert score(baseline, stop_line_distance=2.0) == 0.0
    crash = Reactive(law("no_collision"), ROAD)
    ahead = {"lead_distance": 9.95, "lead_speed": 0.0}
    assert score(crash, **ahead) == pytest.approx(-1.0)
    assert score(crash, time_to_collision=0.95) == pytest.approx(-1.0)
    assert score(crash, time_to_collision=0.95, acceleration=-9.0) == -1000.0
    # It looks no farther ahead than two seconds.
    assert score(crash, time_to_collision=1.95) == pytest.approx(-2.0)
    assert score(crash, time_to_collision=2.55) == -1000.0


def test_time_to_collision_is_what_the_frame_says() -> None:
    baseline = TimeToCollision(law("no_collision"), ROAD)
    assert score(baseline) == -1000.0
    assert score(baseline, time_to_collision=1.25) == -1.25
    with pytest.raises(InvalidInput, match="only to laws about other road users"):
        TimeToCollision(law(RED), ROAD)


def test_rss_scores_by_how_much_its_distance_is_missed() -> None:
    baseline = ResponsibilitySensitiveSafety(law("no_collision"), ROAD)
    assert score(baseline) == -1000.0
    # 10 m/s behind 10 m/s: 10 + 1.75 + 13.5²/8 - 100/16 metres.
    needed = 10 + 1.75 + 13.5**2 / 8 - 100 / 16
    behind = score(baseline, lead_distance=20.0, lead_speed=36.0)
    assert behind == pytest.approx(needed - 20.0)
    crossing = score(baseline, time_to_collision=3.0)
    assert crossing == pytest.approx(10 + 1.75 + 13.5**2 / 8 - 30.0)


def test_rss_takes_the_worlds_margins_where_it_gives_them() -> None:
    margins = ("rss_longitudinal_margin", "rss_lateral_margin")
    source = replace(ROAD, provides=(*ROAD.provides, *margins))
    baseline = ResponsibilitySensitiveSafety(law("no_collision"), source)
    for along, across, found in (
        (-3.0, 0.5, -0.5),
        (-3.0, -1.0, 1.0),
        (4.0, -1.0, -4.0),
    ):
        given = {margins[0]: along, margins[1]: across}
        assert score(baseline, **given) == found
    assert score(baseline, **dict.fromkeys(margins)) == -1000.0


def run(baseline: Baseline, seed: int) -> list[float]:
    world, pilot = TinyWorld(), TinyPilot(reckless_share=1.0)
    frame = world.reset(seed)
    pilot.reset(seed)
    baseline.reset()
    found = [baseline.score(frame)]
    while world.ended() is None:
        frame = world.step(pilot.propose(frame))
        found.append(baseline.score(frame))
    world.close()
    return found


def test_the_papers_recipe_begins_at_its_base_rate_and_sees_no_collision_coming() -> (
    None
):
    found = run(trained(Paper, "no_collision"), 3)
    # The only predicate is the collision itself, so nothing changes before it.
    before = [each for each in found if each < 1.0]
    assert len(set(before)) == 1 and 0.0 < before[0] < 0.3


def test_a_broken_law_stays_broken_for_the_papers_recipe() -> None:
    broken = 0
    for seed in range(40):
        found = run(trained(Paper, "no_collision"), seed)
        if 1.0 in found:
            broken += 1
            assert set(found[found.index(1.0) :]) == {1.0}
    assert broken


@pytest.mark.needs("sklearn")
def test_logistic_regression_learns_weights() -> None:
    (found,) = [x for x in load_scenario("tiny-road").laws if x.name == "stop_at_red"]
    content = Logistic.learn(found, lessons())
    assert (
        len(content["weights"]) == len(load_scenario("tiny-road").abstraction.texts) + 1
    )
    said = run(Logistic(found, TinyWorld.source, content), 3)
    assert all(0.0 < each < 1.0 for each in said) and len(set(said)) > 3
    nothing = Logistic(
        found,
        TinyWorld.source,
        {**content, "weights": [0.0] * len(content["weights"]), "intercept": 0.0},
    )
    assert set(run(nothing, 3)) == {0.5}


@pytest.mark.needs("sklearn")
def test_logistic_regression_needs_a_violation_to_learn_from() -> None:
    never = law("always speed < 500 km/h")
    with pytest.raises(
        InvalidInput, match="precede a violation, and frames that do not"
    ):
        Logistic.learn(never, lessons(5))
