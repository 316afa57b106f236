"""A run as a story: the sentences that stand beside its picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.monitors.guarding.decision import RANK


@dataclass(frozen=True, slots=True)
class Event:
    """What happened at a moment: the kind is a class of marks, the text a sentence.

    `more` is what else was said, in the words of the record.
    """

    time_s: float
    kind: str
    text: str
    more: str = ""


_DONE: Mapping[str, str] = {
    "alert": "The guard warns",
    "slow": "The guard slows it down",
    "reflect": "The guard asks it to think again",
    "substitute": "The guard puts another action in its place",
    "skip": "The guard skips the action",
    "ask": "The guard asks a person",
    "stop": "The guard stops it",
    "cut": "The guard cuts its power",
}

_WOULD: Mapping[str, str] = {
    "alert": "The guard would warn",
    "slow": "The guard would slow it down",
    "reflect": "The guard would ask it to think again",
    "substitute": "The guard would put another action in its place",
    "skip": "The guard would skip the action",
    "ask": "The guard would ask a person",
    "stop": "The guard would stop it",
    "cut": "The guard would cut its power",
}


class Telling:
    """Finds what is worth a sentence, while a run goes on or after it.

    Args:
        watched_only: Whether the guard would have acted, and did not.
    """

    def __init__(self, watched_only: bool) -> None:
        self._words = _WOULD if watched_only else _DONE
        self._raised, self._obeyed = 0, False

    def decided(self, decision: Mapping[str, Any], more: str = "") -> Iterator[Event]:
        """An alarm that rises, and one that is over.

        Args:
            decision: As JSON has it.
            more: What else was said.
        """
        kind, time_s = decision["decision"], float(decision["time_s"])
        if RANK[kind] > self._raised:
            yield Event(time_s, kind, _alarm(self._words[kind], decision), more)
            self._obeyed = False
        elif kind == "proceed" and self._raised:
            yield Event(time_s, "proceed", "The risk has passed.")
        self._raised = RANK[kind]

    def carried_out(self, time_s: float, outcome: Mapping[str, Any]) -> Iterator[Event]:
        """That something was obeyed."""
        if outcome.get("obeyed") and not self._obeyed:
            self._obeyed = True
            yield Event(time_s, "obeyed", "The world shows that it was obeyed.")


def events(
    lines: Sequence[Mapping[str, Any]], watched_only: bool, acts: bool
) -> Iterator[Event]:
    """The turns of a run: rising alarms, what was obeyed, what was broken, the end.

    Args:
        lines: The record, without its header.
        watched_only: Whether the guard would have acted, and did not.
        acts: Whether every action is a turn, as a robot's is and a driver's is not.
    """
    telling, time_s = Telling(watched_only), 0.0
    for line, after in zip(lines, [*lines[1:], {}], strict=True):
        if "decision" in line:
            time_s, decision = float(line["time_s"]), line["decision"]
            if acts and line.get("proposal"):
                yield Event(time_s, "action", _wish(line["proposal"], after))
            said = {**decision, "time_s": time_s}
            yield from telling.decided(said, _said(after))
        elif line.get("event") == "carried_out":
            yield from telling.carried_out(time_s, line)
        elif line.get("event") == "violated":
            since = float(line["since_s"])
            owed = f"; that was owed since {since:g} s" if since < time_s else ""
            yield Event(time_s, "violated", f"{line['law']} is broken{owed}.")
    end = lines[-1]
    if "end" in end:
        ended = str(end["ended"])
        yield Event(time_s, "end", f"{ended[:1].upper()}{ended[1:]}.")


def _wish(proposal: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What was proposed, and what became of it where that is something else."""
    wish = f"It wants to {_action(proposal['name'], proposal['arguments'])}"
    if after.get("event") != "carried_out" or "executed" not in after:
        return f"{wish}."
    done = after["executed"]
    if done is None:
        return f"{wish}, which is withheld."
    arguments = {key: value for key, value in done.items() if key != "name"}
    if done["name"] == proposal["name"] and arguments == proposal["arguments"]:
        return f"{wish}."
    return f"{wish}; it is made to {_action(done['name'], arguments)}."


def _action(name: Any, arguments: Mapping[str, Any]) -> str:
    with_what = ", ".join(str(each)[:60] for each in arguments.values())
    return f"{name} {with_what}".strip()


def _said(after: Mapping[str, Any]) -> str:
    """The prompt to think again."""
    told = after.get("event") == "carried_out" and after.get("prompt")
    return str(told) if told else ""


def _alarm(words: str, decision: Mapping[str, Any]) -> str:
    if decision["risk"] is None:
        return f"{words}: {decision['reason'] or 'its inputs are at fault'}."
    risk = decision["risk"]["point"]
    return f"{words}: risk {risk:.2f} of breaking {decision['law']}."
