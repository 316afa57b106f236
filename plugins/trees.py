"""Reads untrusted XML files up to a size limit; document type declarations, and thus
entities, are rejected.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Collection
from pathlib import Path

from forewarn.abstractions.errors import InvalidInput, TooLarge
from forewarn.abstractions.files import read_bytes

_DEEPEST = 40
_FARTHEST = 1e7


class Reading:
    """Reads a file of one kind.

    Args:
        path: The file.
    """

    kind: str
    """The name of the file format, for error messages."""

    tag: str
    """The tag of the root."""

    most_bytes: int
    most_elements: int
    attributes: Collection[str]
    """The names of the attributes to keep."""

    def __init__(self, path: Path) -> None:
        self._path, self._source = path, str(path)

    def root(self) -> ET.Element:
        """Returns the root of the document.

        Raises:
            InvalidInput: The XML is not well-formed, exceeds a size limit, has a
                document type declaration, or has another root.
        """
        data = read_bytes(self._path, self.most_bytes)
        if data and not data.lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n").startswith(
            b"<"
        ):
            raise self._wrong(
                f"this is not XML, but a {self.kind} file is needed",
                "for tables and recordings, use the world log",
            )
        target = _Builder(self._source, self.attributes, self.most_elements)
        parser = ET.XMLParser(target=target)  # noqa: S314 - no declarations
        try:
            parser.feed(data)
            root: ET.Element = parser.close()
        except (ET.ParseError, ValueError, LookupError) as error:
            raise self._wrong(f"the XML is not well-formed: {error}") from error
        if root.tag != self.tag:
            raise self._wrong(
                f"not a {self.kind} file: the root element is <{root.tag:.40}>"
            )
        return root

    def _finite(self, text: str | None, name: str, most: float = _FARTHEST) -> float:
        try:
            value = float(text or "")
        except ValueError:
            value = math.nan
        if not abs(value) <= most:
            raise self._wrong(
                f"{name}: {text!r:.40} is not a number, or is out of range"
            )
        return value

    def _wrong(self, what: str, mend: str = "") -> InvalidInput:
        return InvalidInput(what, source=self._source, mend=mend)


class _Builder(ET.TreeBuilder):
    """Builds a tree of limited size, and rejects document type declarations."""

    def __init__(self, source: str, attributes: Collection[str], most: int) -> None:
        super().__init__()
        self._source, self._attributes, self._most = source, attributes, most
        self._count = self._depth = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> ET.Element:
        self._count += 1
        self._depth += 1
        if self._count > self._most or self._depth > _DEEPEST:
            raise TooLarge(
                f"the XML has more than {self._most} elements, or more than "
                f"{_DEEPEST} levels of nesting",
                source=self._source,
            )
        kept = {k: v for k, v in attrs.items() if k in self._attributes}
        return super().start(tag, kept)

    def end(self, tag: str, /) -> ET.Element:
        self._depth -= 1
        return super().end(tag)

    def doctype(self, *_: object) -> None:
        raise InvalidInput(
            "the file has a document type declaration, which is not allowed",
            source=self._source,
            mend="remove the line with <!DOCTYPE",
        )
