"""The events of a run in sentences, from its decisions and their outcomes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.monitors.evaluation.branched import sentence
from forewarn.monitors.guarding.decision import KIND_WORDS, RANK
from forewarn.monitors.laws.judging import AGAIN_S


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event in a run; the kind determines how it is marked, and the text is a
    sentence.

    `more` is further text from the record, such as the prompt to reflect.
    """

    time_s: float
    kind: str
    text: str
    more: str = ""


class Telling:
    """Derives the events to report from decisions and their outcomes.

    Args:
        watched_only: Whether the guard was in shadow mode.
    """

    def __init__(self, watched_only: bool) -> None:
        self._would = watched_only
        self._raised, self._obeyed = 0, False

    def decided(
        self, decision: Mapping[str, Any], more: str = ""
    ) -> Iterator[RunEvent]:
        """Yields an event if the decision begins, escalates or ends an alarm.

        Args:
            decision: The decision as JSON.
            more: Further text for the event.
        """
        kind, time_s = decision["decision"], float(decision["time_s"])
        if RANK[kind] > self._raised:
            words = KIND_WORDS[kind]
            does = f"would {words.would}" if self._would else words.done
            yield RunEvent(time_s, kind, _alarm(f"The guard {does}", decision), more)
            self._obeyed = False
        elif kind == "proceed" and self._raised:
            yield RunEvent(time_s, "proceed", "The risk has passed.")
        self._raised = RANK[kind]

    def carried_out(
        self, time_s: float, outcome: Mapping[str, Any]
    ) -> Iterator[RunEvent]:
        """Yields an event when an intervention is first obeyed."""
        if outcome.get("obeyed") and not self._obeyed:
            self._obeyed = True
            yield RunEvent(time_s, "obeyed", "The intervention was obeyed.")


def events(
    lines: Sequence[Mapping[str, Any]], watched_only: bool, acts: bool
) -> Iterator[RunEvent]:
    """Yields the events of a run: alarms, acknowledgements, violations and the end.

    Args:
        lines: The record, without its header.
        watched_only: Whether the guard was in shadow mode.
        acts: Whether to report every proposed action, as for a robot but not for a car.
    """
    telling, time_s = Telling(watched_only), 0.0
    broken: dict[str, float] = {}
    for line, after in zip(lines, [*lines[1:], {}], strict=True):
        if "decision" in line:
            time_s, decision = float(line["time_s"]), line["decision"]
            if acts and line.get("proposal"):
                yield RunEvent(time_s, "action", _wish(line["proposal"], after))
            said = {**decision, "time_s": time_s}
            yield from telling.decided(said, _said(after))
        elif line.get("event") == "carried_out":
            yield from telling.carried_out(time_s, line)
        elif line.get("event") == "violated":
            law, since = str(line["law"]), float(line["since_s"])
            goes_on = time_s - broken.get(law, -math.inf) <= AGAIN_S
            broken[law] = time_s
            if goes_on:
                continue
            owed = f"; the obligation arose at {since:g} s" if since < time_s else ""
            yield RunEvent(time_s, "violated", f"{law} is broken{owed}.")
    end = lines[-1]
    if "end" in end:
        ended = str(end["ended"])
        yield RunEvent(time_s, "end", f"{ended[:1].upper()}{ended[1:]}.")


def _wish(proposal: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Returns a sentence with the proposed action, and the executed one if it
    differs.
    """
    wish = f"The agent wants to {_action(proposal['name'], proposal['arguments'])}"
    if after.get("event") != "carried_out" or "executed" not in after:
        return f"{wish}."
    done = after["executed"]
    if done is None:
        return f"{wish}, which is withheld."
    arguments = {key: value for key, value in done.items() if key != "name"}
    if done["name"] == proposal["name"] and arguments == proposal["arguments"]:
        return f"{wish}."
    return f"{wish}; executed instead: {_action(done['name'], arguments)}."


def _action(name: Any, arguments: Mapping[str, Any]) -> str:
    with_what = ", ".join(str(each)[:60] for each in arguments.values())
    return f"{name} {with_what}".strip()


def _said(after: Mapping[str, Any]) -> str:
    """Returns the prompt to reflect; empty if there is none."""
    told = after.get("event") == "carried_out" and after.get("prompt")
    return str(told) if told else ""


def _alarm(words: str, decision: Mapping[str, Any]) -> str:
    if decision["risk"] is None:
        return f"{words}: {decision['reason'] or 'an input is faulty'}."
    risk = decision["risk"]["point"]
    said = f"{words}: risk {risk:.2f} of breaking {decision['law']}."
    band = decision.get("if_acted")
    return said if band is None else f"{said} {sentence(band)}"
