"""What a guarded loop is made of, apart from what it guards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidExpression, InvalidInput, InvalidModel
from forewarn.monitors.chains.model import Model, load_models
from forewarn.monitors.guarding.guard import Clock, Guard
from forewarn.monitors.guarding.judges import Judge
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import Watch, load_watch
from forewarn.plugins.contracts import Foresight, World
from forewarn.plugins.loop.alerts import Alert
from forewarn.plugins.loop.approval import Approver
from forewarn.plugins.loop.loop import Audience
from forewarn.plugins.loop.records import digest_of
from forewarn.plugins.loop.tallies import TallyFile


@dataclass(frozen=True, slots=True)
class Guarding:
    """Makes guards by a model and a policy, one for each source that is watched.

    Args:
        models: What was learned: one, or several, each of its own laws.
        policy: What is done at which risk.
        name: The model's file, for errors.
        facts: What a record's header says of that file.
        laws: Names or formulas; none: those that the policy names, or the model's.
        judges: Make who judges beside the risk, anew for each guard: each remembers
            its own run.
        alerts: Told of each intervention when it begins.
        approver: Who is asked; without one `ask` escalates.
        tally: Where the transitions go that were seen while nobody stepped in.
        audience: Who watches live.
    """

    models: Sequence[Model]
    policy: Policy = field(default_factory=Policy)
    name: str = "the model"
    facts: Mapping[str, Any] = field(default_factory=dict)
    laws: Sequence[str] = ()
    judges: Callable[[], Sequence[Judge]] = tuple
    alerts: Sequence[Alert] = ()
    approver: Approver | None = None
    tally: TallyFile | None = None
    audience: Sequence[Audience] = ()

    @classmethod
    def load(cls, path: Path, policy: Policy | None = None, **rest: Any) -> Guarding:
        """By a model's file; the rest as the class has it."""
        facts = {"sha256": digest_of(path), "name": path.name}
        models = load_models(path)
        return cls(models, policy or Policy(), str(path), facts, **rest)

    def guard(
        self, provides: Sequence[str] | None = None, clock: Clock = time.monotonic
    ) -> Guard:
        """A guard for a source of those signals, on a clock."""
        watch, judges = self.watch(provides), self.judges()
        return Guard(watch, self.policy, provides=provides, clock=clock, judges=judges)

    def watch(self, provides: Sequence[str] | None = None) -> Watch:
        """The model with its laws and risks, for a source of those signals."""
        policy = self.policy
        try:
            return load_watch(
                self.models,
                horizon_s=policy.horizon_s,
                delta=policy.delta,
                laws=self.laws or policy.laws,
                provides=provides,
                source=self.name,
            )
        except InvalidExpression as error:
            raise InvalidModel(
                f"its vocabulary does not have the laws: {error.problem}",
                source=self.name,
                mend="learn one for them: `forewarn learn` takes --law and --scenario",
            ) from error


def foresight_of(world: World, policy: Policy) -> Foresight | None:
    """Who says what actions lead to; None where the policy does not ask.

    Raises:
        InvalidInput: The policy asks, and the world cannot say.
    """
    if policy.when == "after":
        return None
    if not isinstance(world, Foresight):
        raise InvalidInput(
            f"the world {world.source.name} cannot foresee what an action leads to, and"
            f" the policy's `when` is {policy.when!r}",
            mend="judge what is observed: `when: after`",
        )
    return world
