"""What the commands say that guard a loop: at the start, at each turn, at the end."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.options.policies import gaps
from forewarn.cli.support import clean, emit

if TYPE_CHECKING:
    from forewarn.monitors.guarding.decision import Decision, Outcome
    from forewarn.monitors.guarding.guard import Guard


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


class Saying:
    """Says what a guard does about each law, then each change of mind and each break.

    With --json it is a line for every frame.

    Args:
        guard: The guard.
        who: Whom it guards.
        as_json: Whether it is JSON.
    """

    def __init__(self, guard: Guard, who: str, as_json: bool) -> None:
        self._guard, self._who, self._as_json = guard, who, as_json
        self._said: tuple[str, str] = ("", "")
        self._obeyed: bool | None = None
        self._broken: Counter[str] = Counter()
        self.frames = 0

    def begins(self, head: str, facts: Mapping[str, Any]) -> None:
        """What is watched, and what is done about it."""
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
        emit(self._as_json, watched, [head, *announced(guard)])
        sys.stdout.flush()

    def turn(self, decision: Decision, outcome: Outcome, **more: Any) -> None:
        """What was decided on a frame, and what was done about it."""
        self.frames += 1
        self._broken.update(decision.violated)
        if self._as_json:
            line = {**decision.as_dict(), "carried_out": outcome.as_dict(), **more}
            click.echo(json.dumps(line, allow_nan=False))
            return
        at = f"{decision.time_s:8.1f} s"
        for law in decision.violated:
            click.echo(clean(f"{at}  {law} is broken"))
        if (decision.kind, outcome.kind) != self._said:
            done = "" if outcome.kind == decision.kind else f" (done: {outcome.kind})"
            why = outcome.because or decision.reason or "all is calm"
            click.echo(clean(f"{at}  {decision.kind}{done}: {why}"))
        if outcome.obeyed is not None and outcome.obeyed != self._obeyed:
            does = "obeys" if outcome.obeyed else "does not obey"
            click.echo(f"{at}  {self._who} {does}")
            self._obeyed = outcome.obeyed
        self._said = decision.kind, outcome.kind

    def ends(self, head: str, facts: Mapping[str, Any], *lines: str) -> None:
        """How often it decided what, and which laws were broken."""
        counts = self._guard.summary()["decisions"]
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        broken = (f"{law} ({count})" for law, count in self._broken.items())
        laws = "No law was broken."
        if self._broken:
            laws = f"Broken, and how often: {', '.join(broken)}."
        payload = {
            "frames": self.frames,
            "decisions": counts,
            "broken": dict(self._broken),
            **facts,
        }
        text = [f"{self.frames} frames{head}: {told}.", laws, *lines]
        emit(self._as_json, payload, text)


@contextmanager
def until(for_s: float | None) -> Iterator[Callable[[], str | None]]:
    """Tells why it is over: the time has passed, or somebody wants to end it.

    Ctrl-C interrupts once all is done that is done at the end.
    """
    asked: list[int] = []

    def end(number: int, _: object) -> None:
        asked.append(number)

    def over() -> str | None:
        if asked:
            return "it was ended"
        return "the time had passed" if time.monotonic() >= until_s else None

    until_s = math.inf if for_s is None else time.monotonic() + for_s
    before = {n: signal.signal(n, end) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield over
        if signal.SIGINT in asked:
            raise KeyboardInterrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
