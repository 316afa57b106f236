"""The guard proceeds only on proof; whatever fails inside, no frame passes by it."""

import gc
import math
import os
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.errors import InvalidModel
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.model import Counts, Model, smoothed_chain
from forewarn.monitors.guarding.decision import RANK, Action, Decision, Risk
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import STAGES, Policy, Step
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.guarding.watch import load_watch
from forewarn.monitors.risk.calibration import Calibration

LAW = "always (stop_line_distance < 5 -> eventually[0, 0.3 s] speed < 1)"
SPEEDING = "always speed <= 60"
PREDICATES = ("stop_line_distance < 5", "speed < 1", "speed <= 60", "braking")
PROVIDES = ("speed", "stop_line_distance", "braking", "snapshot_age")

# far, then near and braking (mostly stops), or near and not braking (mostly does not)
STATES = {"far": "0010", "braking": "1011", "rolling": "1010", "stopped": "1111"}
SEEN = {
    "far": {"far": 80, "braking": 15, "rolling": 5},
    "braking": {"braking": 10, "stopped": 30},
    "rolling": {"rolling": 35, "braking": 5},
    "stopped": {"stopped": 40, "far": 10},
}


def model() -> Model:
    names = list(STATES)
    rows = [
        {names.index(after): n for after, n in SEEN[name].items()} for name in names
    ]
    counts = Counts.from_rows(rows)
    chain, _ = smoothed_chain(list(STATES.values()), counts, Fraction(0))
    abstraction = from_expressions(PREDICATES, load_vocabulary("driving"), name="line")
    return Model(
        chain,
        counts=counts,
        alpha=Fraction(0),
        abstraction=abstraction.as_dict(),
        period_s=0.1,
        laws=(LAW, SPEEDING),
    )


class Clock:
    """Simulated time: what the test says it is."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def guarded(clock: Callable[[], float] | None = None, **changes: Any) -> Guard:
    settings: dict[str, Any] = {"hold_s": 0.3} | changes
    policy = Policy(**settings)
    watch = load_watch(model(), horizon_s=policy.horizon_s, provides=PROVIDES)
    return Guard(watch, policy, provides=PROVIDES, clock=clock or Clock())


def frame(step: int, state: str, **changes: Any) -> Frame:
    near, stands, _, brakes = (letter == "1" for letter in STATES[state])
    values: dict[str, Any] = {
        "stop_line_distance": 3.0 if near else 50.0,
        "speed": 0.0 if stands else 40.0,
        "braking": brakes,
        "snapshot_age": 0.0,
    }
    return Frame(round(step * 0.1, 3), step, values | changes)


def drive(guard: Guard, *states: str, start: int = 0) -> list[Decision]:
    return [guard.review(frame(start + i, s)) for i, s in enumerate(states)]


def test_low_risk_proceeds_and_high_risk_does_not() -> None:
    far, rolling = drive(guarded(), "far", "rolling")
    assert rolling.law == LAW
    assert rolling.risk is not None and far.risk is not None
    assert rolling.risk.point > 0.8 > far.risk.point
    assert rolling.kind == "stop"
    assert rolling.risk.low <= rolling.risk.point <= rolling.risk.high
    assert "stop_line_distance < 5" in rolling.evidence
    assert rolling.left_s == pytest.approx(0.3)
    assert "the risk of breaking" in rolling.reason


def test_a_calibration_corrects_the_risk_and_its_bounds() -> None:
    curve = Calibration(((0.5, 0.1), (0.9, 0.3)))
    # The same watch: a policy takes out what another put in.
    said = drive(plain := guarded(), "far", "rolling")
    meant = drive(
        Guard(plain.watch, replace(plain.policy, calibration={LAW: curve}),
              provides=PROVIDES, clock=Clock()),
        "far", "rolling",
    )  # fmt: skip
    for before, after in zip(said, meant, strict=True):
        assert before.risk is not None and after.risk is not None
        low, point, high = curve(np.array(before.risk[:3])).tolist()
        assert after.risk.point == pytest.approx(point)
        # The curve may be off itself: no bound is drawn in by it.
        assert after.risk.low == pytest.approx(min(low, before.risk.low))
        assert after.risk.high == pytest.approx(max(high, before.risk.high))
    assert drive(Guard(plain.watch, plain.policy, provides=PROVIDES, clock=Clock()),
                 "far", "rolling") == said  # fmt: skip


def test_the_decision_of_a_calm_frame_is_proceed() -> None:
    calm = guarded(rules=Policy().rules, horizon_s=0.2)
    (stopped,) = drive(calm, "stopped")
    assert stopped.kind == "proceed"
    assert stopped.reason == ""


def test_violated_law_is_reported_and_armed_again() -> None:
    decisions = drive(guarded(), *["rolling"] * 5)
    assert [d.violated for d in decisions] == [(), (), (), (LAW,), ()]
    assert decisions[3].risk == Risk(1.0, 1.0, 1.0)
    assert decisions[3].kind == "stop"


def test_after_a_violation_the_policy_may_stop_whatever_the_risk() -> None:
    calm = {"*": (Step("alert", 1.0),)}
    go_on = guarded(rules=calm, hold_s=0.0)
    stop = guarded(rules=calm, hold_s=0.0, after_violation="stop")
    assert drive(go_on, *["rolling"] * 4)[3].kind == "alert"
    assert drive(stop, *["rolling"] * 4)[3].kind == "stop"


def test_an_intervention_is_held_until_the_risk_has_stayed_low() -> None:
    guard = guarded(horizon_s=0.2)
    kinds = [d.kind for d in drive(guard, "rolling", *["stopped"] * 6)]
    assert kinds == ["stop", "stop", "stop", "stop", "proceed", "proceed", "proceed"]


def test_reset_releases_held_interventions() -> None:
    guard = guarded(horizon_s=0.2)
    drive(guard, "rolling")
    guard.reset()
    assert drive(guard, "stopped")[0].kind == "proceed"


@pytest.mark.parametrize(
    ("unknown", "kind"),
    [("widen", "stop"), ("stop", "stop"), ("continue-with-warning", "stop")],
)
def test_a_state_never_seen_takes_the_worst_of_its_nearest(
    unknown: str, kind: str
) -> None:
    # near, fast beyond the limit, not braking: one predicate from `rolling`.
    guard = guarded(
        unknown_state=unknown,
        rules={LAW: Policy().rules["*"], "*": (Step("alert", 1.0),)},
    )
    decision = guard.review(frame(0, "rolling", speed=80.0))
    assert decision.kind == kind
    assert guard.watch.unknown_seen == 1
    assert any("never seen in training" in note for note in decision.notes)
    known = guarded().review(frame(0, "rolling"))
    law = next(law for law in guard.watch.laws if law.name == LAW)
    assert known.risk is not None
    assert law.point == known.risk.point


def test_unknown_state_stops_if_the_policy_says_so() -> None:
    unseen = {"speed": 80.0}
    calm = {"*": (Step("alert", 1.0),)}
    stop = guarded(rules=calm, unknown_state="stop")
    widen = guarded(rules=calm)
    warn = guarded(rules=calm, unknown_state="continue-with-warning")
    assert stop.review(frame(0, "far", **unseen)).kind == "stop"
    assert widen.review(frame(0, "far", **unseen)).kind == "alert"
    warned = warn.review(frame(0, "far", **unseen))
    assert warned.kind == "alert"
    assert any("continuing" in note for note in warned.notes)


@pytest.mark.parametrize(
    "bad",
    [
        frame(0, "far", speed=math.nan),
        frame(0, "far", speed=None),
        Frame(0.0, 0, {}),
        Frame(0.0, 0, {"speed": "x"}),
        Frame(math.nan, 0, frame(0, "far").values),
        Frame(0.0, 0, None),  # type: ignore[arg-type]
    ],
)
def test_a_faulty_frame_gets_the_fallback_with_the_reason(bad: Frame) -> None:
    for fallback in ("stop", "cut"):
        decision = guarded(fallback=fallback).review(bad)
        assert decision.kind == fallback
        assert "cannot judge this frame" in decision.reason


def test_after_a_fault_the_fallback_is_held_too() -> None:
    guard = guarded(horizon_s=0.2)
    drive(guard, "stopped")
    guard.review(frame(1, "stopped", speed=math.nan))
    # The next frame ends a tick that was not seen whole; the one after is calm.
    kinds = [d.kind for d in drive(guard, *["stopped"] * 6, start=2)]
    assert kinds == ["stop", "stop", "stop", "stop", "proceed", "proceed"]


@pytest.mark.parametrize(
    ("reading", "stage"),
    [(1, "gate"), (2, "abstraction"), (3, "monitors"), (4, "policy")],
)
def test_a_stage_that_misses_its_deadline_is_a_fault(reading: int, stage: str) -> None:
    class Slow(Clock):
        readings = 0

        def __call__(self) -> float:
            self.now_s += 0.04 if self.readings == reading else 0.0
            self.readings += 1
            return self.now_s

    limits = dict.fromkeys(STAGES, 0.03)
    decision = guarded(Slow(), deadline_s=limits).review(frame(0, "stopped"))
    assert decision.kind == "stop"
    assert f"{stage} took longer than 0.03 s" in decision.reason
    calm = guarded(Slow(), deadline_s=dict.fromkeys(STAGES, 0.04), horizon_s=0.2)
    assert calm.review(frame(0, "stopped")).kind == "proceed"


def test_an_observer_that_fails_turns_the_decision_into_the_fallback() -> None:
    class Full(Listener):
        def reviewed(self, *_: object) -> None:
            raise OSError("disk full")

    guard = guarded(horizon_s=0.2)
    guard.reset([Full()])
    decision = guard.review(frame(0, "stopped"))
    assert decision.kind == "stop"
    assert "disk full" in decision.reason


def test_time_passes_for_the_laws_when_frames_are_lost() -> None:
    guard = guarded()
    guard.review(frame(0, "rolling"))
    late = guard.review(frame(4, "rolling"))
    assert LAW in guard.watch.not_applicable or late.kind == "stop"
    other = guarded()
    for step in range(4):
        lasting = other.review(frame(step, "rolling"))
    assert lasting.violated == (LAW,)


def test_a_source_without_a_needed_signal_is_refused_at_the_start() -> None:
    watch = load_watch(model(), horizon_s=3.0)
    with pytest.raises(InvalidModel, match="does not provide braking"):
        Guard(watch, Policy(), provides=("speed", "stop_line_distance"))


def test_filter_passes_controls_only_while_the_guard_lets_it() -> None:
    guard = guarded(horizon_s=0.2)
    assert guard.filter("go", frame(0, "stopped"), stop="stop") == "go"
    assert guard.filter("go", frame(1, "rolling"), stop="stop") == "stop"
    shadow = guarded(horizon_s=0.2, shadow=True)
    assert shadow.filter("go", frame(0, "rolling"), stop="stop") == "go"


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_risk_that_is_no_number_never_proceeds(poison: float) -> None:
    for rules in (Policy().rules, {"*": (Step("alert", 1.0),)}):
        guard = guarded(rules=rules, horizon_s=0.2)
        for law in guard.watch.laws:
            law._risks = [[(poison,) * 3] * 99] * 99  # type: ignore[list-item]
        assert guard.review(frame(0, "stopped")).kind != "proceed"


class _Raise:
    """Raises at the k-th call made inside the guard's own modules."""

    def __init__(self, k: int) -> None:
        self.left = k
        self.fired = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        inside = "forewarn" in frame.f_globals.get("__name__", "")
        outer = frame.f_code.co_name in ("review", "_fallback", "reviewed")
        if event == "call" and inside and not outer and not self.fired:
            self.left -= 1
            if self.left < 0:
                self.fired = True
                raise RuntimeError("injected")


def test_an_exception_at_any_inner_call_never_lets_the_frame_pass() -> None:
    fired = 0
    for k in range(200):
        guard = guarded(horizon_s=0.2)
        drive(guard, "stopped")
        injected, second = _Raise(k), frame(1, "stopped")
        sys.setprofile(injected)
        try:
            decision = guard.review(second)
        finally:
            sys.setprofile(None)
        if not injected.fired:
            break
        fired += 1
        assert RANK[decision.kind] >= RANK["stop"], k
        assert "injected" in decision.reason
    assert fired >= 8


def test_raising_a_threshold_never_adds_an_intervention() -> None:
    walk = ["far", "rolling", "rolling", "braking", "stopped", "stopped", "far"]
    strict = drive(guarded(rules={"*": Policy().rules["*"][:1]}), *walk)
    mild = drive(guarded(rules={"*": Policy().rules["*"][2:]}), *walk)
    for one, other in zip(strict, mild, strict=True):
        assert (one.kind == "proceed") <= (other.kind == "proceed")


@pytest.mark.soak
@pytest.mark.parametrize("recorded", [False, True])
def test_a_million_frames_take_no_more_memory_than_the_first(
    recorded: bool,
) -> None:
    clock = Clock()
    guard = guarded(clock)
    states = [*STATES] * 7
    random.Random(0).shuffle(states)
    record = RunRecord(Path(os.devnull), {}) if recorded else None
    if record is not None:
        guard.reset([record])
    blocks = []
    for step in range(1_000_001):
        seen = frame(step, states[step % len(states)])
        if step % 97 == 0:  # known ones, unknown ones, faults
            seen = frame(step, "far", speed=[80.0, math.nan][step % 2])
        clock.now_s = seen.time_s
        guard.review(seen, Action("control", {"acceleration": 0.1 * (step % 10)}))
        if step and step % 200_000 == 0:
            gc.collect()
            blocks.append(sys.getallocatedblocks())
    if record is not None:
        record.close()
    assert guard.watch.unknown_seen > 1000 and len(guard.counts) > 1
    # Counters grow past the small integers; nothing else does.
    assert max(blocks) - blocks[0] < 500, blocks
