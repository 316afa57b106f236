"""Several models watched by one guard: each law by that which was learned for it."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.errors import InvalidModel
from forewarn.abstractions.files import write_json
from forewarn.abstractions.frame import Frame, Source
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.formats.own import models_as_dict
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model, load_model, load_models
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.listening import Run
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.guarding.watch import Watch, load_watch
from forewarn.monitors.risk.evidence import laws_of, model_for
from forewarn.plugins.loop.records import ModelFile
from forewarn.plugins.loop.replay import replay
from forewarn.plugins.loop.tallies import TallyFile, Tallying
from tests.monitors.guarding.test_guard import (
    LAW,
    PROVIDES,
    SPEEDING,
    Clock,
    drive,
    frame,
    model,
)

RUN = ("far", "far", "rolling", "rolling", "stopped", "far", "braking")


def stopping() -> Model:
    """What tells of the line, and nothing of speeding."""
    return replace(model(), laws=(LAW,))


def speeding() -> Model:
    """What tells of speeding, by a signal of its own too."""
    abstraction = from_expressions(
        ["speed <= 60", "speed > 50", "throttle > 50"], load_vocabulary("driving"),
        name="speeding", period_s=0.1,
    )  # fmt: skip
    tally = Tally()
    for row in ("100 100 100 110 111 010", "100 110 110 100", "100 101 111 110 100"):
        tally.add_sequence(row.split())
    return learn(
        tally, Support("observed"), Fraction(0), "absorb",
        abstraction=abstraction.as_dict(), period_s=0.1, laws=(SPEEDING,),
    )  # fmt: skip


SIGNALS = (*PROVIDES, "throttle")


def watching(*models: Model, **changes: object) -> Watch:
    given = {"horizon_s": 0.5, "provides": SIGNALS} | changes
    return load_watch(models or (stopping(), speeding()), **given)  # type: ignore[arg-type]


def test_each_law_has_the_risk_that_its_own_model_gives_it() -> None:
    together = watching()
    alone = [watching(stopping()), watching(speeding())]
    assert [law.name for law in together.laws] == [LAW, SPEEDING]
    for step, state in enumerate(RUN):
        seen = frame(step, state, speed=55.0 if step == 3 else 40.0, throttle=60.0)
        for watch in (together, *alone):
            assert watch.read(seen)
        assert [law.risk for law in together.laws] == [w.laws[0].risk for w in alone]
        ahead = together.foresee(frame(step + 1, "rolling", throttle=0.0))
        apart = [w.foresee(frame(step + 1, "rolling", throttle=0.0)) for w in alone]
        assert [law.risk for law in ahead.laws] == [w.laws[0].risk for w in apart]
    assert together.ticks == len(RUN)
    line, fast = together.laws
    assert "braking" in together.texts and "throttle > 50" in together.texts
    assert "throttle > 50" in together.evidence(fast)
    assert "throttle > 50" not in together.evidence(line)


def test_an_unknown_state_in_one_model_leaves_the_other_known() -> None:
    watch = watching()
    watch.read(frame(0, "far", throttle=60.0, speed=40.0))
    watch.read(frame(1, "far", throttle=60.0, speed=0.5))
    assert watch.unknown and watch.states[0] is None and watch.states[1] is not None
    (note,) = watch.notes()
    assert "never seen" in note and watch.unknown_seen == 1


def test_a_lost_frame_is_lost_to_all() -> None:
    watch = watching()
    watch.read(frame(0, "far", throttle=0.0))
    watch.expect()
    watch.read(frame(2, "far", throttle=0.0))
    assert watch.lost and all(law.point != law.point for law in watch.laws)


def test_a_fault_of_one_hides_no_violation_of_another() -> None:
    policy = Policy(rules={"*": (Step("stop", 0.9),)}, horizon_s=0.5, hold_s=0.0)
    for throttle in (60.0, float("nan"), None, "fast"):
        guard = Guard(watching(), policy, provides=SIGNALS, clock=Clock())
        guard.reset()
        values = {**frame(0, "far").values, "throttle": throttle}
        calm = guard.review(frame(0, "far", throttle=0.0))
        assert calm.kind == "proceed"
        fast = guard.review(Frame(0.1, 1, {**values, "speed": 80.0}))
        assert fast.kind == "stop"
        if throttle == 60.0:
            assert SPEEDING in fast.violated
        after = guard.review(frame(2, "far", throttle=0.0))
        assert after.kind == "stop" or throttle == 60.0


def test_only_models_that_have_a_law_to_watch_are_asked() -> None:
    assert watching(laws=[SPEEDING]).signals == ("speed", "throttle")
    without = watching(provides=[*PROVIDES[:1], "throttle"])
    assert [law.name for law in without.laws] == [SPEEDING]
    assert without.not_applicable == ((LAW, "no stop_line_distance"),)
    assert len(without.parts) == 1


def test_a_law_of_none_of_them_is_watched_by_the_first_that_decides_it() -> None:
    watch = watching(laws=["always not throttle > 50"])
    assert [part.model.laws for part in watch.parts] == [(SPEEDING,)]


def test_models_of_different_clocks_are_refused() -> None:
    slow = replace(stopping(), period_s=0.5)
    with pytest.raises(
        InvalidModel, match="the models in the file differ in their clock"
    ):
        watching(slow, speeding())


def written(folder: Path) -> Path:
    path = folder / "both.json"
    write_json(path, models_as_dict([stopping(), speeding()]))
    return path


def test_a_file_of_several_is_read_as_it_was_written(tmp_path: Path) -> None:
    models = load_models(written(tmp_path))
    assert [each.laws for each in models] == [(LAW,), (SPEEDING,)]
    assert models_as_dict(models) == json.loads(written(tmp_path).read_text())
    with pytest.raises(InvalidModel, match="contains 2 models, each for its own laws"):
        load_model(written(tmp_path))
    alone = models_as_dict([stopping()])
    assert alone["format"] == "forewarn.model/1"
    twice = {"format": "forewarn.models/1", "models": [alone, alone]}
    write_json(tmp_path / "twice.json", twice)
    with pytest.raises(InvalidModel, match="the file has two models for the law"):
        load_models(tmp_path / "twice.json")


def test_a_record_by_several_models_is_replayed(tmp_path: Path) -> None:
    path = written(tmp_path)
    policy = Policy(rules={"*": (Step("stop", 0.6),)}, horizon_s=0.5)
    watch = watching(*load_models(path))
    guard = Guard(watch, policy, provides=SIGNALS, clock=Clock())
    header = {
        "model": {"sha256": ModelFile.of(path).keep(tmp_path)},
        "policy": policy.as_dict(),
        "laws": [law.law.reference for law in watch.laws],
        "provides": list(SIGNALS),
    }
    with RunRecord(tmp_path / "run.jsonl", header) as record:
        guard.reset([record])
        for step, state in enumerate(RUN):
            guard.review(frame(step, state, throttle=60.0), Action("go"))
    assert replay(tmp_path / "run.jsonl") == (len(RUN), None)


def test_each_model_counts_its_own_transitions(tmp_path: Path) -> None:
    from forewarn.monitors.fleet.files import read_tallies
    from forewarn.monitors.fleet.tallies import Subject

    watch = watching()
    file = TallyFile(tmp_path / "car.tally.json", [stopping(), speeding()])
    tallying = Tallying(watch, file)
    watch.reset()
    tallying.began(Run("a drive", Source("a car"), watch))
    for step, state in enumerate(RUN):
        seen = frame(step, state, throttle=0.0)
        watch.read(seen)
        tallying.decided(watch, seen, Decision("proceed", step, seen.time_s))
    tallying.ended({"ended": "it was over"})
    told = read_tallies(tmp_path / "car.tally.json")
    assert [each.subject for each in told] == list(
        map(Subject.of, (stopping(), speeding()))
    )
    assert {each.transitions for each in told} == {len(RUN) - 1}
    assert len({each.id for each in told}) == 1


def test_the_severest_law_is_told_with_what_holds_in_its_own_model() -> None:
    policy = Policy(rules={"*": (Step("alert", 0.01),)}, horizon_s=0.5)
    guard = Guard(watching(), policy, provides=SIGNALS, clock=Clock())
    assert drive(guard, "far")[0].kind == "stop"  # throttle is provided, and missing
    guard.reset()
    rolling = guard.review(frame(0, "rolling", throttle=0.0))
    assert rolling.law == LAW and "braking" not in rolling.evidence
    fast = guard.review(frame(1, "far", throttle=60.0, speed=80.0))
    assert fast.law == SPEEDING and "throttle > 50" in fast.evidence


def test_two_laws_of_one_name_are_refused() -> None:
    """A rule for that name would hold for one of them, and nobody knows which."""
    stops = f"safe := {LAW}"
    slow = f"safe := {SPEEDING}"
    models = [replace(stopping(), laws=(stops,)), replace(speeding(), laws=(slow,))]
    for laws in ((), ("safe",)):
        with pytest.raises(InvalidModel, match="two laws have the name safe"):
            load_watch(models, horizon_s=1.0, laws=laws)
    both = replace(model(), laws=(stops, slow))
    with pytest.raises(InvalidModel, match="two laws have the name safe"):
        load_watch(both, horizon_s=1.0)
    with pytest.raises(InvalidModel, match="two laws have the name safe"):
        load_watch(model(), horizon_s=1.0, laws=(stops, slow))
    with pytest.raises(InvalidModel, match="two laws have the name safe"):
        model_for(models, "safe", "m.json")


def test_a_law_that_several_models_were_learned_for_is_watched_once() -> None:
    models = [replace(speeding(), laws=(SPEEDING,))] * 2
    watch = load_watch(models, horizon_s=1.0)
    assert [law.name for law in watch.laws] == [law.name for law in laws_of(models[0])]


def test_a_decision_has_the_risks_of_all_laws() -> None:
    policy = Policy(hold_s=0.0)
    clock = Clock()
    watch = load_watch([stopping(), speeding()], horizon_s=policy.horizon_s)
    guard = Guard(watch, policy, clock=clock)
    seen = {"stop_line_distance": 3.0, "speed": 55.0, "braking": False, "throttle": 0.0}
    decision = guard.review(Frame(0.0, 0, seen))
    assert decision.risks == {law.name: law.risk for law in watch.laws}
    assert set(decision.risks) == {LAW, SPEEDING}
    assert decision.risks[decision.law] == decision.risk
    assert "risks" not in decision.as_dict()
    fault = guard.review(Frame(0.1, 1, {}))
    assert fault.risks == {}
