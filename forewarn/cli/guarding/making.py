"""The options of the commands that guard a loop of somebody else's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.options.judging import Judging, judging_options
from forewarn.cli.options.models import (
    accept_option,
    facts_of,
    model_option,
    tally_option,
)
from forewarn.cli.options.policies import (
    chosen_policy,
    intervene_option,
    policy_option,
)
from forewarn.cli.options.telling import Telling, person, telling_options
from forewarn.cli.support import naming, option_group

if TYPE_CHECKING:
    from forewarn.abstractions.frame import Source
    from forewarn.monitors.chains.model import Model
    from forewarn.monitors.guarding.listening import Listener
    from forewarn.monitors.laws.lawbook import Law
    from forewarn.plugins.loop.guarding import Guarding
    from forewarn.plugins.loop.loop import GuardedLoop


@dataclass(frozen=True, slots=True)
class Asked:
    """The guard that options ask for.

    Args:
        model: The model's file.
        policy_path: The policy's.
        laws: Those to watch; none: those that the policy names, or else the model's.
        intervene: What it may do.
        scenario: The scenario that this is.
        accept: Whether a model of something else is taken all the same.
        judging: Who judges beside the risk.
        telling: Who is told of interventions.
        tally: The file of what they count.
        shadow: Whether nothing is enforced.
    """

    model: Path
    policy_path: Path | None
    laws: tuple[str, ...]
    intervene: str | None
    scenario: str | None
    accept: bool
    judging: Judging
    telling: Telling
    tally: Path | None
    shadow: bool

    def guarding(
        self,
        record: Path | None = None,
        live: Sequence[Callable[[], Listener]] = (),
    ) -> Guarding:
        """What its guards are made of.

        Args:
            record: Where run records go.
            live: Make who watches live.
        """
        from forewarn.monitors.guarding.policy import Policy
        from forewarn.plugins.loop.guarding import Guarding
        from forewarn.plugins.loop.tallies import TallyFile

        made = Guarding.load(
            self.model, laws=self.laws, approver=person(), record=record
        )
        policy = chosen_policy(
            self.policy_path, None, Policy().horizon_s, self.intervene, (),
            laws=_laws_of(made.models, self.laws) if self.intervene else (),
        )  # fmt: skip
        policy = replace(policy, shadow=policy.shadow or self.shadow)
        return replace(
            made,
            policy=policy,
            judges=lambda: self.judging.judges(policy.shadow),
            listeners=[*self.telling.listeners(), *live],
            tally=None if self.tally is None else TallyFile(self.tally, made.models),
        )

    def open(self, guarding: Guarding, source: Source, **rest: Any) -> GuardedLoop:
        """A guarded loop for a source; what is wrong with the policy names its file."""
        with naming(self.policy_path or "the policy"):
            return guarding.open(source, **rest)

    def check(self, guarding: Guarding, **source: Any) -> None:
        """Refuses a model that is of something else.

        Args:
            guarding: Has the model.
            source: What the frames' source says of itself: its scenario, its
                vocabulary, its period, and how exactly it says that.
        """
        from forewarn.monitors.chains.model import refuse_other
        from forewarn.scenarios.schema import load_scenario

        said = {} if self.scenario is None else facts_of(load_scenario(self.scenario))
        said |= {name: value for name, value in source.items() if value is not None}
        if not self.accept:
            for model in guarding.models:
                refuse_other(model, guarding.name, **said)


guard_options = option_group(
    "asked",
    Asked,
    model_option(required=True),
    policy_option,
    click.option(
        "--law",
        "laws",
        multiple=True,
        metavar="NAME_OR_FORMULA",
        help="A law to watch, by default those that the policy names, or else the"
        " model's; may be given again.",
    ),
    click.option(
        "--scenario",
        metavar="NAME",
        help="The scenario that this is: a model of another one is refused.",
    ),
    accept_option,
    intervene_option,
    judging_options,
    telling_options,
    tally_option,
    click.option("--shadow", is_flag=True, help="Decide everything, enforce nothing."),
)


def _laws_of(models: Sequence[Model], named: Sequence[str]) -> list[Law]:
    """The laws that are watched, for what may be done about each."""
    from forewarn.monitors.laws.lawbook import find_laws
    from forewarn.monitors.risk.evidence import abstraction_of

    abstraction = abstraction_of(models[0])
    vocabulary = None if abstraction is None else abstraction.vocabulary
    texts = named or [text for model in models for text in model.laws]
    return [law for text in texts for law in find_laws(text, vocabulary=vocabulary)]
