"""How the commands that guard a loop of somebody else's make its guard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.runs.episodes import (
    accept_option,
    chosen_policy,
    facts_of,
    gaps,
    guard_program_option,
    intervene_option,
    judges_named,
    place_option,
    predicates_option,
    rules_option,
    telling_options,
    user_option,
)

if TYPE_CHECKING:
    from forewarn.monitors.chains.model import Model
    from forewarn.monitors.guarding.guard import Clock, Guard
    from forewarn.monitors.guarding.judges import Judge
    from forewarn.monitors.guarding.policy import Policy
    from forewarn.monitors.laws.lawbook import Law

_FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Judging:
    """The rules and guard programs that options name, to judge beside the risk.

    Args:
        programs: Files of guard programs.
        user: What they are told of who asks.
        place: What they are told of where this is.
        rules: Files of rules.
        predicates: Files of predicates that the rules use.
    """

    programs: Sequence[Path] = ()
    user: Sequence[str] = ()
    place: Sequence[str] = ()
    rules: Sequence[Path] = ()
    predicates: Sequence[Path] = ()

    def judges(self, shadow: bool) -> list[Judge]:
        """They, anew for each guard: each remembers its own run."""
        return judges_named(
            self.programs, self.user, self.place, shadow, self.rules, self.predicates
        )


@dataclass(frozen=True, slots=True)
class Fitting:
    """What is to be guarded, as options say, and whether any model will do.

    Args:
        scenario: The scenario that it is.
        accept: Whether a model of something else is taken all the same.
    """

    scenario: str | None = None
    accept: bool = False

    def check(self, made: GuardMaker, **source: Any) -> None:
        """Refuses a model that is of something else.

        Args:
            made: Has the model.
            source: What the frames' source says of itself: its vocabulary, its period.
        """
        from forewarn.monitors.chains.fitting import refuse_other
        from forewarn.scenarios.schema import load_scenario

        said = {} if self.scenario is None else facts_of(load_scenario(self.scenario))
        if not self.accept:
            refuse_other(made.model, str(made.path), **{**said, **source})


def guard_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--model, --policy and --law: what a guard is made of; who judges, who is told.

    The command is handed those who judge beside it as `judging`, those who are told of
    interventions as `telling`, and what the model must be of as `fitting`.
    """

    @wraps(command)
    def handed(
        *arguments: Any,
        guard_programs: tuple[Path, ...],
        user: tuple[str, ...],
        place: tuple[str, ...],
        rule_files: tuple[Path, ...],
        predicate_files: tuple[Path, ...],
        scenario: str | None,
        accept: bool,
        **rest: Any,
    ) -> Any:
        rest["fitting"] = Fitting(scenario, accept)
        judging = Judging(guard_programs, user, place, rule_files, predicate_files)
        return command(*arguments, judging=judging, **rest)

    found: Callable[..., Any] = telling_options(handed)
    for option in (
        place_option,
        user_option,
        guard_program_option,
        predicates_option,
        rules_option,
        intervene_option,
        accept_option,
        click.option(
            "--scenario",
            metavar="NAME",
            help="The scenario that this is: a model of another one is refused.",
        ),
        click.option(
            "--law",
            "laws",
            multiple=True,
            metavar="NAME_OR_FORMULA",
            help="A law to watch, by default those that the policy names, or else the"
            " model's; may be given again.",
        ),
        click.option(
            "--policy", "policy_path", type=_FILE, help="What to do at which risk."
        ),
        click.option(
            "--model", "model_path", type=_FILE, required=True, help="The model."
        ),
    ):
        found = option(found)
    return found


@dataclass(frozen=True, slots=True)
class GuardMaker:
    """Makes guards by one model and one policy.

    Args:
        path: The model's file.
        model: What it holds.
        policy: What is done at which risk.
        policy_path: Its file, for errors.
        laws: Those to watch; none: those that the policy names, or else the model's.
        judging: Who judges beside the risk.
    """

    path: Path
    model: Model
    policy: Policy
    policy_path: Path | None = None
    laws: Sequence[str] = ()
    judging: Judging = Judging()

    @classmethod
    def of(
        cls,
        model_path: Path,
        policy_path: Path | None,
        laws: Sequence[str],
        shadow: bool = False,
        judging: Judging = Judging(),
        intervene: str | None = None,
    ) -> GuardMaker:
        """That which the options ask for."""
        from forewarn.monitors.chains.model import load_model
        from forewarn.monitors.guarding.policy import Policy

        model = load_model(model_path)
        policy = chosen_policy(
            policy_path, None, Policy().horizon_s, intervene, (),
            laws=_laws_of(model, laws) if intervene else (),
        )  # fmt: skip
        policy = replace(policy, shadow=policy.shadow or shadow)
        return cls(model_path, model, policy, policy_path, laws, judging)

    def __call__(
        self, provides: Sequence[str] | None, clock: Clock = time.monotonic
    ) -> Guard:
        """A guard for a source of those signals."""
        from forewarn.monitors.guarding.guard import Guard
        from forewarn.monitors.guarding.policy import InvalidPolicy
        from forewarn.monitors.guarding.watch import load_watch

        watch = load_watch(
            self.model,
            horizon_s=self.policy.horizon_s,
            delta=self.policy.delta,
            laws=self.laws or self.policy.laws,
            provides=provides,
            source=str(self.path),
        )
        try:
            return Guard(
                watch,
                self.policy,
                provides=provides,
                clock=clock,
                judges=self.judging.judges(self.policy.shadow),
            )
        except InvalidPolicy as error:
            raise error.within(str(self.policy_path)) from None


def _laws_of(model: Model, named: Sequence[str]) -> list[Law]:
    """The laws that are watched, for what may be done about each."""
    from forewarn.abstractions.states.abstraction import Abstraction
    from forewarn.monitors.laws.lawbook import find_laws

    found = dict(model.abstraction or {})
    vocabulary = Abstraction.from_dict(found, "the model").vocabulary if found else None
    texts = named or model.laws
    return [law for text in texts for law in find_laws(text, vocabulary=vocabulary)]


def watched(guard: Guard) -> dict[str, Any]:
    """What a guard says of itself when it begins, as JSON."""
    return {
        "laws": [law.name for law in guard.watch.laws],
        "not_applicable": [list(each) for each in guard.watch.not_applicable],
        "without_rule": list(guard.without_rule),
        "does": {
            law.name: [step.kind for step in guard.policy.steps_for(law.name)]
            for law in guard.watch.laws
        },
    }


def announced(guard: Guard) -> Iterator[str]:
    """What it will do about each law, and which laws it does not act on, and why."""
    left_out = dict(guard.watch.not_applicable)
    for law, why in left_out.items():
        yield f"The law {law} does not apply: {why}."
    names = [law.name for law in guard.watch.laws]
    yield from gaps(guard.policy, names, left_out)
    alerted = guard.policy.only_alerts(names)
    for law in names:
        steps = guard.policy.steps_for(law)
        does = ", ".join(f"{step.kind} from {step.threshold:g}" for step in steps)
        if law in alerted:
            yield f"Of the law {law} it alerts only: nothing is done about it."
        elif steps:
            yield f"At a risk of the law {law}: {does}."
        elif law not in guard.without_rule:
            yield f"The policy gives no threshold for the law {law}: nothing is done."
    if guard.policy.shadow:
        yield "It decides and records, and enforces nothing."
