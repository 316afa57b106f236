"""Creates guards and guarded loops with their records, for all entry points."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarn.abstractions.arguments import checked, expect
from forewarn.abstractions.errors import (
    InvalidExpression,
    InvalidInput,
    InvalidModel,
    near_miss,
)
from forewarn.abstractions.frame import Source
from forewarn.monitors.chains.model import Model, load_models
from forewarn.monitors.guarding.certificate import guard_files
from forewarn.monitors.guarding.decision import (
    Action,
    Judge,
)
from forewarn.monitors.guarding.guard import Clock, Guard
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy, load_policy
from forewarn.monitors.guarding.watch import Watch, load_watch
from forewarn.monitors.laws.lawbook import InvalidLaw
from forewarn.plugins.actions import Actions, InvalidAction
from forewarn.plugins.contracts import Foresight, Unattended, World
from forewarn.plugins.loop.approval import Approver
from forewarn.plugins.loop.loop import EpisodeClock, Foresee, GuardedLoop
from forewarn.plugins.loop.records import ModelFile, Records
from forewarn.plugins.loop.tallies import TallyFile
from forewarn.plugins.loop.warrant import Warrant


@checked
@dataclass(frozen=True, slots=True)
class Guarding:
    """The configuration of a guard, from which guards and guarded loops are created.

    Args:
        models: The learned models; each has its own laws.
        policy: The policy, which maps risks to interventions.
        name: The name of the model file, for error messages.
        file: The model file that records refer to; by default, a file that is written
            from `models`.
        laws: Names or formulas of the laws; by default those of the policy or, if it
            has none, those of the models.
        judges: Creates the rules and guard programs that are evaluated in addition to
            the risk. It is called for each loop, because judges keep state during a
            run.
        listeners: Factories that create the listeners of each loop, such as alerts,
            telemetry and live views.
        approver: Asks a person when the decision is `ask`; without an approver, `ask`
            escalates.
        tally: The file in which transitions are counted while no intervention is
            active.
        record: The folder for run records, or the file for a single record.
        warrant: The certificate of the models and the policy, if any.
    """

    models: Sequence[Model]
    policy: Policy = field(default_factory=Policy)
    name: str = "the model"
    file: ModelFile | None = None
    laws: Sequence[str] = ()
    judges: Callable[[], Sequence[Judge]] = tuple
    listeners: Sequence[Callable[[], Listener]] = ()
    approver: Approver | None = None
    tally: TallyFile | None = None
    record: Path | None = None
    warrant: Warrant | None = None

    @classmethod
    @checked
    def load(
        cls, path: Path | str, policy: Policy | None = None, **rest: Any
    ) -> Guarding:
        """Loads a model file, or a folder with a certified guard.

        Args:
            path: The model file, or the folder that `forewarn warrant` wrote.
            policy: The policy; by default, that of the folder.
            rest: Further arguments of the class; `tally` and `record` may be paths.
        """
        path, own = guard_files(Path(path))
        if own is not None and policy is None:
            policy = load_policy(own)
        if isinstance(rest.get("record"), str):
            rest["record"] = Path(rest["record"])
        expect(rest.get("listeners", ()), Sequence[Any], "listeners", "use [LogAlerts]")
        for each in rest.get("listeners", ()):
            if not callable(each) and not isinstance(each, list | tuple):
                raise InvalidInput(
                    f"a {type(each).__name__} cannot be called to create a listener",
                    source="listeners",
                    mend="give the class itself, as in listeners=[LogAlerts]",
                )
        rest.setdefault("warrant", Warrant.beside(path))
        file, models = ModelFile.of(path), load_models(path)
        if isinstance(rest.get("tally"), str | Path):
            rest["tally"] = TallyFile(Path(rest["tally"]), models)
        return cls(models, policy or Policy(), str(path), file, **rest)

    # -- loops ------------------------------------------------------------------------

    @checked
    def open(
        self,
        source: Source,
        *,
        actions: Actions | None = None,
        foresee: Foresee | None = None,
        clock: Clock | None = None,
        frame_clock: Clock | None = None,
        name: str = "",
    ) -> GuardedLoop:
        """Creates a guarded loop for a source of frames.

        Args:
            source: The source of the frames.
            actions: The actions that the world accepts; None if unknown.
            foresee: Predicts the frame that an action would lead to.
            clock: The clock for leases and acknowledgements; by default simulated time
                for an embedded source, otherwise the system's monotonic clock.
            frame_clock: The clock for the ages of frames; by default `clock`.
            name: The loop's display name.

        Raises:
            InvalidInput: The policy or a judge requires a capability that the source
                lacks.
        """
        policy = self.policy
        if policy.when != "after" and foresee is None:
            raise InvalidInput(
                f"{source.name} cannot predict the result of an action, "
                f"but the policy's `when` is {policy.when!r}",
                mend="evaluate the observed state instead, with `when: after`",
            )
        if source.fixed and not policy.shadow:
            raise InvalidInput(
                "a guard cannot intervene in a recording",
                mend="use --intervene none to only watch, or --no-guarded to measure",
            )
        if clock is None:
            clock = EpisodeClock() if source.embedded else time.monotonic
        guard = self.guard(source.provides or None, frame_clock or clock)
        check_substitutes(guard.judges, source, actions)
        if given := {spec.name: tuple(spec.arguments) for spec in actions or ()}:
            _check_bound(guard.judges, source, given)
        file = self.file or ModelFile.made(self.models)
        return GuardedLoop(
            guard,
            source,
            clock=clock,
            listeners=[make() for make in self.listeners],
            approver=self.approver,
            foresee=None if policy.when == "after" else foresee,
            actions=actions,
            tally=self.tally,
            records=Records(file, self.laws, source, self.record),
            name=name or source.name,
            warrant=self._held(),
        )

    def _held(self) -> Warrant | None:
        """Returns the certificate, if it covers the policy."""
        warrant = self.warrant
        if warrant is None or not warrant.certificate.covers(self.policy):
            return None
        return warrant

    @checked
    def open_world(self, world: World) -> GuardedLoop:
        """Creates a guarded loop for a world, with the world's actions and foresight.

        Raises:
            InvalidInput: As for `open`, or the world runs in real time and nothing
                could halt it if the guard hung.
        """
        source = world.source
        halts = source.embedded or isinstance(world, Unattended)
        if not (halts or self.policy.shadow):
            raise InvalidInput(
                f"the world {source.name} runs in real time, and nothing can halt it "
                "if the guard hangs",
                mend=(
                    "add a method `halt` to the world, or use --intervene none to only "
                    "watch"
                ),
            )
        foresee = world.foresee if isinstance(world, Foresight) else None
        return self.open(source, actions=world.actions, foresee=foresee)

    # -- guards -----------------------------------------------------------------------

    @checked
    def guard(
        self,
        provides: Sequence[str] | None = None,
        clock: Clock = time.monotonic,
        listeners: Sequence[Listener] = (),
    ) -> Guard:
        """Creates a guard that only reviews frames, without a loop or a record."""
        return Guard(
            self.watch(provides),
            self.policy,
            provides=provides,
            clock=clock,
            listeners=listeners,
            judges=self.judges(),
        )

    @checked
    def watch(self, provides: Sequence[str] | None = None) -> Watch:
        """Loads the models, laws and risks for a source that provides these signals."""
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
        except InvalidLaw:
            if not self.laws:
                # The policy names the laws: report it if no rule is about the model.
                policy.without_rule([law for m in self.models for law in m.laws])
            raise
        except InvalidExpression as error:
            raise InvalidModel(
                f"the model's vocabulary does not fit the laws: {error.problem}",
                source=self.name,
                mend=(
                    "learn a model for these laws with `forewarn learn --law LAW "
                    "--scenario SCENARIO`"
                ),
            ) from error


def substitutes_of(judges: Sequence[Judge]) -> dict[str, Action]:
    """Returns the substitute actions of rules, by the name of the rule."""
    return {rule: a for judge in judges for rule, a in judge.substitutes.items()}


def check_substitutes(
    judges: Sequence[Judge], source: Source, actions: Actions | None
) -> None:
    """Rejects rules whose substitute action the world does not accept."""
    for rule, action in substitutes_of(judges).items():
        if actions is None:
            raise InvalidInput(
                f"the rule {rule} substitutes an action, but {source.name} "
                "does not list its actions",
                mend="use skip or reflect instead of substitute",
            )
        try:
            actions.check(action)
        except InvalidAction as error:
            raise InvalidInput(
                f"the rule {rule} substitutes an invalid action: {error.problem}",
                mend=error.mend,
            ) from error


def _check_bound(
    judges: Sequence[Judge], source: Source, actions: Mapping[str, Sequence[str]]
) -> None:
    """Rejects rules that apply to none of these actions and so protect nothing."""
    for judge in judges:
        for rule, named in judge.unmatched(actions).items():
            raise InvalidInput(
                f"{source.name} does not have the action {named[0]!r:.60}",
                source=f"the rule {rule}",
                mend=near_miss(named[0], actions)
                or f"the actions are {', '.join(actions)}",
            )
        judge.check_tools(actions)
