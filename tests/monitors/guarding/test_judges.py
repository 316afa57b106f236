"""Rules and programs beside the risk: the severest of all is what is done."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import write_json
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.chains.model import Counts, Model, smoothed_chain
from forewarn.monitors.guarding.decision import Action, Judge, Judgement
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.guarding.watch import load_watch
from forewarn.plugins.loop.records import model_file
from forewarn.plugins.loop.replay import MAKERS, replay


class NoThrowing(Judge):
    """Says `kind` of whoever throws."""

    rules: Mapping[str, str] = {"no throwing": "nothing is thrown"}

    def __init__(self, **says: Any) -> None:
        self.says = {"kind": "skip"} | says
        self.episodes = 0

    def as_dict(self) -> Mapping[str, Any]:
        return {"format": "test", **self.says}

    def reset(self) -> None:
        self.episodes += 1

    def judge(self, frame: Frame, proposal: Action | None) -> Judgement | None:
        if proposal is None or proposal.name != "throw":
            return None
        return Judgement(rule="no throwing", reason="it may break", **self.says)


PREDICATES = ("speed > 60",)


def _model() -> Model:
    counts = Counts.from_rows([{0: 90, 1: 10}, {0: 20, 1: 80}])
    chain, _ = smoothed_chain(["0", "1"], counts, Fraction(0))
    abstraction = from_expressions(PREDICATES, load_vocabulary("driving"), name="fast")
    return Model(
        chain,
        counts=counts,
        alpha=Fraction(0),
        abstraction=abstraction.as_dict(),
        period_s=0.1,
        laws=("always speed <= 120",),
    )


def _guard(*judges: NoThrowing, **policy: Any) -> Guard:
    settings = Policy(**({"hold_s": 0.3} | policy))
    watch = load_watch(
        _model(), horizon_s=settings.horizon_s, laws=["always not speed > 60"]
    )
    return Guard(watch, settings, clock=lambda: 0.0, judges=judges)


def _frame(step: int, speed: float = 20.0) -> Frame:
    return Frame(round(step * 0.1, 3), step, {"speed": speed})


CALM: dict[str, Any] = {"rules": {"*": (Step("alert", 1.0),)}}
"""A policy that acts on no risk below 1."""


def test_a_judge_decides_where_no_risk_does() -> None:
    judge = NoThrowing(because=("line 1",))
    guard = _guard(judge, **CALM)
    assert judge.episodes == 1
    passed = guard.review(_frame(0), Action("put"))
    assert passed.kind == "proceed"
    decision = guard.review(_frame(1), Action("throw"))
    assert decision.kind == "skip" and decision.law == "no throwing"
    assert decision.reason == "it may break" and decision.evidence == ("line 1",)
    assert decision.risk is None
    # What it said was about that proposal alone.
    assert guard.review(_frame(2), Action("put")).kind == "proceed"


def test_the_severest_of_all_decides() -> None:
    guard = _guard(NoThrowing(), NoThrowing(kind="stop"), NoThrowing(kind="ask"))
    assert guard.review(_frame(0), Action("throw")).kind == "stop"
    fast = _guard(NoThrowing(kind="reflect"), rules={"*": Policy().rules["*"][-1:]})
    decision = fast.review(_frame(0, speed=90.0), Action("throw"))
    assert decision.kind == "stop" and decision.law != "no throwing"


def test_a_speed_that_a_judge_asks_for_is_held_and_the_lowest_counts() -> None:
    guard = _guard(
        NoThrowing(kind="slow", cap_kmh=30.0), NoThrowing(kind="slow", cap_kmh=20.0),
        NoThrowing(kind="slow", cap_kmh=40.0), **CALM,
    )  # fmt: skip
    assert guard.review(_frame(0), Action("throw")).cap_kmh == 20.0
    held = [guard.review(_frame(step), Action("put")) for step in (1, 2, 3, 4)]
    assert [each.kind for each in held] == ["slow", "slow", "slow", "proceed"]
    assert held[0].cap_kmh == 20.0


def test_a_judge_that_fails_lets_nothing_pass() -> None:
    judge = NoThrowing()
    guard = _guard(judge, **CALM)
    judge.says = {"kind": "no such kind"}
    decision = guard.review(_frame(0), Action("throw"))
    assert decision.kind == "stop" and "cannot judge" in decision.reason


def test_a_judge_that_takes_too_long_lets_nothing_pass() -> None:
    readings = iter([0.0] * 6 + [9.0] * 9)
    settings = Policy(**CALM)
    watch = load_watch(_model(), horizon_s=3.0, laws=["always not speed > 60"])
    guard = Guard(watch, settings, clock=lambda: next(readings), judges=[NoThrowing()])
    decision = guard.review(_frame(0), Action("put"))
    assert decision.kind == "stop" and "took longer" in decision.reason


def _recorded(folder: Path) -> Path:
    model = folder / "model.json"
    write_json(model, model_as_dict(_model()))
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    record = folder / "run.jsonl"
    model.rename(model_file(record, digest))
    guard = _guard(judge := NoThrowing(), **CALM)
    header = {
        "model": {"sha256": digest},
        "policy": guard.policy.as_dict(),
        "laws": ["always not speed > 60"],
        "provides": None,
        "judges": [judge.as_dict()],
    }
    with RunRecord(record, header) as kept:
        guard.reset([kept])
        for step, verb in enumerate(("put", "throw", "put")):
            guard.review(_frame(step), Action(verb))
    return record


def _remade(**changes: Any) -> Callable[[Mapping[str, Any]], NoThrowing]:
    def make(content: Mapping[str, Any]) -> NoThrowing:
        assert content["format"] == "test"
        says = {k: v for k, v in content.items() if k != "format"}
        return NoThrowing(**(says | changes))

    return make


def test_decisions_of_judges_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = _recorded(tmp_path)
    with pytest.raises(InvalidInput, match="a judge of an unknown format: 'test'"):
        replay(record)
    monkeypatch.setitem(MAKERS, "test", _remade())
    assert replay(record) == (3, None)
    monkeypatch.setitem(MAKERS, "test", _remade(kind="ask"))
    alike, divergence = replay(record)
    assert alike == 1 and divergence is not None
    assert (divergence.field, divergence.recorded) == ("decision", "skip")
