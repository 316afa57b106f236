"""Labelled traces: runs that somebody called safe or unsafe, as JSON Lines.

A line is a run: `id`, `domain`, `label` (safe, unsafe, or null where a person must
say), `events`, and what else there is to know of it. An event of a household has
`verb`, `object` and what came of it, one of a code agent `code`, one of a drive
`time_s` and `signals`. AgentSpec's own run logs are read too; they have no label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from forewarn.abstractions.errors import InvalidInput, InvalidTrace, near_miss
from forewarn.abstractions.files import parse_json, read_lines
from forewarn.monitors.rules.agentspec.records import is_record, labelled_row
from forewarn.monitors.rules.event import Event

Label = Literal["safe", "unsafe"]
Domain = Literal["household", "driving", "code"]

DOMAINS: tuple[Domain, ...] = ("household", "driving", "code")
_ALSO: Mapping[str, Domain] = {"embodied": "household"}

_VERBS = {"fillliquid": "fill_liquid", "emptyliquid": "empty_liquid"}
_SPACES = re.compile(r"[\s_-]+")


@dataclass(frozen=True, slots=True)
class LabelledTrace:
    """A run with its label.

    Args:
        id: Its name in its file.
        domain: Whose predicates read it.
        label: What a person, or the end of the run, says; None: not known.
        events: What happened, each action before and after it was done.
        task: What was asked of the agent: runs of one task belong together.
        basis: Where the label comes from.
    """

    id: str
    domain: Domain
    label: Label | None
    events: tuple[Event, ...]
    task: str = ""
    basis: str = ""


def domain_of(name: str, source: str = "") -> Domain:
    """The domain of that name, or of another name that it goes by."""
    found = _ALSO.get(name, name)
    for domain in DOMAINS:
        if found == domain:
            return domain
    raise InvalidInput(
        f"no domain {name!r:.40}",
        source=source,
        mend=near_miss(name[:40], DOMAINS) or f"it is one of {', '.join(DOMAINS)}",
    )


def read_labelled(path: Path) -> list[LabelledTrace]:
    """The traces of a file, gzipped or not, in its order."""
    return list(_read(path))


def _read(path: Path) -> Iterator[LabelledTrace]:
    source = str(path)
    seen: set[str] = set()
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        row = parse_json(line, source, place)
        try:
            if is_record(row):
                row = labelled_row(row, f"{path.stem}-{number}")
            trace = labelled_from(row)
        except InvalidInput as error:
            raise error.within(source, place) from None
        if trace.id in seen:
            raise InvalidTrace(
                f"the id {trace.id!r:.60} stands twice", source=source, place=place
            )
        seen.add(trace.id)
        yield trace


def labelled_from(row: object) -> LabelledTrace:
    """The trace that one line of a file describes."""
    if not isinstance(row, dict):
        raise InvalidTrace("expected a mapping of keys")
    label = row.get("label")
    if label not in ("safe", "unsafe", None):
        raise InvalidTrace(f"the label is safe, unsafe or null, not {label!r:.40}")
    events = row.get("events")
    if not isinstance(events, list) or not all(isinstance(e, dict) for e in events):
        raise InvalidTrace("events is a list of mappings")
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
    """What was asked, without what does not matter to what is asked."""
    words = re.findall(r"\w+", str(text or "").casefold())
    return " ".join(words)


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidTrace(f"the key {key!r} is missing or not a word")
    return value


def _events(domain: Domain, rows: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
    read = {"household": _household, "code": _code, "driving": _driving}[domain]
    for index, row in enumerate(rows):
        try:
            yield from read(row, float(index))
        except InvalidInput as error:
            raise error.within("", f"event {index}") from None
    if domain != "driving":
        yield Event("finish", time_s=float(len(rows)))


def _household(row: Mapping[str, Any], time_s: float) -> Iterator[Event]:
    verb = _SPACES.sub("_", _text(row, "verb").strip().casefold())
    verb = _VERBS.get(verb, verb)
    arguments: dict[str, Any] = {}
    if row.get("object"):
        arguments["object"] = str(row["object"])
    if row.get("extra"):
        key = "liquid" if verb == "fill_liquid" else "extra"
        arguments[key] = str(row["extra"])
    yield from _action(verb, arguments, row, time_s, str(row.get("message") or ""))


def _code(row: Mapping[str, Any], time_s: float) -> Iterator[Event]:
    arguments = {"code": str(row.get("code") or "")}
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
    signals = row.get("signals")
    values = signals if isinstance(signals, dict) else {}
    tool, text = (
        str(row.get("tool") or ""),
        str(row.get("raw") or row.get("code") or ""),
    )
    yield Event("before", name, arguments, values, None, "", time_s, tool, text)
    success = row.get("success")
    yield Event(
        "after",
        name,
        arguments,
        succeeded=success if isinstance(success, bool) else None,
        output=output,
        time_s=time_s,
        tool=tool,
        text=text,
    )


def _driving(row: Mapping[str, Any], time_s: float) -> Iterator[Event]:
    signals = row.get("signals")
    if not isinstance(signals, dict):
        raise InvalidTrace("the key 'signals' is missing or not a mapping")
    stamp = row.get("time_s", time_s)
    if not isinstance(stamp, int | float):
        raise InvalidTrace("time_s is not a number")
    yield Event("tick", values=signals, time_s=float(stamp))
