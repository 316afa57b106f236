"""Computes the decompressed size of Parquet columns from their page headers.

The sizes in the footer of an untrusted file may be false. pyarrow allocates the size
that each page header states, so these sizes are added up before decompression.
"""

from __future__ import annotations

from typing import Any

_HEAD = 1 << 16
"""The maximum length of a page header, in bytes. Only headers with statistics of very
long words are longer.
"""

_FIXED = {3: 1, 7: 8}
_VARINTS = (4, 5, 6)
_STRUCT, _STOP = 12, 0


def unpacked_bytes(file: Any, metadata: Any, group: int, columns: list[str]) -> int:
    """Returns the total decompressed size of columns in a row group, in bytes.

    Args:
        file: The open file.
        metadata: The footer of the file, as read by pyarrow.
        group: The index of the row group.
        columns: The names of the columns.

    Raises:
        ValueError: A page header is invalid.
    """
    rows, total = metadata.row_group(group), 0
    wanted = set(columns)
    for number in range(rows.num_columns):
        column = rows.column(number)
        if column.path_in_schema.split(".")[0] not in wanted:
            continue
        at = column.data_page_offset
        if column.dictionary_page_offset:
            at = min(at, column.dictionary_page_offset)
        end = at + column.total_compressed_size
        while at < end:
            file.seek(at)
            header = _Header(file.read(_HEAD))
            unpacked, packed = header.sizes()
            total += unpacked
            at += header.at + packed
    return total


class _Header:
    """Parses a page header: a struct in Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def sizes(self) -> tuple[int, int]:
        """Returns the uncompressed and compressed sizes of the page (fields 2 and
        3).
        """
        fields = self._struct(0)
        unpacked, packed = fields.get(2, -1), fields.get(3, -1)
        if unpacked < 0 or packed < 0:
            raise ValueError("a page header does not state the size of the page")
        return unpacked, packed

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise ValueError("a page header is truncated")
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError("an integer in a page header is too long")

    def _struct(self, depth: int) -> dict[int, int]:
        """Parses a struct; returns its integer fields by field number."""
        if depth > 8:
            raise ValueError("a page header is nested too deeply")
        found: dict[int, int] = {}
        field = 0
        while (head := self._byte()) != _STOP:
            kind, step = head & 15, head >> 4
            field = field + step if step else _signed(self._varint())
            if kind in _VARINTS:
                found[field] = _signed(self._varint())
            else:
                self._skip(kind, depth)
        return found

    def _skip(self, kind: int, depth: int) -> None:
        if kind == _STRUCT:
            self._struct(depth + 1)
        elif kind == 8:
            length = self._varint()
            self.at += length
        elif kind in _FIXED:
            self.at += _FIXED[kind]
        elif kind not in (1, 2):
            raise ValueError("a page header has a field of an unknown type")


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
