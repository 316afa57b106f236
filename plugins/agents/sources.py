"""The sources of a call's arguments: the request, an earlier result, or neither.

A result is identified by its tool and, if it has fields, by the field:
`search_emails.sender` and `search_emails.body` are texts from different sources.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

MAX_KEPT = 2_000_000
"""Maximum characters of results kept; the oldest are dropped first."""

MAX_TEXTS = 5_000
_LONG = 400
_SHORT = 3

REQUEST, NEW = "request", "new"

_NAMED = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:https?://|www\.)[^\s\"'<>]+|\b[A-Za-z]{2}\d{10,}\b"
)
"""E-mail addresses, links and account numbers within a longer text."""


class Sources:
    """An agent's request, and the results of its tools."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forgets the request and all results."""
        self.request = ""
        self._heard: deque[tuple[str, str]] = deque()
        self._size = 0

    def hear(self, tool: str, result: object) -> None:
        """Stores a tool's result."""
        for label, text in _texts(tool, fields_of(result)):
            self._heard.append((label, text.casefold()))
            self._size += len(self._heard[-1][1])
        while self._size > MAX_KEPT or len(self._heard) > MAX_TEXTS:
            self._size -= len(self._heard.popleft()[1])

    def of(self, value: object) -> str | None:
        """The source of a value; for a list, the source of its least trusted part.

        Returns `request`, `TOOL` or `TOOL.FIELD`, or `new` if the value occurs nowhere,
        or None if it is neither text nor a number. `TOOL.FIELD:name` stands for an
        address that no result contains, of a person whose name is in that result.
        """
        found = [self._leaf(text) for _, text in _texts("", value)]
        copied = [label for label in found if label not in (REQUEST, NEW)]
        if copied:
            return copied[0]
        return None if not found else NEW if NEW in found else REQUEST

    def _leaf(self, text: str) -> str:
        wanted = text.casefold().strip()
        if not wanted:
            return NEW
        if _within(wanted, self.request) or _names(self.request, wanted):
            return REQUEST
        # The quick test comes first: there may be thousands of texts on both sides.
        held = [(label, heard) for label, heard in self._heard if wanted in heard]
        exact = (label for label, heard in held if heard.strip() == wanted)
        if (label := next(exact, None)) is not None:
            return label
        if len(wanted) >= _SHORT:
            for label, heard in held:
                if _within(wanted, heard):
                    return label
        if person := _person(wanted):
            for label, heard in self._heard:
                if all(word in heard for word in person) and _names(heard, wanted):
                    return f"{label}:name"
        names = (name.rstrip(".,;:!?)") for name in _NAMED.findall(wanted))
        inside = [name for name in names if name != wanted]
        return next((s for s in map(self._leaf, inside) if s != REQUEST), NEW)


def _names(text: str, address: str) -> bool:
    """Whether a text contains the first and last name in an e-mail address."""
    words = _person(address)
    return bool(words) and all(_within(word, text) for word in words)


def _person(address: str) -> list[str]:
    """The first and last name in an e-mail address; empty if there are none."""
    person, at, _ = address.partition("@")
    if not at or re.fullmatch(r"[a-z._-]+", person) is None:
        return []
    words = [word for word in re.split(r"[^a-z]+", person) if len(word) > 1]
    return words if words[1:] else []


def fields_of(result: object) -> object:
    """A result parsed as JSON if possible; otherwise unchanged."""
    if isinstance(result, str) and result.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(result)
        except (ValueError, RecursionError):
            return result
    return result


def _texts(label: str, value: object) -> Iterator[tuple[str, str]]:
    """Every text and number in a value, labelled with its tool and field."""
    pending: deque[tuple[str, Any]] = deque([(label, value)])
    for _ in range(MAX_TEXTS):
        if not pending:
            return
        label, value = pending.popleft()
        if isinstance(value, Mapping):
            tool = label.partition(".")[0]
            pending += ((f"{tool}.{name}", part) for name, part in value.items())
        elif isinstance(value, list | tuple | set | frozenset):
            pending += ((label, part) for part in value)
        elif isinstance(value, str):
            yield label, value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield label, _written(value)


def _written(number: float) -> str:
    """A number with all its digits, as a text would contain it."""
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    try:
        return str(number)
    except ValueError:  # thousands of digits
        return hex(int(number))


def _within(wanted: str, text: str) -> bool:
    """Whether a text contains another, at word boundaries."""
    if wanted not in text and wanted not in text.casefold():
        return False
    if len(wanted) > _LONG:
        return True
    zeros = "0*" if re.fullmatch(r"\d+\.\d+", wanted) else ""
    # A full stop followed by a capital ends a sentence and so ends the address.
    pattern = rf"(?<![\w.@-])(?i:{re.escape(wanted)}){zeros}(?![\w@-])(?!\.[a-z0-9])"
    return re.search(pattern, text) is not None
