"""What a guard watches: states and laws frame by frame, and what cannot be watched."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.errors import (
    InvalidInput,
    InvalidModel,
    SignalFault,
    TooLarge,
)
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.intervals import model_intervals
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Counts, Model, smoothed_chain
from forewarn.monitors.guarding import chain as module
from forewarn.monitors.guarding import watch as loading
from forewarn.monitors.guarding.chain import LawWatch
from forewarn.monitors.guarding.decision import Risk
from forewarn.monitors.guarding.watch import MAX_HORIZON, MAX_STATES, Watch, load_watch
from forewarn.monitors.laws.lawbook import law_book
from forewarn.monitors.risk.evidence import (
    compile_for,
    letters_of_states,
    truth_in_abstraction,
)
from forewarn.monitors.risk.tables import RiskTable, solve_risk
from tests.monitors.guarding.test_guard import (
    LAW,
    PREDICATES,
    SPEEDING,
    STATES,
    frame,
    model,
)

NEVER = Risk(0.0, math.nan, 1.0)
BROKEN = Risk(1.0, 1.0, 1.0)


def watching(learned: Model | None = None, **changes: Any) -> Watch:
    return load_watch(learned or model(), **{"horizon_s": 0.2} | changes)


def walk(watch: Watch, *states: str, start: int = 0) -> Watch:
    for step, state in enumerate(states, start=start):
        assert watch.read(frame(step, state)) is True
    return watch


def risks(watch: Watch) -> list[Risk]:
    return [law.risk for law in watch.laws]


def table(law: str, horizon_steps: int = 2, delta: float = 0.05) -> RiskTable:
    """The risks that a watch looks up, solved apart from it."""
    learned = model()
    abstraction = from_expressions(PREDICATES, load_vocabulary("driving"))
    formula = watching(laws=[law]).laws[0].law.formula
    automaton = compile_for(formula, abstraction, 0.1)
    truth = truth_in_abstraction(learned.chain, abstraction)
    letters = letters_of_states(learned.chain, automaton, truth)
    intervals = model_intervals(learned, delta)
    return solve_risk(learned.chain, letters, automaton, horizon_steps, intervals)


def found(solved: RiskTable, watch: Watch) -> Risk:
    """Its entry for where the watch's first law is now."""
    assert solved.low is not None and solved.high is not None
    at = watch.laws[0].state, watch.parts[0].state
    low, point, high = (float(s[at]) for s in (solved.low, solved.point, solved.high))
    return Risk(low, point, high)


# -- laws ------------------------------------------------------------------------------


def test_before_the_first_frame_nothing_is_known() -> None:
    watch = watching()
    assert [law.name for law in watch.laws] == [LAW, SPEEDING]
    for law, risk in zip(watch.laws, risks(watch), strict=True):
        assert repr(risk) == repr(NEVER)
        assert not law.broken and law.left_s is None
    assert (watch.parts[0].state, watch.parts[0].bits, watch.ticks, watch.unknown) == (
        None,
        0,
        0,
        False,
    )
    assert (watch.violated, watch.unknown_seen, watch.period_s) == ((), 0, 0.1)
    assert watch.signals == ("stop_line_distance", "speed", "braking")


def test_the_risk_is_that_of_the_table() -> None:
    solved, watch = table(LAW), watching(laws=[LAW])
    for step, state in enumerate(["far", "rolling", "braking", "stopped", "far"]):
        walk(watch, state, start=step)
        assert watch.laws[0].risk == found(solved, watch)
        assert watch.laws[0].risk.low < watch.laws[0].risk.high
    assert watch.ticks == 5


@pytest.mark.parametrize(
    ("settings", "solved"),
    [
        ({"horizon_s": 0.1}, {"horizon_steps": 1}),
        ({"horizon_s": 0.3}, {"horizon_steps": 3}),
        ({"horizon_s": 0.26}, {"horizon_steps": 3}),
        ({"delta": 0.3}, {"delta": 0.3}),
    ],
)
def test_horizon_and_delta_are_those_that_were_asked_for(
    settings: dict[str, Any], solved: dict[str, Any]
) -> None:
    watch = watching(laws=[LAW], **settings)
    for step, state in enumerate(["far", "rolling"]):
        walk(watch, state, start=step)
        assert watch.laws[0].risk == found(table(LAW, **solved), watch)


def test_bounds_are_a_twentieth_wide_unless_that_is_said() -> None:
    watch = walk(load_watch(model(), horizon_s=0.2, laws=[LAW]), "far", "rolling")
    assert watch.laws[0].risk == found(table(LAW), watch)


def test_without_counts_the_bounds_are_the_point() -> None:
    watch = walk(watching(replace(model(), counts=None)), "far", "rolling")
    for risk in risks(watch):
        assert 0.0 <= risk.low == risk.point == risk.high < 1.0


def test_a_law_says_whether_it_breaks() -> None:
    watch = watching()
    owing, other = watch.laws
    alone = LawWatch(owing.law, table(LAW), watch.parts[0].abstraction, 0.1)
    assert repr(alone.risk) == repr(NEVER) and not alone.broken
    rolling, bits = list(STATES).index("rolling"), watch.parts[0].abstraction.bits
    column = alone.column(bits(STATES["rolling"]))
    assert [alone.read(column, (rolling,)) for _ in range(4)] == [*[False] * 3, True]
    assert other.read(other.column(bits("0011")), (0, 1)) is False
    assert other.read(other.column(bits("0000")), (0,)) is True
    # One law alone, in a state of the chain.
    single = walk(watching(laws=[LAW]), *["rolling"] * 4)
    assert single.violated == (LAW,)


def test_expired_obligation_breaks_the_law() -> None:
    watch = watching()
    law = watch.laws[0]
    left = []
    for step in range(4):
        walk(watch, "rolling", start=step)
        left.append(law.left_s)
    assert left == [pytest.approx(0.3), pytest.approx(0.2), pytest.approx(0.1), None]
    assert law.broken and law.risk == BROKEN and watch.violated == (LAW,)
    assert law.sentence(0.2) == f"{LAW} was broken"
    assert law.state == law.automaton.initial
    walk(watch, "rolling", start=4)
    assert not law.broken and watch.violated == () and law.risk.point < 1.0
    assert law.sentence(0.2).endswith(", and its obligation is due in 0.3 s")


def test_violated_law_is_reported_once() -> None:
    watch = watching()
    assert watch.read(frame(0, "far", speed=80.0))
    assert watch.violated == (SPEEDING,) and watch.laws[1].risk == BROKEN
    assert not watch.laws[0].broken
    walk(watch, "far", start=1)
    assert watch.violated == () and not any(law.broken for law in watch.laws)


def test_an_episode_begins_as_the_first_did() -> None:
    watch = watching()
    watch.read(frame(0, "far", speed=80.0))
    walk(watch, "rolling", start=1)
    watch.read(frame(2, "far", speed=80.0))
    assert watch.violated and watch.unknown
    watch.reset()
    assert [repr(risk) for risk in risks(watch)] == [repr(NEVER)] * 2
    assert [law.state for law in watch.laws] == [
        law.automaton.initial for law in watch.laws
    ]
    assert not any(law.broken for law in watch.laws)
    assert (watch.parts[0].state, watch.parts[0].bits, watch.ticks, watch.unknown) == (
        None,
        0,
        0,
        False,
    )
    assert watch.violated == ()
    # What was seen of unknown states is counted over all episodes.
    assert watch.unknown_seen == 2


# -- states outside the chain ----------------------------------------------------------


def test_an_unknown_state_is_widened_to_the_worst_of_its_nearest() -> None:
    # Far and braking is one predicate apart from `far` and from `braking`.
    watch = watching(laws=[LAW])
    assert watch.read(frame(0, "far", braking=True))
    law, chain = watch.laws[0], watch.parts[0].model.chain
    nearest = {STATES["far"], STATES["braking"]}
    assert watch.unknown and watch.parts[0].state is None and watch.unknown_seen == 1
    solved = table(LAW)
    assert solved.low is not None and solved.high is not None
    at = [i for i, name in enumerate(chain.states) if name in nearest]
    rows = [each[law.state, at] for each in (solved.low, solved.point, solved.high)]
    assert law.risk == Risk(rows[0].min(), rows[1].max(), rows[2].max())
    assert len({*rows[0]}) == len({*rows[1]}) == len({*rows[2]}) == 2
    (note,) = watch.notes()
    held = ", ".join(watch.parts[0].evidence())
    assert held.count(",") == 1
    assert note == (
        f"a state never seen in training ({held}): widened to the nearest known states"
    )
    walk(watch, "far", start=1)
    assert not watch.unknown and watch.notes() == ()


def test_an_unknown_state_moves_the_laws_on_and_breaks_them() -> None:
    watch = watching()
    for step in range(4):
        # Near, too fast for the other law too.
        watch.read(frame(step, "rolling", speed=80.0))
        assert watch.unknown and watch.unknown_seen == step + 1
        assert watch.violated == ((SPEEDING,) if step < 3 else (LAW, SPEEDING))
    assert watch.laws[0].risk == BROKEN == watch.laws[1].risk


def test_unknown_state_can_raise_an_obligation() -> None:
    watch = walk(watching(), "rolling")
    assert watch.read(frame(1, "stopped", braking=False))
    assert watch.unknown and watch.laws[0].left_s is None
    assert watch.read(frame(2, "rolling", speed=80.0))
    assert watch.unknown and watch.laws[0].left_s == pytest.approx(0.3)


def test_predicates_that_cannot_hold_together_are_a_fault() -> None:
    watch = watching()
    # Standing still and faster than 60 km/h: no frame says so.
    impossible = int("1101"[::-1], 2) & ~4
    with pytest.raises(
        SignalFault, match="excludes this combination of predicate values"
    ):
        for law in watch.laws:
            law._columns.clear()
            law.column(impossible)


def test_states_never_left_in_training_are_unknown() -> None:
    learned = model()
    assert learned.counts is not None
    once = [*([{0: 1, 1: 2}] * 3), {}]
    counts = Counts.from_rows(once)
    chain, _ = smoothed_chain(list(STATES.values()), counts, Fraction(0))
    watch = watching(replace(learned, chain=chain, counts=counts))
    walk(watch, "rolling")
    assert not watch.unknown
    walk(watch, "stopped", start=1)
    assert watch.unknown
    counts = Counts.from_rows([{1: 1}, *([{}] * 3)])
    chain, _ = smoothed_chain(list(STATES.values()), counts, Fraction(0))
    assert not walk(
        watching(replace(learned, chain=chain, counts=counts)), "far"
    ).unknown
    counts = Counts.from_rows([{}] * 4)
    chain, _ = smoothed_chain(list(STATES.values()), counts, Fraction(0))
    with pytest.raises(InvalidModel, match="every training run stayed in one state"):
        watching(replace(learned, chain=chain, counts=counts))


def test_the_end_of_traces_is_no_state_of_the_world() -> None:
    tally = Tally()
    for _ in range(9):
        tally.add_sequence([STATES["far"], STATES["rolling"], STATES["stopped"]])
    plain = model()
    learned = learn(
        tally, Support("observed"), Fraction(1), "absorb",
        abstraction=plain.abstraction, period_s=0.1, laws=plain.laws,
    )  # fmt: skip
    assert learned.chain.end is not None
    watch = walk(watching(learned), "far", "rolling", "stopped")
    assert not watch.unknown and len(watch.parts[0]._known) == 3


@pytest.mark.parametrize("most", [0, 1, 2])
def test_number_of_remembered_states_is_limited(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", most)
    watch = watching()
    for step in range(6):
        watch.read(frame(step, "far", speed=80.0 if step % 2 else 0.5))
        first, again = watch.parts[0].evidence(), watch.parts[0].evidence()
        assert first == again
        assert ("speed < 1 km/h" in first or "speed < 1" in first) == (step % 2 == 0)
    assert watch.unknown_seen == 6
    assert (len(watch.parts[0]._unknown), len(watch.parts[0]._words)) == (most, most)


def test_remembered_risk_is_not_computed_again() -> None:
    watch = watching()
    watch.read(frame(0, "far", speed=80.0))
    known, words = watch.parts[0]._known, watch.parts[0].evidence()
    watch.parts[0]._known = {}
    watch.read(frame(1, "far", speed=80.0))
    assert watch.parts[0].evidence() is words
    watch.parts[0]._known = known
    assert watch.laws[1].broken


def test_evidence_lists_the_true_predicates() -> None:
    watch = walk(watching(), "braking")
    texts = watch.parts[0].abstraction.texts
    assert watch.parts[0].evidence() == (texts[0], texts[2], texts[3])
    walk(watch, "far", start=1)
    assert watch.parts[0].evidence() == (texts[2],)


# -- ticks -----------------------------------------------------------------------------


def at(time_s: float, state: str) -> Frame:
    return replace(frame(0, state), time_s=time_s)


def test_a_frame_within_a_tick_does_not_advance_the_state() -> None:
    watch = watching()
    assert watch.read(at(0.0, "far")) is True
    assert watch.read(at(0.05, "rolling")) is False
    assert (watch.ticks, watch.parts[0].state) == (1, 0)
    assert watch.abstracted(at(0.07, "rolling")) == (None,)
    bits = watch.parts[0].abstraction.bits("1010")
    assert watch.abstracted(at(0.1, "rolling")) == (bits,)


def test_time_passes_while_frames_are_missing() -> None:
    watch, steady = watching(), watching()
    walk(watch, "rolling")
    walk(steady, *["rolling"] * 3)
    assert watch.read(at(0.3, "far"))
    walk(steady, "far", start=3)
    assert (watch.ticks, risks(watch)) == (steady.ticks, risks(steady))
    late = walk(watching(), "rolling")
    assert late.read(at(0.5, "far"))
    assert late.violated == (LAW,)


def test_number_of_missing_ticks_is_limited() -> None:
    watch = walk(watching(), "far")
    assert watch.read(at(100.1, "far"))
    assert watch.ticks == 1002
    watch = walk(watching(), "far")
    with pytest.raises(
        SignalFault, match="no frame arrived for 100 s, so it is unknown"
    ):
        watch.read(at(100.2, "far"))


# -- foreseeing ------------------------------------------------------------------------


def test_foresee_leaves_the_watch_unchanged() -> None:
    watch = walk(watching(), "far", "rolling")
    before = [(law.state, law.risk, law.broken) for law in watch.laws]
    ahead = watch.foresee(frame(2, "far", speed=80.0))
    assert ahead.violated == (SPEEDING,) and ahead.ticks == 3
    assert [(law.state, law.risk, law.broken) for law in watch.laws] == before
    assert (watch.violated, watch.ticks, watch.unknown) == ((), 2, False)
    walk(watch, "braking", start=2)
    assert risks(watch) == risks(walk(watching(), "far", "rolling", "braking"))


def test_foresight_reports_new_violations_only() -> None:
    watch = watching()
    watch.read(frame(0, "far", speed=80.0))
    ahead = watch.foresee(frame(1, "far"))
    assert ahead.violated == () and not any(law.broken for law in ahead.laws)
    assert watch.violated == (SPEEDING,) and watch.laws[1].broken


# -- loading ---------------------------------------------------------------------------


def refused(learned: Model, laws: Sequence[str] = (), **changes: Any) -> str:
    with pytest.raises(InvalidInput) as error:
        watching(learned, laws=laws, source="m.json", **changes)
    return str(error.value)


def test_law_that_cannot_be_watched_is_reported() -> None:
    plain = model()
    assert refused(replace(plain, abstraction=None)) == (
        "m.json: the model has no abstraction, so its states cannot be computed "
        "from frames (learn it from traces with --abstraction or --law)"
    )
    assert refused(replace(plain, period_s=None)) == (
        "m.json: the model does not state the time between two states (learn the "
        "model from traces with period_s)"
    )
    assert refused(replace(plain, laws=())) == (
        "m.json: the model was not learned for any law (choose laws with --law)"
    )
    assert refused(plain, horizon_s=0.1 * MAX_HORIZON + 0.1) == (
        "m.json: a horizon of 10000.1 s is more than 100000 periods of the model"
    )
    assert "m.json" in refused(replace(plain, laws=("always (",)))
    asked = refused(plain, ["always ("])
    assert "m.json" not in asked and "column" in asked


def test_a_horizon_may_be_so_long_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading, "MAX_HORIZON", 4)
    assert len(watching(horizon_s=0.4).laws) == 2
    assert "more than 4 periods of the model" in refused(model(), horizon_s=0.41)


def test_the_clock_is_the_model_s_or_else_the_abstraction_s() -> None:
    plain = model()
    ticking = dict(plain.abstraction or {}, period_s=0.1)
    watch = watching(replace(plain, period_s=None, abstraction=ticking))
    assert watch.period_s == 0.1
    slower = watching(replace(plain, period_s=0.3), laws=[LAW], horizon_s=0.3)
    assert slower.period_s == 0.3
    walk(slower, "rolling")
    assert slower.laws[0].left_s == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("changes", "horizon_s", "said"),
    [
        ({"period_s": 100.0}, 3.0, "100 s apart, which is more than the horizon of 3"),
        (
            {"period_s": 0.2, "ticks_s": 0.1},
            3.0,
            "0.2 s apart, but its abstraction's are",
        ),
        ({}, -1.0, "the horizon is -1 s, but must be above zero"),
        ({}, 0.0, "the horizon is 0 s, but must be above zero"),
        ({}, math.nan, "horizon_s: expected a number, found nan"),
        ({}, math.inf, "the horizon is inf s, but must be above zero"),
    ],
)
def test_times_that_do_not_fit_are_refused(
    changes: dict[str, Any], horizon_s: float, said: str
) -> None:
    plain = model()
    ticking = dict(plain.abstraction or {}, period_s=changes.pop("ticks_s", None))
    learned = replace(plain, abstraction=ticking, **changes)
    assert said in refused(learned, horizon_s=horizon_s)


def test_a_law_with_a_clock_of_its_own_needs_a_model_of_that_clock() -> None:
    clocked = next(law for law in law_book().every().values() if law.clock_s == 1)
    assert refused(model(), [clocked.name]) == (
        f"m.json: the law {clocked.name} needs a clock of {clocked.clock_s} s, but the"
        " model's states are 0.1 s apart (learn the model with an abstraction whose"
        f" period_s is {clocked.clock_s})"
    )


def test_laws_over_what_is_not_provided_do_not_apply() -> None:
    watch = watching(provides=["speed", "braking"])
    assert watch.not_applicable == ((LAW, "no stop_line_distance"),)
    assert [law.name for law in watch.laws] == [SPEEDING]
    everything = watching(provides=["speed", "stop_line_distance", "braking"])
    assert everything.not_applicable == watching().not_applicable == ()
    assert len(everything.laws) == len(watching().laws) == 2


def test_an_article_is_watched_part_by_part() -> None:
    parts = [law for law in law_book().find("51") for law in law.parts or (law,)]
    lacking = watching(laws=["51"], provides=["speed"]).not_applicable
    assert [name for name, _ in lacking] == [law.name for law in parts]
    assert len(parts) > 1


def test_every_entry_of_the_table_is_a_probability() -> None:
    for law in watching().laws:
        bounds = np.array([[pair[:4] for pair in row] for row in law._risks])
        assert ((bounds >= 0) & (bounds <= 1)).all()


def test_laws_that_are_long_together_are_refused_before_they_are_solved() -> None:
    laws = [
        f"{name} := always (braking -> eventually[0, 20000 steps] speed < 1)"
        for name in ("one", "other")
    ]
    began = time.process_time()
    with pytest.raises(TooLarge, match=f"more than {MAX_STATES} states"):
        load_watch(model(), horizon_s=1.0, laws=laws)
    shorter = [law.replace("20000", "5100") for law in laws]
    with pytest.raises(TooLarge, match="monitors of the guard's laws"):
        load_watch(model(), horizon_s=1.0, laws=shorter)
    assert time.process_time() - began < 20.0
