"""Tables for robots and cars: who may use what where, and when to drive at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from forewarn.monitors.programs.requests.document import InvalidRequest, Table
from forewarn.monitors.programs.values import plain


def has_head(table: Table, head: tuple[str, ...]) -> bool:
    """Whether a table's columns are called so."""
    return tuple(plain(cell) for cell in table.head) == head


def _use_program(table: Table, source: str) -> str:
    """The program that denies what a role may not use in a room."""
    rows: dict[str, dict[str, list[str]]] = {}
    for line, (role, room, things) in _rows(table, 3, source):
        if not role or not room:
            raise InvalidRequest(
                "a row without its role or room", source=source, place=f"line {line}"
            )
        known = rows.setdefault(plain(role), {}).setdefault(plain(room), [])
        known += [thing.strip() for thing in things.split(",") if thing.strip()]
    text = json.dumps(rows, indent=4, ensure_ascii=False)
    return (
        f"may_use = {text}\n"
        'if not MayUse(may_use, user["role"], place["room"], action):\n'
        '    deny("this role may not use this here")\n'
    )


def _odd_program(table: Table, source: str) -> str:
    """The program that stops driving outside of the conditions it is made for."""
    limits = []
    for line, (signal, least, most) in _rows(table, 3, source):
        span = [_limit(cell, source, line) for cell in (least, most)]
        limits.append(f"    {json.dumps(signal)}: [{span[0]}, {span[1]}],\n")
    return (
        f"limits = {{\n{''.join(limits)}}}\n"
        "outside, signals = CheckOdd(limits, frame)\n"
        "if outside:\n"
        '    deny("outside of the conditions to drive in", signals)\n'
    )


def _rows(table: Table, count: int, source: str) -> list[tuple[int, tuple[str, ...]]]:
    for line, cells in table.rows:
        if len(cells) != count:
            raise InvalidRequest(
                f"a row of {len(cells)} cells, not {count}",
                source=source,
                place=f"line {line}",
            )
    return list(table.rows)


def _limit(cell: str, source: str, line: int) -> str:
    if cell in ("", "-"):
        return "None"
    try:
        return json.dumps(float(cell), allow_nan=False)
    except ValueError:
        raise InvalidRequest(
            f"{cell!r:.40} is no number", source=source, place=f"line {line}"
        ) from None


TABLES: Mapping[tuple[str, ...], Callable[[Table, str], str]] = {
    ("role", "room", "things"): _use_program,
    ("signal", "least", "most"): _odd_program,
}
"""The tables that it knows, by their heads."""
