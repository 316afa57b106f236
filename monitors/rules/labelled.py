"""Labelled traces: runs that are labelled safe or unsafe, as JSON Lines.

A line is a run: `id`, `domain`, `label` (safe, unsafe, or null if a person must
decide), `events`, and further facts. A household event has `verb`, `object` and its
outcome; a code agent's event has `code`; a driving event has `time_s` and `signals`.
AgentSpec's own run logs can be read too; they have no label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from forewarn.abstractions.arguments import expect
from forewarn.abstractions.dataset.layout import SUFFIX
from forewarn.abstractions.errors import InvalidInput, InvalidTrace, naming
from forewarn.abstractions.files import parse_json, read_lines
from forewarn.monitors.rules.predicates import Domain, Event, domain_of

Label = Literal["safe", "unsafe"]

_VERBS = {"fillliquid": "fill_liquid", "emptyliquid": "empty_liquid"}
_SPACES = re.compile(r"[\s_-]+")


@dataclass(frozen=True, slots=True)
class LabelledTrace:
    """A run with its label, and the `basis` on which it was labelled.

    Each action gives two events: one before it is done and one after. Runs of one task
    are held out together.
    """

    id: str
    domain: Domain
    label: Label | None
    events: tuple[Event, ...]
    task: str = ""
    basis: str = ""


def read_labelled(path: Path) -> list[LabelledTrace]:
    """Reads the traces of a file, compressed or not, in order."""
    found: dict[str, LabelledTrace] = {}
    for number, _, trace in labelled_rows(path):
        if trace.id in found:
            problem, place = f"the id {trace.id!r:.60} appears twice", f"line {number}"
            raise InvalidTrace(problem, source=str(path), place=place)
        found[trace.id] = trace
    return list(found.values())


def labelled_rows(path: Path) -> Iterator[tuple[int, dict[str, Any], LabelledTrace]]:
    """Yields each line's number, its content, and its trace."""
    if path.is_dir() or path.suffix == SUFFIX:
        kind = "a folder" if path.is_dir() else "a Parquet file"
        raise InvalidTrace(
            f"this is {kind}, but a file of labelled traces is needed",
            source=str(path),
            mend=_WRITTEN,
        )
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            row: Any = parse_json(line, str(path), f"line {number}")
        except InvalidInput as error:
            mend = error.mend
            if mend.startswith("check") and number == 1:
                mend = _WRITTEN
            place = f"line {number}"
            raise InvalidTrace(
                error.problem, source=str(path), place=place, mend=mend
            ) from None
        with naming(path, f"line {number}"):
            if is_record(row):
                row = _labelled_row(row, f"{path.stem}-{number}")
            yield number, row, labelled_from(row)


_WRITTEN = (
    'write {"id": …, "domain": …, "label": "safe", "events": [{…}, …]} on each line, '
    "or label run records with `forewarn rules mark`"
)


def labelled_from(row: object) -> LabelledTrace:
    """Returns the trace that one line of a file describes."""
    if not isinstance(row, dict):
        raise InvalidTrace("expected a JSON object", mend=_WRITTEN)
    label = row.get("label")
    if label not in ("safe", "unsafe", None):
        raise InvalidTrace(f"the label must be safe, unsafe or null, not {label!r:.40}")
    events = row.get("events")
    if not isinstance(events, list) or not all(isinstance(e, dict) for e in events):
        found = "missing" if events is None else "not a list of mappings"
        raise InvalidTrace(f"the key 'events' is {found}", mend=_WRITTEN)
    domain = domain_of(_text(row, "domain"))
    return LabelledTrace(
        id=_text(row, "id"),
        domain=domain,
        label=label,
        events=tuple(_events(domain, events)),
        task=plain_task(row.get("task") or row.get("instruction")),
        basis=str(row.get("label_basis") or ""),
    )


def plain_task(text: object) -> str:
    """Normalizes the spelling of a task."""
    words = re.findall(r"\w+", str(text or "").casefold())
    return " ".join(words)


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        problem = f"the key {key!r} is missing or is not text"
        raise InvalidTrace(problem, mend=_WRITTEN)
    return value


def _events(domain: Domain, rows: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
    read = {"household": _household, "code": _code, "driving": _driving}[domain]
    for index, row in enumerate(rows):
        with naming("", f"event {index}"):
            yield from read(row, float(index))
    if domain != "driving":
        yield Event("finish", time_s=float(len(rows)))


def _household(row: Mapping[str, Any], time_s: float) -> Iterator[Event]:
    verb = _SPACES.sub("_", _text(row, "verb").strip().casefold())
    verb = _VERBS.get(verb, verb)
    arguments: dict[str, Any] = {}
    for key in ("object", "extra"):
        expect(row.get(key), str | None, key, "write a name in quotes")
        if row.get(key):
            liquid = key == "extra" and verb == "fill_liquid"
            arguments["liquid" if liquid else key] = row[key]
    yield from _action(verb, arguments, row, time_s, str(row.get("message") or ""))


def _code(row: Mapping[str, Any], time_s: float) -> Iterator[Event]:
    expect(row.get("code"), str, "code", "write the agent's code or command as text")
    arguments = {"code": row["code"]}
    tool = str(row.get("tool") or "python_repl")
    output = str(row.get("observation") or "")
    yield from _action(tool, arguments, row, time_s, output)


def _action(
    name: str,
    arguments: Mapping[str, Any],
    row: Mapping[str, Any],
    time_s: float,
    output: str,
) -> Iterator[Event]:
    values, succeeded = row.get("signals"), row.get("success")
    expect(values, dict | None, "signals", 'write "signals": {NAME: VALUE}')
    expect(succeeded, bool | None, "success", "write true or false without quotes")
    tool = str(row.get("tool") or "")
    text = str(row.get("raw") or row.get("code") or "")
    yield Event("before", name, arguments, values or {}, None, "", time_s, tool, text)
    yield Event("after", name, arguments, {}, succeeded, output, time_s, tool, text)


def _driving(row: Mapping[str, Any], time_s: float) -> Iterator[Event]:
    signals = row.get("signals")
    if not isinstance(signals, dict):
        raise InvalidTrace("the key 'signals' is missing or is not a mapping")
    stamp = row.get("time_s", time_s)
    if not isinstance(stamp, int | float):
        raise InvalidTrace("time_s is not a number")
    yield Event("tick", values=signals, time_s=float(stamp))


_TWO_WORDS = frozenset(("turn", "switch", "toggle"))
_CODE = frozenset(("python_repl", "pythonrepl", "terminal"))


def is_record(row: object) -> bool:
    """Whether a line is an AgentSpec log."""
    return isinstance(row, dict) and ("intermediate_steps" in row or "traj" in row)


def _labelled_row(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Converts an AgentSpec log to a trace whose label is null."""
    steps = list(_steps(row))
    code = any(tool.casefold() in _CODE for tool, _, _ in steps)
    given = row.get("input")
    asked = given.get("instruction") if isinstance(given, dict) else given
    return {
        "id": name,
        "domain": "code" if code else "household",
        "label": None,
        "label_basis": "an AgentSpec log that nobody has labelled",
        "task": str(row.get("instruction") or row.get("prompt") or asked or ""),
        "events": [(_cell if code else _act)(*step) for step in steps],
    }


def _steps(row: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yields each step: the tool, its arguments, and the observation."""
    try:
        for step in row.get("intermediate_steps") or ():
            action = step["action"]
            yield str(action["tool"]), str(action["input"]), step.get("observation")
        for step in row.get("traj") or ():
            yield "robotic controller", str(step["action"]), step
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidTrace(f"not an AgentSpec log: {error}") from None


def _cell(tool: str, given: str, observed: Any) -> dict[str, Any]:
    text = str(observed or "")
    failed = "Error" in text.split("(")[0]
    return {"tool": tool, "code": given, "observation": text, "success": not failed}


def _act(tool: str, given: str, observed: Any) -> dict[str, Any]:
    words = given.split() or ["wait"]
    taken = 2 if words[0].casefold() in _TWO_WORDS and len(words) > 1 else 1
    verb, rest = " ".join(words[:taken]), words[taken:]
    liquid = rest.pop() if verb.casefold() == "fillliquid" and len(rest) > 1 else None
    seen = observed if isinstance(observed, dict) else {}
    return {
        "tool": tool,
        "raw": given,
        "verb": verb,
        "object": " ".join(rest) or None,
        "extra": liquid,
        "success": seen.get("success") is True,
        "message": str(seen.get("message") or ""),
    }
