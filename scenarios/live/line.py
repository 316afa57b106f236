"""Shows a run in progress on one line of the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from forewarn.abstractions.errors import clean
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Decision, Turn
from forewarn.monitors.guarding.listening import Listener, Run
from forewarn.monitors.guarding.watch import Watch

NAME_WIDTH, BAR_WIDTH = 28, 24
LINES_APART_S = 0.1


class LiveLine(Listener):
    """Shows a run in progress on one line of the terminal."""

    def __init__(self) -> None:
        self._due = 0.0
        self._name = self._done = ""

    def began(self, run: Run) -> None:
        """Stores the name of the run."""
        self._name, self._done = run.name, ""

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Rewrites the line, at most once every `LINES_APART_S`."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + LINES_APART_S
        words = f"{self._name}  {frame.time_s:6.1f} s  {self._risk(watch, decision)}"
        _write(clean(words))

    def _risk(self, watch: Watch, decision: Decision) -> str:
        known = [law for law in watch.laws if law.point == law.point]
        if not known:
            return f"{decision.kind}  {decision.reason}"
        law = max(known, key=lambda each: each.point)
        name = law.name if len(law.name) <= NAME_WIDTH else f"{law.name[:27]}…"
        left = "" if law.left_s is None else f"  {law.left_s:.1f} s left"
        return (
            f"{bar(law.low, law.point, law.high)} {law.point:.2f}"
            f" ({law.low:.2f} to {law.high:.2f})  {name}{left}  {decision.kind}"
            f"{self._done}"
        )

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        """Stores whether the intervention was obeyed, for the next line."""
        obeyed = turn.outcome.obeyed
        self._done = "" if obeyed is None else ", obeyed" if obeyed else ", not obeyed"

    def ended(self, facts: Mapping[str, Any]) -> None:
        """Clears the line."""
        _write("")


def bar(low: float, point: float, high: float) -> str:
    """Returns a bar for a risk: solid up to the risk, shaded up to its upper bound."""
    cells = []
    for cell in range(BAR_WIDTH):
        middle = (cell + 0.5) / BAR_WIDTH
        cells.append("█" if middle <= point else "▒" if middle <= high else "·")
    marked = min(int(low * BAR_WIDTH), BAR_WIDTH - 1)
    if low > 0.0 and cells[marked] == "█":
        cells[marked] = "▓"
    return "".join(cells)


def _write(words: str) -> None:
    sys.stderr.write(f"\r\x1b[K{words}")
    sys.stderr.flush()
