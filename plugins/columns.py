"""Maps log columns and message fields to signals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.serial import Strict
from forewarn.abstractions.vocabularies.signals import Alias, Signal
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary


class Encoding(Strict):
    """The encoding of a signal in a source of data.

    Args:
        unit: The unit of the number, if it differs from that of the signal.
        codes: The value that each number encodes, for a signal that is not a number.
        none_codes: The numbers that encode `none`, for example that there is no vehicle
            ahead.
    """

    unit: str | None = None
    codes: dict[float, bool | str] = {}
    none_codes: list[float] = []

    def alias(self, name: str, signal: Signal) -> Alias:
        """Returns the alias that converts the encoded value `name` to a signal."""
        return Alias.of(name, signal, self.unit, self.codes, self.none_codes)


class Column(Encoding):
    """The signal in a log column, and its encoding.

    Args:
        signal: The name of the signal.
    """

    signal: str


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
        aliases[name] = column.alias(name, signal)
    return replace(vocabulary, aliases=aliases)
