"""What a guard beside a live stack says, frame by frame and at its end."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import clean

if TYPE_CHECKING:
    from forewarn.monitors.guarding.decision import Decision
    from forewarn.plugins.loop.interventions import Outcome


class Saying:
    """Says each change of mind and each law that is broken; as JSON every frame.

    Args:
        as_json: Whether to say it to a machine.
    """

    def __init__(self, as_json: bool) -> None:
        self.frames = 0
        self.broken: Counter[str] = Counter()
        self._as_json = as_json
        self._said: tuple[str, str] = ("", "")

    def told(self, decision: Decision, outcome: Outcome, **more: Any) -> None:
        """A frame was reviewed; `more` is for machines."""
        self.frames += 1
        self.broken.update(decision.violated)
        if self._as_json:
            line = {**decision.as_dict(), "carried_out": outcome.as_dict(), **more}
            click.echo(json.dumps(line, allow_nan=False))
            return
        for law in decision.violated:
            click.echo(clean(f"{decision.time_s:8.1f} s  {law} is broken"))
        if (decision.kind, outcome.kind) != self._said:
            done = "" if outcome.kind == decision.kind else f" (done: {outcome.kind})"
            why = outcome.because or decision.reason or "all is calm"
            click.echo(clean(f"{decision.time_s:8.1f} s  {decision.kind}{done}: {why}"))
        self._said = decision.kind, outcome.kind

    def laws(self) -> str:
        """Which laws were broken, as the last line says it."""
        if not self.broken:
            return "No law was broken."
        times = (f"{law} ({count})" for law, count in self.broken.items())
        return f"Broken, and how often: {', '.join(times)}."
