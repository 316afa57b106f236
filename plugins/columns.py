"""The meaning of a log column or message field: a signal and its encoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.serial import Strict
from forewarn.abstractions.vocabularies.signals import Alias
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary


class Column(Strict):
    """The meaning of a log column.

    Args:
        signal: The signal that the column contains.
        unit: The column's unit, if it differs from the signal's.
        codes: The meaning of each number, for a signal that is not a number.
        none_codes: Numbers that mean "does not exist".
    """

    signal: str
    unit: str | None = None
    codes: dict[float, bool | str] = {}
    none_codes: list[float] = []


def with_columns(
    vocabulary: Vocabulary, columns: Mapping[str, str | Column]
) -> Vocabulary:
    """The vocabulary with the columns as additional names of its signals."""
    aliases = dict(vocabulary.aliases)
    for name, entry in columns.items():
        column = Column(signal=entry) if isinstance(entry, str) else entry
        signal = vocabulary.signals.get(column.signal)
        if signal is None:
            raise InvalidInput(
                f"the column {name!r:.60} names the unknown"
                f" signal {column.signal!r:.60}",
                mend=near_miss(column.signal, vocabulary.signals),
            )
        aliases[name] = Alias.of(
            name, signal, column.unit, column.codes, column.none_codes
        )
    return replace(vocabulary, aliases=aliases)
