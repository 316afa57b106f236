"""Numerals read as exactly what they write down."""

from __future__ import annotations

import re
from fractions import Fraction

from forewarn.abstractions.errors import InvalidInput

_NUMERAL = re.compile(
    r"[+-]?(?:\d+/\d+|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)", re.ASCII
)
_MAX_LENGTH = 1000
_MAX_BITS = 1600
"""So that a fraction written down is no longer than what is read."""


def rational(text: str) -> Fraction:
    """The fraction that a numeral such as `14/349`, `0.05` or `1e-3` stands for."""
    if len(text) > _MAX_LENGTH or not _NUMERAL.fullmatch(text):
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise InvalidInput(
            f"{shown!r} is not a number", mend="write it as 0.1, 1/10 or 1e-1"
        )
    try:
        value = Fraction(text)
    except ZeroDivisionError:
        raise InvalidInput(f"{text!r} divides by zero") from None
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        raise InvalidInput(f"{text:.40} is too large or too small a number")
    return value
