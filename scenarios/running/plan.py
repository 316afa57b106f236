"""The common settings of a campaign's episodes, which can be sent to other
processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from forewarn.abstractions.files import write_json
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.chains.model import is_riskless, riskless
from forewarn.monitors.guarding.certificate import digest_of
from forewarn.monitors.guarding.decision import Judge
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.loop.approval import Approver
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.records import ModelFile
from forewarn.plugins.loop.replay import make_judge
from forewarn.scenarios.running.episode import Mode
from forewarn.scenarios.running.runner import Runner
from forewarn.scenarios.schema import (
    InvalidScenario,
    NamedPlugin,
    Scenario,
    load_scenario,
)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A scenario to run, with or without a guard.

    Args:
        scenario: The scenario's file.
        digest: The digest of the scenario; without a guard, only of the parts that
            determine unguarded runs.
        laws: The watched laws.
        pilot: The pilot, as JSON.
        model: The model's file; empty without a guard.
        model_digest: The digest of the model's file.
        policy: The policy, as JSON; empty without a guard.
        judges: Rules and programs that are evaluated in addition to the risk, as JSON.
        listeners: Functions that create listeners, called once per process.
        approver: A function that creates the approver; None if there is none.
        pace: The speed of the world relative to real time; 0 for as fast as possible.
    """

    scenario: str
    digest: str
    laws: tuple[str, ...]
    pilot: str
    model: str = ""
    model_digest: str = ""
    policy: str = ""
    judges: tuple[str, ...] = ()
    listeners: tuple[Callable[[], Listener], ...] = ()
    approver: Callable[[], Approver] | None = None
    pace: float = 0.0

    @property
    def mode(self) -> Mode:
        """The mode: `unguarded`, `shadow` or `guarded`."""
        if not self.policy:
            return "unguarded"
        return "shadow" if json.loads(self.policy)["shadow"] else "guarded"

    def watching(self) -> RunPlan:
        """Returns the same plan with the guard in shadow mode."""
        if not self.policy:
            return self
        policy = {**json.loads(self.policy), "shadow": True}
        return replace(self, policy=json.dumps(policy, sort_keys=True))

    def keep_model(self, folder: Path) -> None:
        """Copies the model next to the records, so that they can be replayed."""
        if self.model:
            ModelFile.of(Path(self.model)).keep(folder)


def plan(
    scenario: Scenario,
    model: Path | None = None,
    policy: Policy | None = None,
    listeners: Sequence[Callable[[], Listener]] = (),
    approver: Callable[[], Approver] | None = None,
    judges: Sequence[Judge] = (),
    pace: float = 0.0,
) -> RunPlan:
    """Creates a plan to run a scenario, with a guard if a model is given.

    The scenario's own rules are evaluated before `judges`.
    """
    pilot = scenario.pilot.model_dump_json()
    source, laws = scenario.source, scenario.references
    if model is None:
        return RunPlan(source, scenario.unguarded_digest, laws, pilot, pace=pace)
    return RunPlan(
        source,
        scenario.digest,
        laws,
        pilot,
        str(model),
        digest_of(model),
        json.dumps((policy or Policy()).as_dict(), sort_keys=True),
        (*scenario.judges, *(json.dumps(judge.as_dict()) for judge in judges)),
        tuple(listeners),
        approver,
        pace,
    )


def without_risk(scenario: Scenario, folder: Path) -> Path:
    """Writes a model that predicts no risk, for guards that use only rules; returns its
    path.
    """
    abstraction = scenario.abstraction
    if abstraction.period_s is None:
        raise InvalidScenario(
            "rules cannot be used without a model, because the abstraction has no "
            "period_s",
            source=scenario.source,
            mend="set the abstraction's period_s, the seconds between two states",
        )
    path = folder / "no-risk.model.json"
    model = riskless(abstraction.vocabulary, abstraction.period_s)
    write_json(path, model_as_dict(model))
    return path


def scenario_of(plan: RunPlan) -> Scenario:
    """Loads the scenario of a plan, with the plan's pilot and laws."""
    pilot = NamedPlugin.model_validate_json(plan.pilot)
    scenario = load_scenario(plan.scenario).under(plan.laws).driven_by(pilot)
    if plan.digest not in (scenario.digest, scenario.unguarded_digest):
        raise InvalidScenario(
            "the scenario was changed during the run", source=plan.scenario
        )
    return scenario


@lru_cache(maxsize=2)
def runner_of(plan: RunPlan) -> Runner:
    """Returns the runner of a plan, which is created once per process."""
    scenario = scenario_of(plan)
    if not plan.policy:
        return Runner(scenario)
    policy = Policy.from_dict(json.loads(plan.policy), "the policy")
    guarding = Guarding.load(
        Path(plan.model),
        policy,
        laws=scenario.references,
        judges=lambda: [make_judge(json.loads(content)) for content in plan.judges],
        listeners=plan.listeners,
        approver=None if plan.approver is None else plan.approver(),
    )
    if guarding.file is None or guarding.file.digest != plan.model_digest:
        raise InvalidScenario("the model was changed during the run", source=plan.model)
    if all(map(is_riskless, guarding.models)):
        guarding = replace(guarding, laws=())
    return Runner(scenario, guarding)
