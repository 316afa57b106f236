"""Drift is told by what came of whole runs; runs as in training are none."""

from dataclasses import replace

import numpy as np
import pytest

from forewarn.monitors.evaluation.evidence import Ordinary, Outcome
from forewarn.monitors.evaluation.figures import Promise
from forewarn.monitors.evaluation.guarantee import Guarantee
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.guarding.decision import Decision
from forewarn.monitors.guarding.drift import ENOUGH, Drift, Stated
from forewarn.monitors.guarding.policy import Policy, Step
from tests.monitors.guarding.test_watch import frame, watching

LAW = "no_collision"


def runs(
    rng: np.random.Generator, number: int, violating: float = 0.1
) -> list[Outcome]:
    """Runs whose risk tells of most violations."""
    found = []
    for broken, noise in zip(
        (rng.random(number) < violating).tolist(),
        rng.random(number).tolist(),
        strict=True,
    ):
        highest = 0.3 + 0.7 * noise if broken else 0.6 * noise**2
        excess = (0.2 if broken else 0.0) - highest / 10
        found.append(Outcome(broken, highest >= 0.4, highest, excess))
    return found


def policy(training: list[Outcome], kind: str = "alert") -> Policy:
    clean = [run for run in training if not run.violating]
    broken = [run for run in training if run.violating]
    promise = Promise(
        false_alarms=0.3, missed=0.3, confidence=0.95, clean=len(clean),
        alarmed=sum(run.alarmed for run in clean), violating=len(broken),
        undetected=sum(not run.alarmed for run in broken),
    )  # fmt: skip
    return Policy(
        rules={LAW: (Step(kind, 0.4),)},  # type: ignore[arg-type]
        promises={LAW: promise},
        ordinary={LAW: Ordinary.of(training)},
    )


RNG = np.random.default_rng(1)
POLICY = policy(runs(RNG, 1000))


def after(some: list[Outcome], by: Policy = POLICY) -> Drift:
    drift = Drift(by, [LAW])
    for run in some:
        drift.observe({LAW: run})
    return drift


def test_runs_as_in_training_are_no_drift() -> None:
    drift = after(runs(np.random.default_rng(2), 500))
    assert drift.found_at is None and drift.note == ""
    assert [each.runs for each in drift.examined if each.what == "violations"] == [500]
    assert {each.what for each in drift.examined} == {
        "violations", "false alarms", "missed violations", "calibration",
        "highest risk",
    }  # fmt: skip
    (sentence,) = drift.sentences()
    assert "No drift in 500 runs" in sentence


def test_violations_that_triple_are_drift() -> None:
    drift = after(runs(np.random.default_rng(3), 200, 0.3))
    assert drift.note.startswith("the model no longer fits: ")
    assert drift.as_dict()["found_at"] == drift.found_at
    (sentence,) = drift.sentences()
    assert drift.note in sentence


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("false alarms", lambda run: replace(run, alarmed=True)),
        ("missed violations", lambda run: replace(run, alarmed=False)),
        ("calibration", lambda run: replace(run, excess=run.excess + 0.02)),
        ("highest risk", lambda run: replace(run, highest=run.highest / 2)),
    ],
)
def test_each_change_is_found_by_its_statistic(what: str, changed: object) -> None:
    some = runs(np.random.default_rng(4), 500)
    drift = after([changed(run) for run in some])  # type: ignore[operator]
    assert drift.found_at is not None
    most = max(drift.examined, key=lambda each: each.share * each.by.evidence)
    assert most.what == what


def test_more_ordinary_runs_give_a_better_rate() -> None:
    known = runs(np.random.default_rng(6), 4000)
    few, more = policy(known[:250]), policy(known)
    for ordinary, runs_of_the_rate in ((few, 250), (more, 4000)):
        drift = after([], replace(few, ordinary=ordinary.ordinary))
        told = [each.reference for each in drift.examined if each.what == "violations"]
        assert told[0].endswith(f" of {runs_of_the_rate}")
    doubled = runs(np.random.default_rng(7), 200, 0.2)
    sooner = after(doubled, replace(few, ordinary=more.ordinary)).found_at
    later = after(doubled, few).found_at
    assert sooner is not None and later is not None and sooner < later - 20


def test_figures_of_fewer_runs_do_not_replace_a_better_rate() -> None:
    known = runs(np.random.default_rng(6), 1000)
    few = Ordinary.of(known[:250])
    for ordinary in (few, few.model_copy(update={"violating": None})):
        drift = after([], replace(policy(known), ordinary={LAW: ordinary}))
        told = [each.reference for each in drift.examined if each.what == "violations"]
        assert told[0].endswith(" of 1000")


def test_the_shares_are_the_whole_level_and_the_evidence_their_sum() -> None:
    drift = after(runs(np.random.default_rng(5), 30))
    assert sum(each.share for each in drift.examined) == pytest.approx(1.0)
    parts = sum(each["evidence"] for each in drift.as_dict()["examined"])
    assert parts == pytest.approx(drift.evidence) and drift.evidence < ENOUGH


def test_false_alarms_are_unknown_where_a_guard_intervenes() -> None:
    drift = after([], policy(runs(RNG, 500), "stop"))
    assert [each.what for each in drift.examined] == [
        "violations", "alarms", "violations without alarm",
    ]  # fmt: skip


def test_guarded_runs_are_compared_with_the_certified_rate() -> None:
    kept = Guarantee(
        violating=0.02, slowed=0.1, confidence=0.95, runs=299, broke=1, prolonged=9,
        seeds=(0, 298), scenario="s", pilot="p", drawn="", model="", policy="",
    )  # fmt: skip
    rng = np.random.default_rng(4)
    # In training, without interventions, 10 % of the runs broke the law.
    acting = replace(policy(runs(rng, 1000), "stop"), kept=kept)
    worse = runs(rng, 300, violating=0.1)
    found = after(worse, acting)
    assert found.found_at is not None
    assert "violations of no_collision" in found.note
    assert "guaranteed: at most 0.02" in found.note
    fine = [replace(run, violating=False) for run in worse]
    assert "guaranteed" not in after(fine, acting).note
    watching = replace(policy(runs(rng, 1000)), kept=kept)
    assert all("0.02" not in each.reference for each in after([], watching).examined)


def test_without_training_figures_drift_is_reported_as_not_examined() -> None:
    drift = after(runs(RNG, 5), Policy(shadow=True))
    assert drift.examined == [] and drift.evidence == 1.0
    assert not [*drift.sentences()]
    assert [each.split(" of ")[0] for each in drift.as_dict()["not_examined"]] == [
        "violations", "false alarms", "missed violations", "calibration",
        "highest risk",
    ]  # fmt: skip


def test_the_figures_of_training_are_kept_in_the_policy() -> None:
    assert Policy.from_dict(POLICY.as_dict(), "policy.yaml") == POLICY


def test_an_outcome_has_the_highest_risk_and_the_violations() -> None:
    watch = watching()
    law = watch.laws[0].name
    log = Stated(Policy(rules={law: (Step("alert", 0.9),)}))
    assert log.outcomes([]) == {}
    risks = []
    for number, state in enumerate(["far", "rolling", "rolling", "stopped"]):
        at = frame(number, state)
        watch.read(at)
        risk = watch.laws[0].risk
        risks.append(risk.point)
        log.decided(watch, at, Decision("proceed", number, at.time_s, law, risk))
    kept = log.outcomes([])[law]
    assert (kept.violating, kept.highest) == (False, max(risks))
    assert kept.excess == pytest.approx(-sum(risks) / 4)
    broken = [Broken(law, 9.0, 0.2), Broken(law, 9.5, 9.5)]
    found = log.outcomes(broken)[law]
    assert (found.violating, found.highest) == (True, max(risks[:2]))
    assert found.excess == pytest.approx(1 - sum(risks) / 4)
