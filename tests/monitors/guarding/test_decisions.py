"""Which law a decision names, how long it is held, what it says and what is counted."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.monitors.chains.learning import LiveTally
from forewarn.monitors.guarding.chain import ChainWatch
from forewarn.monitors.guarding.decision import Action, Decision, Risk
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import InvalidPolicy, Policy, Step
from forewarn.monitors.guarding.watch import Watch
from tests.monitors.guarding.test_guard import (
    LAW,
    SPEEDING,
    STATES,
    Clock,
    drive,
    frame,
    guarded,
)

FAR = 0.0763  # its risk of breaking LAW within 0.2 s, at most 0.26


def near(**changes: Any) -> Guard:
    """A guard that looks only 0.2 s ahead and holds for a quarter of a second."""
    return guarded(**{"horizon_s": 0.2, "hold_s": 0.25} | changes)


def only(**steps: float) -> dict[str, tuple[Step, ...]]:
    return {"*": tuple(Step(kind, t) for kind, t in steps.items())}  # type: ignore[arg-type]


def kinds(decisions: list[Decision]) -> list[str]:
    return [decision.kind for decision in decisions]


# -- which law -----------------------------------------------------------------------


def test_the_law_at_the_highest_risk_is_named_while_all_is_calm() -> None:
    (far,) = drive(near(), "far")
    assert (far.kind, far.law) == ("proceed", LAW)
    assert far.risk is not None and far.risk.point == pytest.approx(FAR, abs=1e-4)
    assert far.evidence == ()


def test_of_laws_at_equal_risk_the_first_is_named() -> None:
    guard = near()
    for law in guard.watch.laws:
        law._risks = [[(0.1, 0.1, 0.1, 0.1, None)] * 9] * 9
    assert guard.review(frame(0, "far")).law == LAW


@pytest.mark.parametrize("severer", [LAW, SPEEDING])
def test_the_law_that_calls_for_the_severest_comes_before_one_at_higher_risk(
    severer: str,
) -> None:
    rules = {"*": (Step("alert", 0.0),), severer: (Step("stop", 0.0),)}
    (decision,) = drive(near(rules=rules), "rolling")
    assert (decision.kind, decision.law) == ("stop", severer)


def test_a_guard_without_applicable_law_stops() -> None:
    of, policy = near().watch, near().policy
    watch = Watch(
        [ChainWatch(of.parts[0].model, of.parts[0].abstraction, (), of.period_s)]
    )
    guard = Guard(watch, policy, clock=Clock())
    decision = guard.review(frame(0, "far"))
    assert (decision.kind, decision.law, decision.risk) == ("stop", "", None)
    assert decision.reason == "no law is applicable"
    ahead = Guard(guard.watch, Policy(when="before"), clock=Clock())
    vetoed = ahead.review(frame(0, "far"), Action("go"), frame(1, "far"))
    assert (vetoed.kind, vetoed.reason) == ("stop", "no law is applicable")


def test_the_upper_bound_may_be_judged_instead_of_the_point() -> None:
    for judge_by, kind in (("point", "proceed"), ("upper", "stop")):
        (far,) = drive(near(rules=only(stop=0.2), judge_by=judge_by), "far")
        assert far.kind == kind
    # So may it be for calm: 0.26 is within the margin of 0.28, 0.08 is not.
    for judge_by, last in (("point", "proceed"), ("upper", "stop")):
        guard = near(rules=only(stop=0.28), judge_by=judge_by)
        assert drive(guard, "rolling", "stopped", *["far"] * 6)[-1].kind == last


def test_a_broken_law_is_the_reason() -> None:
    guard = guarded(rules={"*": ()}, after_violation="stop")
    broken = drive(guard, *["rolling"] * 4)[3]
    assert (broken.kind, broken.law, broken.violated) == ("stop", LAW, (LAW,))
    assert broken.reason == f"{LAW} was broken"


# -- held ----------------------------------------------------------------------------


def test_held_decision_says_so_and_new_decision_gives_its_reason() -> None:
    first, again, held = drive(near(), "rolling", "rolling", "stopped")
    assert (
        "the risk of breaking" in first.reason
        and "the risk of breaking" in again.reason
    )
    assert held.reason == "stop is held until the risk has stayed low for 0.25 s"
    assert held.kind == "stop"


def test_calm_begins_anew_after_each_call() -> None:
    walk = ["rolling", "stopped", "stopped", "rolling", *["stopped"] * 5]
    assert kinds(drive(near(), *walk)) == ["stop"] * 7 + ["proceed"] * 2


def test_calm_begins_anew_after_a_fault() -> None:
    guard = near()
    drive(guard, "rolling", "stopped", "stopped")
    guard.review(frame(3, "stopped", speed=-1.0))
    # A frame was lost, and with it the next: then calm begins.
    after = drive(guard, *["stopped"] * 6, start=4)
    assert kinds(after) == ["stop"] * 4 + ["proceed"] * 2


def test_calm_begins_anew_in_a_new_episode() -> None:
    guard = near()
    drive(guard, "rolling", "stopped", "stopped")
    guard.reset()
    after = drive(guard, "rolling", *["stopped"] * 5, start=3)
    assert kinds(after) == ["stop"] * 4 + ["proceed"] * 2


def test_just_below_a_threshold_is_not_calm() -> None:
    walk = ["rolling", "stopped", *["far"] * 6, *["stopped"] * 5]
    margin = near(rules=only(stop=FAR + 0.02))
    assert kinds(drive(margin, *walk)) == ["stop"] * 11 + ["proceed"] * 2
    none = near(rules=only(stop=FAR + 0.02), hysteresis=0.0)
    assert kinds(drive(none, *walk)) == ["stop"] * 4 + ["proceed"] * 9
    # Calm that was interrupted does not count.
    walk = ["rolling", "stopped", "stopped", "far", *["stopped"] * 5]
    margin = near(rules=only(stop=FAR + 0.02))
    assert kinds(drive(margin, *walk)) == ["stop"] * 7 + ["proceed"] * 2


def test_a_milder_intervention_does_not_prolong_a_severer_one() -> None:
    guard = near(rules=only(alert=0.0, stop=0.8))
    walk = ["rolling", *["stopped"] * 5]
    assert kinds(drive(guard, *walk)) == ["stop"] * 4 + ["alert"] * 2


def test_a_milder_intervention_outlasts_a_severer_one() -> None:
    """What was called for under a stop is not forgotten when the stop is released."""
    guard = near(rules=only(slow=FAR - 0.02, stop=0.8), slow_cap_kmh=12.5)
    after = drive(guard, "rolling", "stopped", "far", *["stopped"] * 4)
    assert kinds(after) == ["stop"] * 4 + ["slow"] * 2 + ["proceed"]
    assert after[4].reason == "slow is held until the risk has stayed low for 0.25 s"
    assert after[4].cap_kmh == 12.5


def test_slow_comes_with_its_cap_for_as_long_as_it_is_held() -> None:
    guard = near(rules=only(slow=0.5), slow_cap_kmh=12.5)
    slow, held, *_, free = drive(guard, "rolling", *["stopped"] * 5)
    assert (slow.kind, slow.cap_kmh) == ("slow", 12.5)
    assert (held.kind, held.cap_kmh) == ("slow", 12.5)
    assert (free.kind, free.cap_kmh) == ("proceed", None)
    (stop,) = drive(near(rules=only(stop=0.5)), "rolling")
    assert stop.cap_kmh is None


def test_between_two_ticks_the_last_decision_stands() -> None:
    guard = near()
    drive(guard, "rolling")
    between = guard.review(Frame(0.04, 1, frame(0, "stopped").values))
    assert (between.kind, between.sequence, between.time_s) == ("stop", 1, 0.04)
    assert "the risk of breaking" in between.reason
    guard = guarded(after_violation="stop", rules={"*": ()})
    *_, broken = drive(guard, *["rolling"] * 4)
    later = guard.review(Frame(0.34, 9, frame(0, "rolling").values))
    assert (broken.violated, later.violated, later.kind) == ((LAW,), (), "stop")


# -- notes, counts, observers --------------------------------------------------------


def test_shadow_decisions_carry_a_note() -> None:
    said = "shadow: nothing is enforced"
    assert all(said in d.notes for d in drive(near(shadow=True), "far", "rolling"))
    assert all(said not in d.notes for d in drive(near(), "far", "rolling"))
    faulty = near(shadow=True).review(frame(0, "far", speed=None))
    assert faulty.notes == (said,)


def test_only_an_unknown_state_is_warned_of() -> None:
    warn = near(unknown_state="continue-with-warning")
    assert drive(warn, "far")[0].notes == ()
    unseen = near().review(frame(0, "far", speed=80.0))
    assert len(unseen.notes) == 1


def test_a_filter_lets_alerts_pass_and_nothing_severer() -> None:
    def filtered(**changes: Any) -> Any:
        return near(**changes).filter("go", frame(0, "rolling"), stop="halt")

    assert filtered(rules=only(alert=0.0)) == "go"
    assert filtered(rules=only(reflect=0.0)) == "halt"
    assert filtered(rules=only(reflect=0.0), shadow=True) == "go"
    assert near().filter("go", frame(0, "far")) == "go"
    assert near().filter("go", frame(0, "rolling")) is None


def test_a_summary_counts_the_decisions() -> None:
    guard = near(hold_s=0.0)
    drive(guard, "far", "rolling", "rolling")
    guard.review(frame(3, "far", speed=80.0))
    assert guard.summary() == {
        "decisions": {"proceed": 1, "stop": 3},
        "laws": [LAW, SPEEDING],
        "without_rule": [],
        "unknown_states": 1,
        "shadow": False,
    }


def test_a_law_without_a_rule_is_named_and_never_acted_on() -> None:
    guard = near(rules={SPEEDING: (Step("stop", 0.8),)})
    assert guard.without_rule == (LAW,)
    assert guard.summary()["without_rule"] == [LAW]
    drive(guard, "far", "rolling")
    assert guard.counts == {"proceed": 2}


def test_a_policy_that_rules_none_of_the_laws_makes_no_guard() -> None:
    with pytest.raises(InvalidPolicy, match="has rules only for 51_5, but the"):
        near(rules={"51_5": (Step("stop", 0.8),)})


def test_observers_hear_what_the_clock_said_and_nothing_of_other_reviews() -> None:
    heard: list[tuple[Any, ...]] = []

    class Ear(Listener):
        def reviewed(self, *said: Any) -> None:
            heard.append(said)

    ticks = iter(range(100))
    guard = guarded(lambda: next(ticks) / 1000, horizon_s=0.2)
    guard.reset([Ear()])
    proposal = Action("go")
    seen = [frame(0, "far"), frame(1, "far", speed=None), frame(2, "far")]
    decisions = [guard.review(each, proposal) for each in seen]
    assert [said[:3] for said in heard] == [
        (each, proposal, decision)
        for each, decision in zip(seen, decisions, strict=True)
    ]
    assert [said[3] for said in heard] == [
        (0.0, 0.001, 0.002, 0.003, 0.004), (0.005,), (0.006, 0.007, 0.008, 0.009, 0.01),
    ]  # fmt: skip


def test_an_old_input_is_a_fault_where_the_source_says_how_old_it_is() -> None:
    decision = near().review(frame(0, "far", snapshot_age=0.6))
    assert "snapshot is 0.6 s old" in decision.reason


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({"rules": only(alert=0.0)}, 2),
        ({"rules": only(slow=0.0)}, 0),
        ({"rules": only(slow=0.0), "shadow": True}, 2),
    ],
)
def test_frames_after_an_intervention_are_not_tallied(
    changes: dict[str, Any], counted: int
) -> None:
    guard = near(**changes)
    part, tally = guard.watch.parts[0], LiveTally()
    part.tally = tally
    drive(guard, "far", "far", "far")
    seen = tally.take(part.abstraction.state_name, False).seen
    assert sum(sum(row.values()) for row in seen.values()) == counted


def test_a_decision_says_everything_and_leaves_out_what_is_empty() -> None:
    whole = Decision(
        "substitute", 3, 0.3, "a law", Risk(0.1, 0.2, 0.3), "so", ("a",), 1.5, 15.0,
        Action("wait", {"s": 1}), ("a law",), ("n",), Risk(0.0, 0.1, 0.2),
    )  # fmt: skip
    assert whole.as_dict() == {
        "decision": "substitute",
        "sequence": 3,
        "time_s": 0.3,
        "law": "a law",
        "risk": {"low": 0.1, "point": 0.2, "high": 0.3},
        "reason": "so",
        "left_s": 1.5,
        "cap_kmh": 15.0,
        "action": {"name": "wait", "arguments": {"s": 1}},
        "now": {"low": 0.0, "point": 0.1, "high": 0.2},
        "evidence": ["a"],
        "violated": ["a law"],
        "notes": ["n"],
    }
    assert list(Decision("proceed", 0, 0.0).as_dict()) == [
        "decision", "sequence", "time_s", "law", "risk", "reason", "left_s", "cap_kmh",
    ]  # fmt: skip


def test_the_test_scene_has_the_assumed_states() -> None:
    assert list(STATES) == ["far", "braking", "rolling", "stopped"]
    assert Policy().hysteresis == 0.05
