"""Text that came from elsewhere, made harmless."""

from __future__ import annotations

import re
import unicodedata

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-_])")
_BIDI = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_SEPARATORS = frozenset("\u2028\u2029")


def clean(text: str) -> str:
    """The text without what could command a terminal or reorder a line.

    Escape sequences, control characters other than newline and tab, and marks that
    change the direction of writing are dropped.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in _ESCAPES.sub("", text) if _is_harmless(c))


def harmless_cell(text: str) -> str:
    """The text as a cell of a table: what begins like a formula would be one."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _is_harmless(character: str) -> bool:
    if character in "\n\t":
        return True
    return (
        character not in _BIDI
        and character not in _SEPARATORS
        and unicodedata.category(character) != "Cc"
    )
