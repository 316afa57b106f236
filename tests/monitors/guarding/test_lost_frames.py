"""A frame is taken in whole by all laws, or known to be lost; then nothing passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.chain import LawWatch
from forewarn.monitors.guarding.decision import Decision
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import STAGES, Policy, Step
from forewarn.monitors.guarding.watch import load_watch
from tests.monitors.guarding.test_guard import (
    LAW,
    PROVIDES,
    SPEEDING,
    Clock,
    drive,
    frame,
    guarded,
    model,
)

LOST = "a frame was lost, so it is not known yet which obligations are pending"
SPEEDS = {"speed": 80.0}
"""Breaks the law SPEEDING."""


def mild(**changes: Any) -> Guard:
    """A guard that acts on no risk and holds nothing: what stops it is a fault."""
    settings: dict[str, Any] = {"rules": {"*": (Step("alert", 1.0),)}, "hold_s": 0.0}
    return guarded(**settings | changes)


def kinds(decisions: list[Decision]) -> list[str]:
    return [decision.kind for decision in decisions]


class Pausing(Clock):
    """A clock that leaps while one stage runs."""

    def __init__(self, reading: int) -> None:
        super().__init__()
        self.left = reading

    def __call__(self) -> float:
        self.left -= 1
        self.now_s += 0.03 if self.left == -1 else 0.0
        return self.now_s


@pytest.mark.parametrize("stage", range(len(STAGES)))
def test_a_late_stage_loses_no_violation(stage: int) -> None:
    guard = mild(clock=Pausing(stage + 1))
    decision = guard.review(frame(0, "far", **SPEEDS))
    assert decision.kind == "stop"
    assert f"{STAGES[stage]} took longer than" in decision.reason
    assert decision.violated == (SPEEDING,)


@pytest.mark.parametrize("stage", range(len(STAGES)))
def test_a_late_stage_keeps_the_laws_time(stage: int) -> None:
    def violations(clock: Clock) -> list[tuple[str, ...]]:
        return [d.violated for d in drive(mild(clock=clock), *["rolling"] * 5)]

    late = Pausing(5 + stage + 1)  # in the second review
    assert violations(late) == violations(Clock()) == [(), (), (), (LAW,), ()]


def test_a_late_frame_still_reveals_a_violation() -> None:
    clock = Clock()
    guard = mild(clock=clock)
    drive(guard, "far")
    clock.now_s = 5.0
    late = guard.review(frame(1, "far", **SPEEDS))
    assert (late.kind, late.violated) == ("stop", (SPEEDING,))
    assert "the frame is 4.9 s old" in late.reason


@pytest.mark.parametrize(
    ("lost", "proposal"),
    [
        (frame(1, "rolling", speed=math.nan), None),
        (frame(1, "rolling", snapshot_age=9.0), None),
        (replace(frame(1, "rolling"), sequence=0), None),
        (None, None),
        (frame(1, "rolling"), "not an action"),
    ],
)
def test_after_a_lost_frame_nothing_passes_until_the_laws_are_settled(
    lost: Any, proposal: Any
) -> None:
    guard = mild()
    assert drive(guard, "far")[0].kind == "proceed"
    assert "cannot judge" in guard.review(lost, proposal).reason
    # What was owed could be anything, until so much time has passed that nothing is.
    after = drive(guard, *["far"] * 6, start=2)
    assert kinds(after) == ["stop"] * 4 + ["proceed"] * 2
    assert [LOST in decision.notes for decision in after] == [True] * 4 + [False] * 2
    assert all("was lost" in decision.reason for decision in after[:4])
    assert after[0].risk is None


def test_no_frame_passes_after_a_leap_in_time() -> None:
    guard = mild()
    drive(guard, "far")
    assert "98.9 s ahead" not in guard.review(frame(1, "far")).reason
    leapt = guard.review(replace(frame(2, "far"), time_s=99.0))
    assert "98.9 s ahead of the guard's clock" in leapt.reason
    assert kinds(drive(guard, *["stopped"] * 5, start=3)) == ["stop"] * 5


def test_met_obligation_settles_a_law_at_once() -> None:
    guard = mild()
    drive(guard, "far")
    guard.review(frame(1, "far", speed=math.nan))
    # The first tick after it may have begun before: it is lost with it.
    assert kinds(drive(guard, "stopped", "stopped", start=2)) == ["stop", "proceed"]


def test_certain_violation_is_reported_despite_lost_frames() -> None:
    guard = mild()
    drive(guard, "far")
    guard.review(frame(1, "far", speed=math.nan))
    assert guard.review(frame(2, "far", **SPEEDS)).violated == (SPEEDING,)
    assert guard.review(frame(3, "far", **SPEEDS)).violated == (SPEEDING,)


def test_an_invalid_first_frame_does_not_count_as_lost() -> None:
    guard = mild()
    assert guard.review(frame(0, "far", speed=math.nan)).kind == "stop"
    assert drive(guard, "far", start=1)[0].kind == "proceed"
    assert not guard.watch.lost


def test_a_tick_with_a_lost_frame_is_lost() -> None:
    learned = replace(model(), period_s=0.3)
    policy = Policy(rules={"*": (Step("alert", 1.0),)}, hold_s=0.0)
    watch = load_watch(learned, horizon_s=3.0, provides=PROVIDES)
    guard = Guard(watch, policy, provides=PROVIDES, clock=Clock())
    drive(guard, "far")
    guard.review(frame(1, "rolling", speed=math.nan))
    # Frames 2 and 3 are of the tick that the lost one was of too.
    assert kinds(drive(guard, *["far"] * 2, start=2)) == ["stop"] * 2
    assert guard.watch.lost


class _Fails:
    """Raises at the k-th call of something, once."""

    def __init__(self, call: Callable[..., Any], k: int, error: BaseException) -> None:
        self.call, self.left, self.error = call, k, error

    def __call__(self, *given: Any) -> Any:
        self.left -= 1
        if self.left == -1:
            raise self.error
        return self.call(*given)


@pytest.mark.parametrize("law", [0, 1])
def test_where_one_law_fails_the_guard_believes_itself_no_more(
    law: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = mild()
    drive(guard, "far")
    failing = _Fails(LawWatch.read, law, RuntimeError("here"))
    monkeypatch.setattr(LawWatch, "read", lambda *given: failing(*given))
    assert "RuntimeError: here" in guard.review(frame(1, "rolling")).reason
    monkeypatch.undo()
    after = drive(guard, *["stopped"] * 6, start=2)
    assert kinds(after) == ["stop"] * 6
    assert all("was broken off" in decision.reason for decision in after)


def test_after_an_interrupt_nothing_passes_until_a_new_episode() -> None:
    guard = mild()
    drive(guard, "far")
    guard.watch.abstracted = _Fails(  # type: ignore[method-assign, assignment]
        guard.watch.abstracted, 0, KeyboardInterrupt()
    )
    with pytest.raises(KeyboardInterrupt):
        guard.review(frame(1, "far"))
    after = drive(guard, *["stopped"] * 3, start=2)
    assert kinds(after) == ["stop"] * 3
    assert all("was broken off" in decision.reason for decision in after)
    guard.reset()
    assert kinds(drive(guard, "far")) == ["proceed"]


def test_an_outdated_decision_stops() -> None:
    learned = replace(model(), period_s=1.0)
    policy = Policy(rules={"*": (Step("alert", 1.0),)}, hold_s=0.0, max_age_s=0.5)
    watch = load_watch(learned, horizon_s=3.0, provides=PROVIDES)
    guard = Guard(watch, policy, provides=PROVIDES, clock=Clock())
    said = drive(guard, *["stopped"] * 11)
    assert kinds(said) == ["proceed"] * 6 + ["stop"] * 4 + ["proceed"]
    assert "0.6 s old: its states are 1 s apart" in said[6].reason


# -- whatever comes --------------------------------------------------------------------


class Boom:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("boom")

    def __repr__(self) -> str:
        raise RuntimeError("boom")


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("it cannot be said")


GOOD = frame(0, "stopped").values
ODD: list[Any] = [
    None, {}, 3, "frame", Boom(), Frame(0.0, 0, None), Frame(0.0, 0, [1]),  # type: ignore[arg-type]
    Frame(None, 0, GOOD), Frame(0.0, None, GOOD), Frame(0.0, math.nan, GOOD),  # type: ignore[arg-type]
    Frame(Boom(), 0, GOOD), Frame(0.0, Boom(), GOOD), Frame(0.0, 0, Boom()),  # type: ignore[arg-type]
    Frame(0.0, 0, {**GOOD, "speed": Boom()}), Frame(10**400, 0, GOOD),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_frames_stop_and_never_raise(number: int) -> None:
    for guard in (mild(), guarded()):
        assert guard.review(ODD[number]).kind == "stop"
        drive(guard, "stopped")
        assert guard.review(ODD[number]).kind == "stop"


@pytest.mark.parametrize(
    "error", [Mute(), MemoryError(), RecursionError(), StopIteration()]
)
@pytest.mark.parametrize("where", ["admit", "stale", "advance", "notes", "observer"])
def test_no_error_raises_or_passes(where: str, error: Exception) -> None:
    guard = mild()
    drive(guard, "far")

    def fail(*_: object) -> None:
        raise error

    class Observer(Listener):
        reviewed = staticmethod(fail)

    if where == "observer":
        guard.reset([Observer()])
    else:
        part = guard._gate if where in ("admit", "stale") else guard.watch
        setattr(part, where, fail)
    decision = guard.review(frame(1, "far"))
    assert decision.kind == "stop"
    assert type(error).__name__ in decision.reason


def test_a_risk_that_is_no_number_is_more_than_an_alert() -> None:
    rules = {"*": Policy().rules["*"][:1]}
    guard = guarded(rules=rules, horizon_s=0.2)
    for law in guard.watch.laws:
        law._risks = [[(math.nan,) * 3] * 99] * 99  # type: ignore[list-item]
    assert guard.review(frame(0, "stopped")).kind == "stop"
