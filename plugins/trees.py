"""Parses untrusted XML up to a size limit; document type declarations, and thus
entities, are rejected.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Collection

from forewarn.abstractions.errors import InvalidInput, TooLarge

_DEEPEST = 40


def tree(
    data: bytes, source: str, attributes: Collection[str], most: int
) -> ET.Element:
    """Returns the root of an XML document.

    Args:
        data: The document.
        source: Its path, for error messages.
        attributes: The names of the attributes to keep.
        most: The maximum number of elements.

    Raises:
        InvalidInput: The XML is not well-formed, exceeds a size limit, or has a
            document type declaration.
    """
    target = _Builder(source, attributes, most)
    parser = ET.XMLParser(target=target)  # noqa: S314 - no declarations
    try:
        parser.feed(data)
        root: ET.Element = parser.close()
        return root
    except (ET.ParseError, ValueError, LookupError) as error:
        raise InvalidInput(
            f"the XML is not well-formed: {error}", source=source
        ) from error


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
