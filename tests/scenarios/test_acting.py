"""Thresholds for acting: measured with the guard acting, and what they are worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.monitors.risk.calibration import Calibration
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.warrant import KEPT, Warrant
from forewarn.scenarios.measuring.pairs import standing
from forewarn.scenarios.running.pools import Here
from forewarn.scenarios.running.runner import Runner
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.training.acting import (
    MORE,
    Acted,
    Trial,
    acting_policy,
    best_of,
    thresholds_of,
)
from forewarn.scenarios.training.certifying import Wanted, acted_on, certified
from forewarn.scenarios.training.train import collected
from forewarn.scenarios.training.tune import Tuned
from forewarn.scenarios.warrant.folder import write_acting
from tests.scenarios import learned

ROAD = load_scenario("tiny-road")
LAWS = ROAD.laws


def at_all(threshold: float) -> dict[str, float]:
    return {law.name: threshold for law in LAWS}


def test_it_counts_what_a_guard_that_acts_prevents(tmp_path: Path) -> None:
    base = Policy("acts", horizon_s=3.0)
    policies = [acting_policy(base, LAWS, "stop", at_all(at)) for at in (0.1, 0.9)]
    assert policies[0].steps_for(LAWS[0].name) == (Step("stop", 0.1),)
    trial = Trial(ROAD, learned.model("tiny-road"), 0.05, Here(), tmp_path)
    trial.begin(range(learned.FRESH, learned.FRESH + 12), learned.FRESH + 12, 1)
    assert len(trial.before) == 12
    low, high = map(trial.at, policies)
    assert (low.threshold, high.thresholds) == (0.1, at_all(0.9))
    assert low.violating == high.violating == trial.violating > 0
    assert low.prevented >= high.prevented
    assert low.interventions >= high.interventions
    assert low.interventions >= low.clean_stopped >= high.clean_stopped
    needless = low.clean_stopped + low.prolonged + low.stationary_s / 60
    assert low.worth == low.prevented - 0.05 * needless


def test_it_does_not_repeat_runs_that_were_collected(tmp_path: Path) -> None:
    seeds = range(learned.FRESH, learned.FRESH + 4)
    collected(ROAD, seeds, Here(), tmp_path)
    results = sorted((tmp_path / "episodes").iterdir())
    trial = Trial(ROAD, learned.model("tiny-road"), 0.05, Here(), tmp_path)
    trial.begin(seeds, seeds.stop, 0)
    assert [each.seed for each in trial.before] == list(seeds)
    assert sorted((tmp_path / "episodes").iterdir()) == results


def test_a_run_it_left_alone_is_the_same_with_every_higher_threshold(
    tmp_path: Path,
) -> None:
    model = learned.model("tiny-road")
    policies = [
        replace(acting_policy(Policy("acts"), LAWS, "stop", at_all(at)), hold_s=hold_s)
        for at, hold_s in ((0.1, 0.5), (0.5, 0.5), (0.1, 3.0), (0.9, 3.0))
    ]
    seeds = range(learned.FRESH, learned.FRESH + 12)
    ran: list[int] = []

    def counted(items: Any, what: str, total: int) -> Any:
        ran.append(total)
        return items

    together = Trial(ROAD, model, 0.05, Here(), tmp_path / "a", counted)
    together.begin(seeds, seeds.stop, 1)
    for number, policy in enumerate(policies):
        alone = Trial(ROAD, model, 0.05, Here(), tmp_path / str(number))
        alone.begin(seeds, seeds.stop, 1)
        assert together.at(policy) == alone.at(policy)
    assert ran[:2] == [12, 12]
    assert max(ran[2:]) < 12


def test_runs_are_added_until_there_are_violations_enough(tmp_path: Path) -> None:
    model, beyond = learned.model("tiny-road"), learned.FRESH + 10
    trial = Trial(ROAD, model, 0.05, Here(), tmp_path)
    trial.begin(range(learned.FRESH, beyond), beyond, 1000)
    seeds = [each.seed for each in trial.before]
    assert seeds == [*range(learned.FRESH, beyond + (MORE - 1) * 10)]
    few = Trial(ROAD, model, 0.05, Here(), tmp_path)
    few.begin(range(learned.FRESH, beyond), beyond, trial.violating - 1)
    assert few.violating >= trial.violating - 1
    assert few.before == trial.before[: len(few.before)]


def test_guard_does_not_stop_a_car_for_a_law_that_asks_to_move() -> None:
    warned = Policy("warns", rules={"38_1": (Step("alert", 0.2),)})
    moving = find_laws("38_1")
    laws = [*moving, *LAWS]
    both = acting_policy(warned, laws, "stop", {law.name: 0.3 for law in laws})
    assert both.steps_for("38_1") == (Step("alert", 0.2),)
    assert both.steps_for(LAWS[0].name) == (Step("stop", 0.3),)
    with pytest.raises(InvalidInput, match="38_1: a stop cannot help"):
        acting_policy(warned, moving, "stop", {"38_1": 0.3})


TRIED = Acted(0.3, {"law": 0.3}, 3.0, 10, 8, 0, 28, 20, 20, 2, 1.0, 0.0, 0.05)


def test_the_best_is_worth_most_and_of_those_alike_is_in_the_middle() -> None:
    late = replace(TRIED, threshold=0.5, clean_stopped=18)
    later = replace(TRIED, threshold=0.7, clean_stopped=17)
    eager = replace(TRIED, threshold=0.1, prevented=9, clean_stopped=60)
    assert best_of([eager, TRIED, late, later]) is late
    cheap = [replace(each, cost=0.01) for each in (eager, TRIED, late)]
    assert best_of(cheap).threshold == 0.1
    longer = replace(TRIED, hold_s=9.0)
    assert best_of([late, longer, TRIED, later]) in (late, TRIED)


def test_standing_is_no_better_than_stopping_clean_runs() -> None:
    standing = replace(TRIED, stationary_s=600.0)
    stopping = replace(TRIED, clean_stopped=TRIED.clean_stopped + 9)
    assert stopping.worth > standing.worth > replace(stopping, caused=1).worth - 0.1
    assert standing.as_dict()["left"] == 2


def test_acting_that_is_worth_nothing_is_refused() -> None:
    dear = replace(TRIED, cost=0.5)
    with pytest.raises(InvalidInput, match="not worth their cost: they prevent"):
        best_of([dear])


def test_what_makes_too_many_clean_runs_longer_is_not_taken() -> None:
    eager = replace(TRIED, threshold=0.1, prevented=10, prolonged=3)
    assert best_of([eager, TRIED]) is eager
    assert best_of([eager, TRIED], 0.1) is TRIED
    with pytest.raises(InvalidInput, match="slows 2 of 20 clean runs"):
        best_of([eager, TRIED], 0.05)


class Told(Trial):
    """A trial whose outcomes are given: by threshold and by how long it holds."""

    def __init__(self, told: dict[tuple[float, float], Acted]) -> None:
        self.told, self.asked = told, list[tuple[float, float]]()

    def at(self, policy: Policy) -> Acted:
        (threshold,) = thresholds_of(policy).values()
        self.asked.append((threshold, policy.hold_s))
        acted = self.told[self.asked[-1]]
        return replace(acted, threshold=threshold, hold_s=policy.hold_s)


def policies(*thresholds: float) -> list[Policy]:
    return [Policy(rules={"law": (Step("stop", at),)}) for at in thresholds]


@pytest.mark.parametrize(("prolonged", "best"), [(2, (0.4, 3.0)), (3, (0.2, 0.5))])
def test_thresholds_and_holds_are_searched_together(
    prolonged: int, best: tuple[float, float]
) -> None:
    trial = Told(
        {
            (0.2, 0.5): TRIED,
            (0.4, 0.5): replace(TRIED, prevented=7),
            (0.2, 3.0): replace(TRIED, prevented=7),
            (0.4, 3.0): replace(TRIED, prevented=10, prolonged=prolonged),
        }
    )
    tried, found = trial.search(policies(0.2, 0.4), (3.0, 0.5), 0.1)
    assert trial.asked == [(0.2, 0.5), (0.4, 0.5), (0.2, 3.0), (0.4, 3.0)]
    assert ((found.threshold, found.hold_s), len(tried)) == (best, 4)


def test_higher_thresholds_are_left_out_once_they_come_too_late() -> None:
    prevented = {0.1: 9, 0.2: 8, 0.3: 9, 0.4: 7, 0.5: 6, 0.6: 10}
    trial = Told(
        {(at, 1.0): replace(TRIED, prevented=n) for at, n in prevented.items()}
    )
    tried, best = trial.search(policies(*prevented), (1.0,), 0.1)
    assert [each.threshold for each in tried] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert best.threshold == 0.3


def test_nothing_is_too_late_before_something_may_be_taken() -> None:
    trial = Told(
        {
            (0.1, 1.0): replace(TRIED, prevented=10, prolonged=9),
            (0.2, 1.0): replace(TRIED, prevented=5, prolonged=6),
            (0.3, 1.0): replace(TRIED, prevented=4, prolonged=5),
            (0.4, 1.0): replace(TRIED, prevented=3, prolonged=1),
        }
    )
    tried = policies(0.1, 0.2, 0.3, 0.4)
    assert trial.search(tried, (1.0,), 0.1)[1].threshold == 0.4


class Apart(Trial):
    """A trial in which only one law needs an early stop."""

    def __init__(self) -> None:
        self.scenario = load_scenario("roundabout")

    def at(self, policy: Policy) -> Acted:
        at = thresholds_of(policy)
        prevented = 10 - round(20 * max(0.0, at["no_collision"] - 0.2))
        needless = round(40 * (1.0 - at["give_way"]))
        return replace(
            TRIED, threshold=min(at.values()), thresholds=at, hold_s=policy.hold_s,
            prevented=prevented, clean_stopped=needless, prolonged=0,
        )  # fmt: skip


def test_one_law_may_need_an_earlier_stop_than_the_others() -> None:
    trial = Apart()
    curves = dict.fromkeys(("give_way", "no_collision"), Calibration())
    best = cast(Tuned, SimpleNamespace(horizon_s=3.0, calibration=curves))
    policy, tried, taken = trial.settle(best, Policy(), "stop", (0.5,), 1.0, {})
    assert thresholds_of(policy) == taken.thresholds
    assert taken.thresholds["no_collision"] < 0.4 < taken.thresholds["give_way"]
    assert taken.worth > max(
        each.worth for each in tried if len(set(each.thresholds.values())) == 1
    )


def test_guarded_runs_revoke_a_certificate_that_they_refute(tmp_path: Path) -> None:
    """Of real guarded runs, each breaks a law where at most 1 % should."""
    road = load_scenario("tiny-road")
    model, rules = learned.model("tiny-road"), {"*": (Step("stop", 0.99),)}
    policy = Policy(rules=rules, horizon_s=road.horizon_s, revoked="continue")
    seeds = range(learned.FRESH, learned.FRESH + 60)
    pairs = acted_on(road, model, policy, seeds, Here(), tmp_path / "runs")
    wanted = Wanted(0.01, 0.5, 0.95, seeds)
    kept = certified(road, model, policy, wanted, pairs)
    policy = replace(policy, kept=kept)
    write_acting(tmp_path / "guard", model, policy)
    guarded = tmp_path / "guard" / "model.json"
    bad = [after for _, after in pairs if after.violations]
    assert bad
    found = standing(policy, road, model, [after for _, after in pairs] + bad * 9)
    assert found is not None and "no longer holds" in found.sentence()
    assert found.as_dict()["revoked"]
    fresh = standing(policy, road, guarded, ())
    assert fresh is not None and fresh.sentence() == kept.sentence()
    shadow = replace(policy, shadow=True)
    Runner(road, Guarding.load(guarded, shadow, laws=road.references)).run(bad[0].seed)
    plain = Runner(road, Guarding.load(guarded, policy, laws=road.references))
    for _ in range(9):
        plain.run(bad[0].seed)
    evidence = Warrant(tmp_path / "guard")
    (rate,) = evidence.told()["evidence"].values()
    assert (rate["runs"], rate["happened"]) == (1, 1), "a seed counts once"
    for _ in range(9):
        evidence.count({KEPT: True})
    assert evidence.revoked()
    stopped = next(after.seed for _, after in pairs if after.interventions)
    again = Runner(road, Guarding.load(guarded, policy, laws=road.references))
    assert again.run(stopped).interventions, "the guard still intervenes"
    later = standing(policy, road, guarded, ())
    assert later is not None and "6 of 6 runs" in later.sentence()
