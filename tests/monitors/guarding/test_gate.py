"""The gate: nothing is judged that is not newer, fresh, complete and within range."""

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.guarding.gate import Gate, Limits

DRIVING = load_vocabulary("driving")
NEEDS = ("speed", "lead_distance", "traffic_light", "collision", "snapshot_age")
GOOD: dict[str, Any] = {
    "speed": 12.5,
    "lead_distance": None,
    "traffic_light": "red",
    "collision": False,
    "snapshot_age": 0.0,
}


def gate(max_age_s: float = 0.5, frozen_after_s: float | None = None) -> Gate:
    return Gate(NEEDS, Limits(max_age_s, frozen_after_s), DRIVING)


def frame(time_s: float = 0.0, sequence: int = 0, **changes: Any) -> Frame:
    values = GOOD | changes
    return Frame(time_s, sequence, {k: v for k, v in values.items() if v != "absent"})


def test_a_good_frame_passes() -> None:
    assert gate().admit(frame(), 100.0) is None


@pytest.mark.parametrize("values", [None, [], "speed", 3])
def test_a_frame_without_signals_does_not_pass(values: Any) -> None:
    assert gate().admit(Frame(0.0, 0, values), 100.0) == "the frame has no signals"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"speed": "absent"}, "speed is missing"),
        ({"speed": math.nan}, "speed is not finite"),
        ({"speed": math.inf}, "speed is not finite"),
        ({"speed": -math.inf}, "speed is not finite"),
        ({"speed": -0.1}, "below its range"),
        ({"speed": 300.1}, "above its range"),
        ({"speed": None}, "speed cannot be none"),
        ({"speed": "fast"}, "speed must be a number"),
        ({"speed": True}, "speed must be a number"),
        ({"lead_distance": math.nan}, "lead_distance is not finite"),
        ({"traffic_light": "purple"}, "traffic_light cannot be"),
        ({"collision": 1.0}, "collision must be true or false"),
        ({"collision": Fraction(1)}, "collision must be true or false"),
        ({"snapshot_age": 0.51}, "snapshot is 0.51 s old"),
        ({"snapshot_age": "absent"}, "snapshot_age is missing"),
    ],
)
def test_faults_of_content_are_named(changes: dict[str, Any], fault: str) -> None:
    assert fault in (gate().admit(frame(**changes), 0.0) or "")


@pytest.mark.parametrize("speed", [0.0, 300.0, -0.0, 12, 5e-324])
def test_the_bounds_of_a_range_are_inside_it(speed: float) -> None:
    assert gate().admit(frame(speed=speed), 0.0) is None


@pytest.mark.parametrize("age", [0.5, 0.0])
def test_an_age_at_its_limit_is_fresh(age: float) -> None:
    assert gate().admit(frame(snapshot_age=age), 0.0) is None


@pytest.mark.parametrize(
    ("second", "fault"),
    [
        (frame(0.1, 0), "frame 0 came twice"),
        (frame(0.1, -1), "frame -1 came after frame 0"),
        (frame(0.0, 1), "the time must increase"),
        (frame(-0.1, 1), "the time must increase"),
        (frame(math.nan, 1), "the frame's time is nan"),
        (frame(math.inf, 1), "the frame's time is inf"),
        (frame("0.1", 1), "the frame's time is '0.1'"),  # type: ignore[arg-type]
        (frame(True, 1), "the frame's time is True"),
        (frame(0.1, None), "the frame's sequence number is None"),  # type: ignore[arg-type]
        (frame(0.1, math.nan), "the frame's sequence number is nan"),  # type: ignore[arg-type]
        (frame(0.1, 1.0), "the frame's sequence number is 1.0"),  # type: ignore[arg-type]
        (frame(0.1, True), "the frame's sequence number is True"),
        (frame(99.0, 1), "the frame's time is 98.9 s ahead of the guard's clock"),
    ],
)
def test_faults_of_order_are_named(second: Frame, fault: str) -> None:
    opened = gate()
    assert opened.admit(frame(0.0, 0), 0.0) is None
    assert fault in (opened.admit(second, 0.1) or "")


@pytest.mark.parametrize("sequence", [None, math.nan, "0", 0.0, True])
def test_the_first_frame_too_has_a_number(sequence: Any) -> None:
    assert "number" in (gate().admit(frame(0.0, sequence), 0.0) or "")


def test_a_clock_that_goes_back_is_a_fault() -> None:
    opened = gate()
    assert opened.admit(frame(0.0, 0), 7.0) is None
    assert "clock went back" in (opened.admit(frame(0.1, 1), 6.9) or "")


@pytest.mark.parametrize("ahead_s", [0.9, 1.1])
def test_time_may_run_ahead_of_the_clock_a_little(ahead_s: float) -> None:
    opened = gate()
    assert opened.admit(frame(0.0, 0), 7.0) is None
    fault = opened.admit(frame(0.1 + ahead_s, 1), 7.1)
    assert (fault is None) == (ahead_s < 1.0)
    # From there on it may be that all before came late.
    after = frame(0.2 + ahead_s, 2)
    assert opened.admit(after, 7.2) is opened.stale(after) is None
    assert opened.admit(frame(0.3, 3), 7.3) is not None


def test_a_frame_that_came_late_is_stale_whatever_the_clocks_offset() -> None:
    opened = gate(max_age_s=0.5)
    assert opened.admit(frame(0.0, 0), 1000.0) is None
    assert opened.admit(frame(0.1, 1), 1000.6) is opened.stale(frame(0.1, 1)) is None
    assert opened.admit(frame(0.2, 2), 1000.75) is None
    assert opened.stale(frame(0.2, 2)) == "the frame is 0.55 s old"
    assert opened.admit(frame(0.5, 3), 1000.8) is opened.stale(frame(0.5, 3)) is None


def test_a_broken_clock_of_the_guard_is_a_fault() -> None:
    assert "clock returned nan" in (gate().admit(frame(), math.nan) or "")


def test_identical_frames_are_a_fault_after_a_while_if_asked() -> None:
    opened = gate(frozen_after_s=0.2)
    said = []
    for i, time_s in enumerate((0.0, 0.2, 0.3, 0.4, 0.6)):
        seen = frame(time_s, i, speed=13.0 if time_s > 0.3 else 12.5)
        assert opened.admit(seen, time_s) is None
        said.append(opened.stale(seen))
    assert said[:2] == said[3:] == [None, None]
    assert said[2] == "no signal has changed for 0.3 s: the source seems frozen"


def test_a_new_episode_begins_anew() -> None:
    opened = gate()
    assert opened.admit(frame(5.0, 50), 5.0) is None
    opened.reset()
    assert opened.admit(frame(0.0, 0), 5.1) is None


def test_without_a_vocabulary_numbers_must_still_be_finite() -> None:
    opened = Gate(["a", "b"], Limits(0.5))
    assert opened.admit(Frame(0.0, 0, {"a": 1.0, "b": "x"}), 0.0) is None
    fault = opened.admit(Frame(0.1, 1, {"a": math.nan, "b": "x"}), 0.1)
    assert "a is nan" in (fault or "")


VALUES = st.one_of(st.floats(), st.none(), st.booleans(), st.text(max_size=3))


@given(st.dictionaries(st.sampled_from(NEEDS), VALUES), st.floats(), st.floats())
def test_no_content_makes_it_raise_or_pass_a_number_that_is_none(
    changes: dict[str, Any], time_s: float, now_s: float
) -> None:
    candidate = Frame(time_s, 0, GOOD | changes)
    if gate().admit(candidate, now_s) is None:
        assert 0 <= candidate.values["speed"] <= 300
        assert math.isfinite(time_s)
        assert math.isfinite(now_s)


class GateMachine(RuleBasedStateMachine):
    """Whatever comes in whatever order: what passes is newer, fresh and complete."""

    @initialize()
    def begin(self) -> None:
        self.gate = gate()
        self.passed: list[Frame] = []
        self.seen: list[Frame] = []
        self.now_s = 0.0

    @rule(
        step_s=st.floats(-0.2, 1.0),
        sequence=st.integers(-1, 3),
        passed_s=st.floats(-0.1, 1.0),
        speed=st.sampled_from([10.0, math.nan, -1.0, 301.0, "absent"]),
        age=st.sampled_from([0.0, 0.4, 0.6, math.nan]),
    )
    def offer(
        self, step_s: float, sequence: int, passed_s: float, speed: Any, age: float
    ) -> None:
        last = self.seen[-1] if self.seen else frame()
        time_s, sequence = last.time_s + step_s, last.sequence + sequence
        before_s, self.now_s = self.now_s, self.now_s + passed_s
        candidate = frame(time_s, sequence, speed=speed, snapshot_age=age)
        if self.gate.admit(candidate, self.now_s) is None:
            assert not self.seen or self.now_s >= before_s
            assert candidate.values["speed"] == 10.0
            assert age <= 0.5
            assert all(f.sequence < sequence for f in self.passed)
            assert all(f.time_s < time_s for f in self.passed)
            self.passed.append(candidate)
        self.seen.append(candidate)

    @rule()
    def again(self) -> None:
        if self.seen:
            last = self.seen[-1]
            if last in self.passed:
                assert self.gate.admit(last, self.now_s) is not None


GateMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=20)
TestGateMachine = GateMachine.TestCase


def test_the_age_of_a_colour_is_no_age_of_an_input() -> None:
    opened = Gate((*NEEDS, "traffic_light_age"), Limits(0.5), DRIVING)
    assert opened.admit(frame(traffic_light_age=20.0), 0.0) is None
    assert opened.admit(frame(0.1, 1, traffic_light_age=None), 0.1) is None
