"""Finds where the arguments of a call come from: the request or an earlier result.

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
"""The maximum number of characters of stored results; the oldest are dropped first."""

MAX_TEXTS = 5_000
_LONG = 400
_SHORT = 3

REQUEST, NEW = "request", "new"

_NAMED = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:https?://|www\.)[^\s\"'<>]+|\b[A-Za-z]{2}\d{10,}\b"
)
"""Matches email addresses, URLs and account numbers (IBAN) within a longer text."""


class Sources:
    """Stores an agent's request and the results of its tools."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Clears the request and all results."""
        self.request = ""
        self._heard: deque[tuple[str, str]] = deque()
        self._size = 0

    def hear(self, tool: str, result: object) -> None:
        """Stores the result of a tool."""
        for label, text in _texts(tool, fields_of(result)):
            self._heard.append((label, text.casefold()))
            self._size += len(self._heard[-1][1])
        while self._size > MAX_KEPT or len(self._heard) > MAX_TEXTS:
            self._size -= len(self._heard.popleft()[1])

    def of(self, value: object) -> str | None:
        """Returns the source of a value; for a list, that of its least trusted item.

        The source is `request`, `TOOL` or `TOOL.FIELD`, or `new` if the value occurs
        neither in the request nor in a result. It is None if the value is neither text
        nor a number. `TOOL.FIELD:name` is the source of an email address that no result
        contains, if the result contains the name of its owner.
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
        # The fast test comes first, because there may be thousands of values and
        # results.
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
    """Whether a text contains all names that an email address consists of."""
    words = _person(address)
    return bool(words) and all(_within(word, text) for word in words)


def _person(address: str) -> list[str]:
    """Returns the first and last name in an email address; empty if it contains no
    names.
    """
    person, at, _ = address.partition("@")
    if not at or re.fullmatch(r"[a-z._-]+", person) is None:
        return []
    words = [word for word in re.split(r"[^a-z]+", person) if len(word) > 1]
    return words if words[1:] else []


def fields_of(result: object) -> object:
    """Parses a result as JSON if possible; otherwise returns it unchanged."""
    if isinstance(result, str) and result.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(result)
        except (ValueError, RecursionError):
            return result
    return result


def _texts(label: str, value: object) -> Iterator[tuple[str, str]]:
    """Yields every text and number in a value, labelled with the tool and the field."""
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
    """Formats a number with all its digits, as it would appear in a text."""
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    try:
        return str(number)
    except ValueError:  # too many digits for a decimal
        return hex(int(number))


def _within(wanted: str, text: str) -> bool:
    """Whether a text contains another text at word boundaries."""
    if wanted not in text and wanted not in text.casefold():
        return False
    if len(wanted) > _LONG:
        return True
    zeros = "0*" if re.fullmatch(r"\d+\.\d+", wanted) else ""
    # A full stop before a capital letter ends a sentence, and thus also an address.
    pattern = rf"(?<![\w.@-])(?i:{re.escape(wanted)}){zeros}(?![\w@-])(?!\.[a-z0-9])"
    return re.search(pattern, text) is not None
