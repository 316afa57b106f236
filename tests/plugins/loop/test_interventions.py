"""Interventions: what is carried out, what escalates, and what the world must show."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import (
    RANK,
    SEVERITY,
    Action,
    Decision,
    Kind,
    Outcome,
    Risk,
)
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.loop.approval import Answer
from forewarn.plugins.loop.interventions import Intervener
from forewarn.plugins.loop.reflection import Prompt, Prompter
from forewarn.plugins.tiny import (
    TinyActuator,
    TinyHousehold,
    TinyHouseholdPilot,
    TinyPilot,
    TinyWorld,
)
from tests.plugins.doubles import Clock, Person, Servant, Told, unwritable_log

FRAME = Frame(0.0, 0, {})
PROPOSAL = Action("go", {"to": "Kitchen"})
OTHER = Action("wait")
STOP = Action("stop")
POLICY = Policy(ack_s=1.0, max_reflections=2)


def decide(kind: Kind, law: str = "no harm", **fields: Any) -> Decision:
    return Decision(kind, 0, 0.0, law, Risk(0.5, 0.6, 0.7), "so it is", **fields)


def intervener(
    actuator: Servant | None = None, policy: Policy = POLICY, **options: Any
) -> Intervener:
    options.setdefault("clock", Clock())
    return Intervener(actuator or Servant(), policy, **options)


# -- one decision --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["proceed", "alert"])
def test_what_may_pass_passes(kind: Kind) -> None:
    executed, outcome = intervener().apply(decide(kind), PROPOSAL, FRAME)
    assert (executed, outcome) == (PROPOSAL, Outcome(kind, kind))


@pytest.mark.parametrize("kind", ["skip", "slow", "stop", "cut"])
def test_what_the_actuator_can_is_done(kind: Kind) -> None:
    executed, outcome = intervener().apply(decide(kind), PROPOSAL, FRAME)
    assert executed is not None and executed.name == kind
    assert (outcome.kind, outcome.because) == (kind, "")


def test_slow_has_a_cap_even_where_the_decision_has_none() -> None:
    one, _ = intervener().apply(decide("slow"), PROPOSAL, FRAME)
    assert one == Action("slow", {"cap_kmh": POLICY.slow_cap_kmh})
    two, _ = intervener().apply(decide("slow", cap_kmh=7.0), PROPOSAL, FRAME)
    assert two == Action("slow", {"cap_kmh": 7.0})


@pytest.mark.parametrize(
    ("kind", "can", "done"),
    [
        ("reflect", {"slow", "stop"}, "slow"),
        ("reflect", {"stop", "cut"}, "stop"),
        ("substitute", {"slow", "substitute", "stop"}, "slow"),  # nothing to substitute
        ("ask", {"ask", "slow", "stop"}, "slow"),  # nobody to ask
        ("skip", {"stop"}, "stop"),
        ("slow", {"stop"}, "stop"),
        ("stop", {"cut"}, "cut"),
        ("cut", {"slow", "stop"}, "stop"),  # there is nothing severer
    ],
)
def test_what_the_actuator_cannot_escalates(
    kind: Kind, can: set[Kind], done: Kind
) -> None:
    executed, outcome = intervener(Servant(frozenset(can))).apply(
        decide(kind), PROPOSAL, FRAME
    )
    assert executed is not None and executed.name == done
    assert (outcome.kind, outcome.decided) == (done, kind)
    assert outcome.because


def test_the_policy_says_what_follows_what() -> None:
    policy = replace(POLICY, escalation=("reflect", "cut"))
    able = Servant(frozenset({"slow", "stop", "cut"}))
    _, outcome = intervener(able, policy).apply(decide("reflect"), PROPOSAL, FRAME)
    assert outcome.kind == "cut"


@given(
    st.sampled_from(SEVERITY),
    st.frozensets(st.sampled_from(get_args(Kind))),
    st.booleans(),
)
def test_nothing_is_ever_milder_than_decided(
    kind: Kind, can: frozenset[Kind], obeys: bool
) -> None:
    clock = Clock()
    ours = intervener(Servant(can | {"stop"}, obeys), clock=clock)
    for _ in range(4):
        executed, outcome = ours.apply(decide(kind), PROPOSAL, FRAME)
        if kind in ("proceed", "alert"):
            assert executed == PROPOSAL
        else:
            assert executed != PROPOSAL
            top: Kind = "cut" if "cut" in can else "stop"
            assert RANK[outcome.kind] >= min(RANK[kind], RANK[top])
        clock.now_s += 0.7


def test_shadow_mode_enforces_nothing() -> None:
    servant = Servant()
    alerts: list[Decision] = []
    ours = intervener(
        servant, replace(POLICY, shadow=True), listeners=[Told(alerts.append)]
    )
    for kind in SEVERITY:
        executed, outcome = ours.apply(decide(kind), PROPOSAL, FRAME)
        assert (executed, outcome.kind, outcome.enforced) == (PROPOSAL, kind, False)
    assert (servant.done, alerts) == ([], [])


# -- obedience -----------------------------------------------------------------------


def run(ours: Intervener, clock: Clock, kind: Kind, times: list[float]) -> list[Kind]:
    kinds: list[Kind] = []
    for clock.now_s in times:
        kinds.append(ours.apply(decide(kind), PROPOSAL, FRAME)[1].kind)
    return kinds


@pytest.mark.parametrize("obeys", [False, None])
def test_what_is_not_obeyed_in_time_escalates_step_by_step(obeys: bool | None) -> None:
    clock = Clock()
    ours = intervener(Servant(obeys=obeys), clock=clock)
    times = [0.0, 0.5, 1.0, 1.1, 2.0, 2.1, 2.2, 9.0, 99.0]
    assert run(ours, clock, "slow", times) == [
        "slow", "slow", "slow", "stop", "stop", "stop", "cut", "cut", "cut",
    ]  # fmt: skip


def test_what_is_obeyed_does_not_escalate() -> None:
    clock, servant = Clock(), Servant(obeys=True)
    ours = intervener(servant, clock=clock)
    assert run(ours, clock, "slow", [0.0, 5.0, 10.0]) == ["slow"] * 3
    servant.obeys = False  # it obeyed for a while, and then no longer
    assert run(ours, clock, "slow", [10.5, 11.0, 11.1]) == ["slow", "slow", "stop"]


def test_the_outcome_tells_whether_it_was_obeyed() -> None:
    clock, servant = Clock(), Servant(obeys=None)
    ours = intervener(servant, clock=clock)
    seen = []
    for clock.now_s, servant.obeys in ((0.0, True), (0.5, None), (1.5, False)):
        seen.append(ours.apply(decide("stop"), PROPOSAL, FRAME)[1])
    assert [outcome.obeyed for outcome in seen] == [None, None, False]
    assert seen[2].because == "stop was not obeyed within 1 s"
    servant.obeys = True
    assert ours.apply(decide("stop"), PROPOSAL, FRAME)[1].obeyed is True


def test_a_calm_guard_releases_what_had_escalated_but_not_a_cut() -> None:
    clock = Clock()
    ours = intervener(Servant(obeys=False), clock=clock)
    run(ours, clock, "slow", [0.0, 1.1])
    assert ours.apply(decide("proceed"), PROPOSAL, FRAME)[0] == PROPOSAL
    assert run(ours, clock, "slow", [1.2]) == ["slow"]
    run(ours, clock, "cut", [1.3])
    executed, outcome = ours.apply(decide("proceed"), PROPOSAL, FRAME)
    assert (executed, outcome.kind) == (Action("cut"), "cut")
    ours.reset()
    assert ours.apply(decide("proceed"), PROPOSAL, FRAME)[0] == PROPOSAL


def test_a_clock_that_is_no_number_grants_no_time() -> None:
    clock = Clock()
    ours = intervener(Servant(obeys=None), clock=clock)
    assert run(ours, clock, "slow", [0.0, math.nan]) == ["slow", "stop"]


def test_the_tiny_car_that_slows_is_left_at_that_and_one_that_does_not_is_cut() -> None:
    for obeys in (True, False):
        world, pilot, clock = (
            TinyWorld(lead=False, yellow_at_s=60.0),
            TinyPilot(),
            Clock(),
        )
        ours = Intervener(TinyActuator(), POLICY, clock)
        frame = world.reset(1)
        kinds = []
        for _ in range(40):
            clock.now_s = frame.time_s
            proposal = pilot.propose(frame)
            cap = decide("slow", cap_kmh=30.0)
            executed, outcome = ours.apply(cap, proposal, frame)
            kinds.append(outcome.kind)
            frame = world.step(executed if obeys else proposal)
        assert kinds[-1] == ("slow" if obeys else "cut")
        assert (frame.values["speed"] < 32.0) == obeys


# -- faults --------------------------------------------------------------------------


class Faulty(Servant):
    """Raises at its k-th call, whatever the call is."""

    def __init__(self, fails_at: int) -> None:
        super().__init__(obeys=None)
        self.fails_at, self.calls = fails_at, 0

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError("no such bus")

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        self._call()
        return super().carry_out(decision, proposal, frame)

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        self._call()
        return super().obeyed(decision, frame)


def test_a_fault_is_logged_once_with_its_file_and_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Misspelt(Servant):
        def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
            return frame.values["angel"] < 1

    ours = intervener(Misspelt())
    for _ in range(5):
        ours.apply(decide("stop"), PROPOSAL, FRAME)
    (told,) = caplog.messages
    assert told.startswith("stop failed, so the fallback applies: KeyError: 'angel' (")
    assert "test_interventions.py, line " in told


@pytest.mark.parametrize("fails_at", range(1, 12))
def test_a_fault_at_any_call_leads_to_the_fallback(fails_at: int) -> None:
    clock, faulty = Clock(), Faulty(fails_at)
    ours = intervener(faulty, clock=clock)
    fell_back = 0
    for _ in range(8):
        executed, outcome = ours.apply(decide("slow"), PROPOSAL, FRAME)
        assert executed != PROPOSAL
        if executed == Action("fallback"):
            fell_back += 1
            assert (outcome.kind, outcome.because) == (
                "stop", "RuntimeError: no such bus",
            )  # fmt: skip
        clock.now_s += 0.3
    assert fell_back == 1


class Mute(Exception):
    """What fails even to say what failed."""

    def __str__(self) -> str:
        raise RuntimeError("nobody knows")


def test_failure_without_a_readable_message_still_falls_back() -> None:
    def alert(decision: Decision) -> None:
        raise Mute

    def clock() -> float:
        raise Mute

    told = intervener(listeners=[Told(alert)])
    executed, outcome = told.apply(decide("slow"), PROPOSAL, FRAME)
    assert executed is not None and executed.name == "slow"
    assert outcome.notes == ("an alert failed: Mute: its message cannot be read",)
    # A clock that fails holds up no fallback.
    executed, outcome = intervener(clock=clock).apply(decide("slow"), PROPOSAL, FRAME)
    assert (executed, outcome.kind) == (Action("fallback"), "stop")


def test_an_agent_that_was_not_told_why_may_not_choose_another_action() -> None:
    class Wordless(Prompter):
        def prompt(self, *_: Any) -> Prompt:
            raise RuntimeError("no words")

    ours = intervener(prompter=Wordless({}, (), 3.0))
    for proposal in (PROPOSAL, OTHER, PROPOSAL, OTHER):
        executed, _ = ours.apply(decide("reflect"), proposal, FRAME)
        assert executed == Action("fallback")


@pytest.mark.parametrize("shown", [math.nan, "no", 1.0, object()])
def test_nonsense_shows_no_obedience(shown: Any) -> None:
    clock = Clock()
    ours = intervener(Servant(obeys=shown), clock=clock)
    assert run(ours, clock, "slow", [0.0, 1.1]) == ["slow", "stop"]


def test_a_clock_that_goes_back_grants_no_time() -> None:
    clock = Clock(100.0)
    ours = intervener(Servant(obeys=False), clock=clock)
    assert run(ours, clock, "slow", [100.0, 99.0]) == ["slow", "stop"]


@pytest.mark.parametrize("cap_kmh", [math.nan, math.inf, -math.inf])
def test_a_cap_that_is_no_number_is_the_policys(cap_kmh: float) -> None:
    slow = decide("slow", cap_kmh=cap_kmh)
    executed, _ = intervener().apply(slow, PROPOSAL, FRAME)
    assert executed == Action("slow", {"cap_kmh": POLICY.slow_cap_kmh})


def test_a_log_that_cannot_be_written_does_not_prevent_the_fallback() -> None:
    class Broken(Servant):
        def carry_out(
            self, decision: Decision, proposal: Action | None, frame: Frame
        ) -> Action:
            raise RuntimeError("no power")

    with unwritable_log():
        executed, _ = intervener(Broken()).apply(decide("stop"), PROPOSAL, FRAME)
    assert executed == Servant().fallback(FRAME)


def test_a_fallback_that_fails_carries_nothing_out() -> None:
    class Broken(Servant):
        def carry_out(
            self, decision: Decision, proposal: Action | None, frame: Frame
        ) -> Action:
            raise RuntimeError("no power")

        def fallback(self, frame: Frame | None = None) -> Action:
            raise RuntimeError("none at all")

    executed, outcome = intervener(Broken()).apply(decide("proceed"), PROPOSAL, FRAME)
    assert executed is None
    assert outcome.because == (
        "RuntimeError: no power; the fallback failed: RuntimeError: none at all"
    )


def test_the_fallback_may_be_to_cut() -> None:
    ours = intervener(Faulty(1), replace(POLICY, fallback="cut"))
    executed, outcome = ours.apply(decide("slow"), PROPOSAL, FRAME)
    assert (executed, outcome.kind) == (Action("cut"), "cut")


# -- reflect -------------------------------------------------------------------------


def test_reflect_withholds_the_action_and_says_why() -> None:
    executed, outcome = intervener().apply(decide("reflect"), PROPOSAL, FRAME)
    assert executed == Action("reflect")  # what this actuator does with it: nothing
    assert outcome.prompt is not None and "Propose another one" in outcome.prompt


@pytest.mark.parametrize(
    "same",
    [PROPOSAL, Action("GO ", {"to": "kitchen"}), Action("go", {"to": " Kitchen"})],
)
def test_an_agent_that_insists_is_stopped(same: Action) -> None:
    clock = Clock()
    ours = intervener(Servant(frozenset({"reflect", "stop"})), clock=clock)
    outcomes = []
    for proposal in (PROPOSAL, same, same, same):
        executed, outcome = ours.apply(decide("reflect"), proposal, FRAME)
        assert executed not in (PROPOSAL, same)
        outcomes.append(outcome)
    assert [o.kind for o in outcomes] == ["reflect", "reflect", "stop", "stop"]
    assert outcomes[2].because == "2 reflections did not help"


def test_another_action_passes_and_the_one_withheld_still_does_not() -> None:
    ours = intervener()
    ours.apply(decide("reflect"), PROPOSAL, FRAME)
    executed, outcome = ours.apply(decide("reflect"), OTHER, FRAME)
    assert (executed, outcome.prompt) == (OTHER, None)
    assert outcome.notes == ("the agent chose another action",)
    executed, outcome = ours.apply(decide("reflect"), PROPOSAL, FRAME)
    assert executed == Action("reflect") and outcome.prompt is not None


def test_reflections_are_counted_by_law_for_the_whole_episode() -> None:
    ours = intervener()
    for _ in range(POLICY.max_reflections):
        assert ours.apply(decide("reflect"), PROPOSAL, FRAME)[1].kind == "reflect"
        ours.apply(decide("proceed"), OTHER, FRAME)
    assert ours.apply(decide("reflect", "another"), PROPOSAL, FRAME)[1].prompt
    assert ours.apply(decide("reflect"), PROPOSAL, FRAME)[1].kind == "slow"
    ours.reset()
    assert ours.apply(decide("reflect"), PROPOSAL, FRAME)[1].kind == "reflect"


def test_what_was_withheld_for_one_law_is_judged_afresh_for_another() -> None:
    ours = intervener()
    ours.apply(decide("reflect"), PROPOSAL, FRAME)
    executed, outcome = ours.apply(decide("reflect", "another"), OTHER, FRAME)
    assert executed == Action("reflect") and outcome.prompt


def test_words_do_not_help() -> None:
    """The guard's part does not depend on what an agent says of its action."""
    ours = intervener(Servant(frozenset({"reflect", "stop"})))
    said = Action("go", {"to": "Kitchen"})
    kinds = [ours.apply(decide("reflect"), said, FRAME)[1].kind for _ in range(5)]
    assert kinds == ["reflect", "reflect", "stop", "stop", "stop"]


def kitchen_run(stubborn: bool, seed: int) -> tuple[bool, list[Kind]]:
    """One guarded episode; the guard here reflects while the fork is inside."""
    world, clock = TinyHousehold(fork_inside=0, clumsiness=0), Clock()
    pilot = TinyHouseholdPilot(careless_share=1, attentive_share=0, stubborn=stubborn)
    ours = Intervener(world.actuator(), POLICY, clock)
    frame = world.reset(seed)
    pilot.reset(seed)
    broken, kinds, words = False, [], None
    while world.ended() is None:
        clock.now_s = frame.time_s
        values = frame.values
        at_risk = values["is_inside(Fork, Microwave)"]
        decision = decide("reflect" if at_risk else "proceed")
        decision = replace(decision, sequence=frame.sequence, time_s=frame.time_s)
        proposal = pilot.propose(frame, words)
        executed, outcome = ours.apply(decision, proposal, frame)
        words = outcome.prompt
        kinds.append(outcome.kind)
        frame = world.step(executed)
        broken |= bool(at_risk and frame.values["is_toggled(Microwave)"])
    return broken, kinds


@pytest.mark.parametrize("seed", range(5))
def test_a_robot_that_thinks_again_takes_the_fork_out(seed: int) -> None:
    broken, kinds = kitchen_run(stubborn=False, seed=seed)
    assert not broken
    assert "reflect" in kinds and "stop" not in kinds and kinds[-1] == "proceed"


@pytest.mark.parametrize("seed", range(5))
def test_a_stubborn_robot_is_stopped(seed: int) -> None:
    broken, kinds = kitchen_run(stubborn=True, seed=seed)
    assert not broken
    assert kinds.count("reflect") == POLICY.max_reflections and kinds[-1] == "stop"


# -- ask -----------------------------------------------------------------------------


def test_a_person_approves_edits_or_rejects() -> None:
    edited = Action("go", {"to": "Hall"})
    for answer, expected, kind in (
        (Answer("approve"), PROPOSAL, "ask"),
        (Answer("edit", edited), edited, "ask"),
        (Answer("reject"), Action("fallback"), "stop"),
    ):
        person = Person(answer)
        ours = intervener(approver=person)
        executed, outcome = ours.apply(decide("ask"), PROPOSAL, FRAME)
        assert (executed, outcome.kind) == (expected, kind)
        assert outcome.notes == (f"a person said: {answer.verdict}",)
        assert person.asked == [PROPOSAL]


def test_silence_is_not_consent() -> None:
    released = threading.Event()

    class Silent:
        def ask(self, decision: Decision, proposal: Action | None) -> Answer:
            released.wait(20)
            return Answer("approve")

    ours = intervener(approver=Silent(), ask_s=0.05)
    try:
        for _ in range(2):  # the second is not asked while the first is open
            executed, outcome = ours.apply(decide("ask"), PROPOSAL, FRAME)
            assert (executed, outcome.kind) == (Action("fallback"), "stop")
            assert outcome.because == "nobody answered in time"
    finally:
        released.set()


@pytest.mark.parametrize("answer", [None, "approve", RuntimeError("no terminal")])
def test_an_approver_that_fails_does_not_approve(answer: Any) -> None:
    class Odd:
        def ask(self, decision: Decision, proposal: Action | None) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    executed, _ = intervener(approver=Odd()).apply(decide("ask"), PROPOSAL, FRAME)
    assert executed == Action("fallback")


# -- alerts --------------------------------------------------------------------------


def test_an_alert_is_given_once_when_it_begins() -> None:
    told: list[Decision] = []
    ours = intervener(listeners=[Told(told.append)])
    for kind in ("proceed", "alert", "alert", "slow", "slow", "proceed", "alert"):
        ours.apply(decide(kind), PROPOSAL, FRAME)
    assert [decision.kind for decision in told] == ["alert", "slow", "alert"]


def test_an_alert_that_fails_does_not_keep_the_others_from_being_told() -> None:
    told: list[Decision] = []

    def broken(decision: Decision) -> None:
        raise OSError("no network")

    ours = intervener(listeners=[Told(broken), Told(told.append)])
    executed, outcome = ours.apply(decide("alert"), PROPOSAL, FRAME)
    assert (executed, len(told)) == (PROPOSAL, 1)
    assert outcome.notes == ("an alert failed: OSError: no network",)


def test_an_outcome_as_json_leaves_out_what_is_empty() -> None:
    assert Outcome("proceed", "proceed").as_dict() == {
        "kind": "proceed", "decided": "proceed",
    }  # fmt: skip
    full = Outcome(
        "stop", "slow", "the actuator cannot slow", False, False, "p", ("n",)
    )
    assert full.as_dict() == {
        "kind": "stop", "decided": "slow", "enforced": False, "obeyed": False,
        "because": "the actuator cannot slow", "prompt": "p", "notes": ["n"],
    }  # fmt: skip
