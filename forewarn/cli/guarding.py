"""Options and messages of commands that guard the loops of other programs."""

from __future__ import annotations

import math
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from forewarn.abstractions.errors import naming
from forewarn.cli.command import (
    AnyPath,
    File,
)
from forewarn.cli.groups import (
    Judging,
    Kinds,
    Telling,
    chosen_policy,
    gaps,
    person,
)
from forewarn.cli.printing import (
    say,
    tell,
    wants_json,
)

if TYPE_CHECKING:
    from forewarn.abstractions.frame import Source
    from forewarn.monitors.guarding.decision import Decision, Outcome
    from forewarn.monitors.guarding.guard import Guard
    from forewarn.monitors.guarding.listening import Listener
    from forewarn.monitors.laws.lawbook import Law
    from forewarn.plugins.loop.guarding import Guarding
    from forewarn.plugins.loop.loop import GuardedLoop


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """The guard's model, policy, laws and output files.

    Args:
        model: Model of the guard, or folder of a guard with a certificate.
        policy: Policy file, which defines the risk at which each intervention begins.
        law: Law to watch (default: the laws of the policy, or else of the model); may
            be repeated.
        scenario: Scenario that is being run; a model learned for a different scenario
            is rejected.
        accept_model: Accept a model learned for a different scenario, vocabulary or
            sampling period.
        intervene: Interventions to use, separated by commas, the mildest first. none:
            decide and record, but do not intervene.
        tally: Write a tally for `forewarn merge-tallies` to this file: the counts of
            transitions, except during interventions. Gzipped if the name ends in .gz.
        shadow: Decide and record, but enforce nothing.
    """

    model: AnyPath
    judging: Judging
    telling: Telling
    policy: File | None = None
    law: tuple[Annotated[str, "NAME_OR_FORMULA"], ...] = ()
    scenario: Annotated[str | None, "NAME"] = None
    accept_model: bool = False
    intervene: Kinds | None = None
    tally: File | None = None
    shadow: bool = False

    def guarding(
        self,
        record: Path | None = None,
        live: Sequence[Callable[[], Listener]] = (),
    ) -> Guarding:
        """Returns the configuration of the guard.

        Args:
            record: The file or folder for run records.
            live: Functions that create the listeners for live views.
        """
        from forewarn.monitors.guarding.certificate import guard_files
        from forewarn.monitors.guarding.policy import Policy
        from forewarn.monitors.risk.evidence import laws_named
        from forewarn.plugins.loop.guarding import Guarding
        from forewarn.plugins.loop.tallies import TallyFile

        model, policy_file = guard_files(self.model, self.policy)
        made = Guarding.load(model, laws=self.law, approver=person(), record=record)
        laws: list[Law] = []
        if self.intervene:
            known = made.models[:1] if self.law else made.models
            laws = [law for each in known for law in laws_named(each, self.law)]
        policy = chosen_policy(
            policy_file, None, Policy().horizon_s, self.intervene, (),
            laws=laws, shadow=self.shadow, model=model,
        )  # fmt: skip
        return replace(
            made,
            policy=policy,
            judges=lambda: self.judging.judges(policy.shadow),
            listeners=[*self.telling.listeners(), *live],
            tally=None if self.tally is None else TallyFile(self.tally, made.models),
        )

    def open(self, guarding: Guarding, source: Source, **rest: Any) -> GuardedLoop:
        """Opens a guarded loop for a source; errors in the policy name its file."""
        with naming(self.policy or "the policy"):
            return guarding.open(source, **rest)

    def check(self, guarding: Guarding, **source: Any) -> None:
        """Rejects a model learned for a different scenario, vocabulary or sampling
        period.

        Args:
            guarding: The configuration of the guard.
            source: The scenario, the vocabulary, the period and its tolerance, as
                arguments of `refuse_other`.
        """
        from forewarn.monitors.chains.model import refuse_other
        from forewarn.scenarios.schema import load_scenario

        said = {} if self.scenario is None else load_scenario(self.scenario).facts
        said |= {name: value for name, value in source.items() if value is not None}
        if not self.accept_model:
            for model in guarding.models:
                refuse_other(model, guarding.name, **said)


def announced(guard: Guard) -> Iterator[str]:
    """Yields lines about the interventions for each law, and about laws without any."""
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
            yield f"For the law {law} the guard only alerts and does not intervene."
        elif steps:
            yield f"Interventions for the law {law}, by risk: {does}."
        elif law not in guard.without_rule:
            yield (
                f"The policy has no threshold for the law {law}, so the guard never "
                "intervenes for it."
            )
    if guard.policy.shadow:
        yield "The guard decides and records, but enforces nothing."


class Saying:
    """Prints the interventions for each law, then each change of decision and each
    violation.

    With --json, prints one line per frame.

    Args:
        who: The guarded system, for messages.
    """

    def __init__(self, guard: Guard, who: str) -> None:
        self._guard, self._who = guard, who
        self._said: tuple[str, str] = ("", "")
        self._obeyed: bool | None = None
        self._broken: Counter[str] = Counter()
        self.frames = 0

    def begins(self, head: str, facts: Mapping[str, Any]) -> None:
        """Prints the watched laws, and the interventions for each."""
        guard = self._guard
        names = [law.name for law in guard.watch.laws]
        steps = {law: guard.policy.steps_for(law) for law in names}
        watched = {
            **facts,
            "laws": names,
            "not_applicable": [list(each) for each in guard.watch.not_applicable],
            "without_rule": list(guard.without_rule),
            "does": {law: [step.kind for step in each] for law, each in steps.items()},
        }
        say(watched, [head, *announced(guard)])

    def turn(self, decision: Decision, outcome: Outcome, **more: Any) -> None:
        """Prints the decision on a frame, and the intervention, if they changed."""
        self.frames += 1
        self._broken.update(decision.violated)
        if wants_json():
            line = {**decision.as_dict(), "carried_out": outcome.as_dict(), **more}
            say(line, ())
            return
        at = f"{decision.time_s:8.1f} s"
        for law in decision.violated:
            tell([f"{at}  {law} is broken"])
        if (decision.kind, outcome.kind) != self._said:
            done = (
                ""
                if outcome.kind == decision.kind
                else f" (carried out: {outcome.kind})"
            )
            why = outcome.because or decision.reason or "no threshold is reached"
            tell([f"{at}  {decision.kind}{done}: {why}"])
        if outcome.obeyed is not None and outcome.obeyed != self._obeyed:
            does = "obeys" if outcome.obeyed else "does not obey"
            tell([f"{at}  {self._who} {does}"])
            self._obeyed = outcome.obeyed
        self._said = decision.kind, outcome.kind

    def ends(self, head: str, facts: Mapping[str, Any], *lines: str) -> None:
        """Prints the number of decisions of each kind, and the violated laws."""
        counts = self._guard.summary()["decisions"]
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        told = told or "no decisions"
        broken = (f"{law} ({count})" for law, count in self._broken.items())
        laws = "No law was broken."
        if self._broken:
            laws = f"Broken laws, with the number of violations: {', '.join(broken)}."
        payload = {
            "frames": self.frames,
            "decisions": counts,
            "broken": dict(self._broken),
            **facts,
        }
        revoked = self._guard.revoked
        if revoked:
            payload["revoked"] = revoked
            lines = (*lines, f"The certificate is revoked: {revoked}.")
        text = [f"{self.frames} frames{head}: {told}.", laws, *lines]
        say(payload, text, found=revoked)


@contextmanager
def until(for_s: float | None) -> Iterator[Callable[[], str | None]]:
    """Yields a function that returns the reason to stop (time limit or interrupt), or
    None.

    An interrupt is raised again at the end of the block, after the clean-up.
    """
    asked: list[int] = []

    def end(number: int, _: object) -> None:
        asked.append(number)

    def over() -> str | None:
        if asked:
            return "interrupted"
        return "the time limit was reached" if time.monotonic() >= until_s else None

    until_s = math.inf if for_s is None else time.monotonic() + for_s
    before = {n: signal.signal(n, end) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield over
        if signal.SIGINT in asked:
            raise KeyboardInterrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
