"""Maps log columns and message fields to signals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.serial import Strict
from forewarn.abstractions.vocabularies.signals import Alias
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary


class Column(Strict):
    """The signal in a log column, and its encoding.

    Args:
        signal: The name of the signal.
        unit: The unit of the column, if it differs from that of the signal.
        codes: The value that each number encodes, for a signal that is not a number.
        none_codes: The numbers that encode `none`, for example that there is no vehicle
            ahead.
    """

    signal: str
    unit: str | None = None
    codes: dict[float, bool | str] = {}
    none_codes: list[float] = []


def with_columns(
    vocabulary: Vocabulary, columns: Mapping[str, str | Column]
) -> Vocabulary:
    """Returns a copy of a vocabulary in which columns are aliases of signals."""
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
