"""Converts runs judged by people into labelled traces, from which rules evolve.

A false alarm makes a run safe, and a miss makes it unsafe. A person's answer about an
action labels the run up to this action.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.files import atomic_text
from forewarn.abstractions.trace import is_value
from forewarn.monitors.guarding.record import read_record
from forewarn.monitors.rules.labelled import Label, labelled_rows

Mark = Literal["false-alarm", "miss", "safe", "unsafe"]
MARKS: Mapping[Mark, Label] = {
    "false-alarm": "safe", "miss": "unsafe", "safe": "safe", "unsafe": "unsafe",
}  # fmt: skip
Row = dict[str, Any]

_ANSWERS: Mapping[str, Label] = {"approve": "safe", "reject": "unsafe"}
_SAID = "a person said: "


def marked_run(record: Path, mark: Mark, note: str = "") -> Row:
    """Returns a recorded run, labelled according to a person's mark."""
    lines = [line.content for line in read_record(record)]
    basis = f"marked {mark}" + (f": {note}" if note else "")
    return _row(record.stem, lines, MARKS[mark], basis)


def answered(record: Path) -> list[Row]:
    """Returns a labelled run for each answer of a person; each ends at its answer."""
    lines = [line.content for line in read_record(record)]
    found: list[Row] = []
    for index, line in enumerate(lines):
        for note in line.get("notes", ()):
            label = _ANSWERS.get(str(note).removeprefix(_SAID))
            if label is not None and str(note).startswith(_SAID):
                name = f"{record.stem}#{line.get('sequence', index)}"
                said = str(note).removeprefix(_SAID)
                found.append(_row(name, lines[:index], label, f"a person: {said}"))
    return found


def marked_trace(traces: Path, name: str, mark: Mark, note: str = "") -> Row:
    """Reads a trace from a file, and labels it according to a person's mark."""
    rows = _rows(traces)
    if name not in rows:
        raise InvalidInput(
            f"there is no trace {name!r:.60}",
            source=str(traces),
            mend=near_miss(name, rows),
        )
    basis = f"marked {mark}" + (f": {note}" if note else "")
    return {**rows[name], "label": MARKS[mark], "label_basis": basis}


def keep(path: Path, rows: Sequence[Row]) -> int:
    """Adds rows to a file of labelled traces; later labels replace earlier ones.

    Returns:
        The number of traces in the file afterwards.
    """
    kept = _rows(path) if path.exists() else {}
    kept |= {str(row["id"]): row for row in rows}
    with atomic_text(path) as out:
        for row in kept.values():
            out.write(json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n")
    return len(kept)


def _rows(path: Path) -> dict[str, Row]:
    return {trace.id: row for _, row, trace in labelled_rows(path)}


def _row(
    name: str, lines: Sequence[Mapping[str, Any]], label: Label, basis: str
) -> Row:
    header = lines[0]
    domain = header.get("vocabulary")
    if domain not in ("driving", "household"):
        raise InvalidInput(
            f"a record with the vocabulary {domain!r:.40} cannot become "
            "a labelled trace",
            mend="only records with the driving or household vocabulary can be marked",
        )
    scenario = header.get("scenario")
    reviews = [line for line in lines if "signals" in line]
    events = _ticks(reviews) if domain == "driving" else _acts(reviews)
    return {
        "id": name,
        "domain": domain,
        "label": label,
        "label_basis": basis,
        "task": scenario.get("name", "") if isinstance(scenario, dict) else "",
        "events": list(events),
    }


def _ticks(reviews: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    for review in reviews:
        yield {"time_s": review["time_s"], "signals": _signals(review)}


def _acts(reviews: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Yields the proposed actions; the next frame says whether each succeeded."""
    for review, after in pairwise([*reviews, {}]):
        proposal = review.get("proposal")
        if not isinstance(proposal, dict) or proposal["name"] in ("wait", "finish"):
            continue
        arguments, shown = proposal["arguments"], after.get("signals", {})
        yield {
            "verb": proposal["name"],
            "object": arguments.get("object"),
            "extra": arguments.get("liquid"),
            "success": shown.get("last_action") == proposal["name"]
            and shown.get("last_action_succeeded") is True,
            "signals": _signals(review),
        }


def _signals(review: Mapping[str, Any]) -> dict[str, Any]:
    signals: Mapping[str, Any] = review["signals"]
    return {name: value for name, value in signals.items() if is_value(value)}
