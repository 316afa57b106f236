"""Judging an action before it is done: on the state that it would lead to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.guarding.decision import RANK, Action
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import Step
from tests.monitors.guarding.test_guard import STATES, drive, frame, guarded

GO = Action("go")

walks = st.lists(st.sampled_from(list(STATES)), min_size=1, max_size=12)


def before(when: str = "before", **changes: Any) -> Guard:
    settings: dict[str, Any] = {"rules": {"*": (Step("stop", 0.8),)}, "horizon_s": 0.2}
    return guarded(when=when, **settings | changes)


def test_the_predicted_state_is_judged() -> None:
    guard = before()
    assert guard.review(frame(0, "far"), GO, frame(1, "far")).kind == "proceed"
    veto = guard.review(frame(1, "far"), GO, frame(2, "rolling"))
    _, observed = drive(guarded(), "far", "rolling")
    assert (veto.kind, veto.law) == ("stop", observed.law)
    assert veto.risk is not None and veto.now is not None
    assert veto.now.point < 0.1 < 0.8 < veto.risk.point
    assert "after the proposed action" in veto.reason
    assert "stop_line_distance < 5" in veto.evidence
    assert veto.as_dict()["now"] == veto.now.as_dict()


def test_a_risky_substitute_is_forbidden() -> None:
    guard = before()
    assert guard.review(frame(0, "far"), GO, frame(1, "far")).kind == "proceed"
    assert guard.forbids(frame(1, "far")) == ""
    assert "after the substitute" in guard.forbids(frame(1, "rolling"))
    assert "the substitute would break" in guard.forbids(frame(1, "far", speed=80.0))
    assert "there is no prediction" in guard.forbids(None)
    assert "speed" in guard.forbids(frame(1, "far", speed=None))
    # Asking changes nothing.
    assert guard.review(frame(1, "far"), GO, frame(2, "far")).kind == "proceed"


def test_decision_says_that_the_action_would_break_a_law() -> None:
    veto = before().review(frame(0, "far"), GO, frame(1, "far", speed=80.0))
    assert veto.kind == "stop"
    assert veto.reason == "the proposed action would break always speed <= 60"
    assert veto.violated == ()


def test_a_veto_is_not_held_against_another_action() -> None:
    guard = before(hold_s=10.0)
    assert guard.review(frame(0, "far"), GO, frame(1, "rolling")).kind == "stop"
    assert guard.review(frame(1, "far"), GO, frame(2, "far")).kind == "proceed"


def test_observed_state_is_judged_after_and_not_before() -> None:
    away = frame(1, "stopped")
    assert before().review(frame(0, "rolling"), GO, away).kind == "proceed"
    assert before("both").review(frame(0, "rolling"), GO, away).kind == "stop"
    # Without an action there is nothing to come but what is there.
    assert before().review(frame(0, "rolling")).kind == "stop"


@pytest.mark.parametrize("when", ["before", "both"])
def test_action_without_foresight_does_not_pass(when: str) -> None:
    blind = before(when).review(frame(0, "far"), GO)
    assert (blind.kind, blind.law) == ("stop", "")
    assert "there is no prediction" in blind.reason
    broken = before(when).review(frame(0, "far"), GO, frame(1, "far", speed=None))
    assert broken.kind != "proceed"
    lacking = frame(1, "far")
    values = {k: v for k, v in lacking.values.items() if k != "speed"}
    faulty = type(lacking)(lacking.time_s, lacking.sequence, values)
    judged = before(when).review(frame(0, "far"), GO, faulty)
    assert judged.kind == "stop" and "speed is missing" in judged.reason


def test_a_broken_law_and_an_unknown_state_stop_before_an_action_too() -> None:
    far = frame(2, "far")
    guard = before(after_violation="stop")
    assert guard.review(frame(0, "far", speed=80.0), GO, far).kind == "stop"
    unseen = {"stop_line_distance": 50.0, "speed": 0.5, "braking": True}
    guard = before(unknown_state="stop")
    assert guard.review(frame(0, "far"), GO, frame(1, "far", **unseen)).kind == "stop"
    assert guard.review(frame(1, "far", **unseen), GO, far).kind == "stop"


@given(walks, st.sampled_from(list(STATES)))
def test_foreseeing_leaves_the_guard_as_it_was(walk: list[str], ahead: str) -> None:
    plain, seeing = before("after"), before("both")
    for step, state in enumerate(walk):
        one = plain.review(frame(step, state), GO)
        other = seeing.review(frame(step, state), GO, frame(step + 1, ahead))
        assert RANK[other.kind] >= RANK[one.kind]
        assert other.violated == one.violated
        assert [law.state for law in seeing.watch.laws] == [
            law.state for law in plain.watch.laws
        ]
        assert seeing.watch.unknown_seen == plain.watch.unknown_seen


@given(walks)
def test_foreseen_frame_equals_observed_frame(walk: list[str]) -> None:
    """The risk of the next frame, told one frame ahead, is the same number."""
    seeing, plain = (
        before(rules={"*": (Step("alert", 1.0),)}),
        before("after", rules={"*": (Step("alert", 1.0),)}),
    )
    told = None
    for step, state in enumerate(walk):
        seen = plain.review(frame(step, state))
        if told is not None and not seen.violated:
            assert told.risk == seen.risk
        following = walk[min(step + 1, len(walk) - 1)]
        told = seeing.review(frame(step, state), GO, frame(step + 1, following))


def test_a_slower_monitor_sees_ahead_within_its_tick() -> None:
    guard = before("both")
    guard.review(frame(0, "far"), GO, frame(1, "far"))
    half = frame(1, "far")
    half = type(half)(0.15, 1, half.values)
    risky = frame(2, "rolling")
    assert guard.review(half, GO, type(risky)(0.18, 2, risky.values)).kind == "stop"
