"""Numerals are read as what they write down, or refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.chains.formats.rows import rational


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("14/349", Fraction(14, 349)),
        ("0.05", Fraction(1, 20)),
        ("-1e-3", Fraction(-1, 1000)),
        (".5", Fraction(1, 2)),
        ("4.9e-324", Fraction(49, 10**325)),
        ("1e308", Fraction(10**308)),
    ],
)
def test_a_numeral_is_what_it_writes_down(text: str, value: Fraction) -> None:
    assert rational(text) == value
    assert rational(str(value)) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not a number"),
        ("nan", "'nan' is not a number"),
        ("1/0", "'1/0' divides by zero"),
        ("1/2/3", "is not a number"),
        ("1_0", "is not a number"),
        ("٣", "is not a number"),
        ("1e9999", "is not a number"),
        ("1" * 1001, "is not a number"),
        # What could be read and written down, but not be read again.
        ("1e-999", "1e-999 is too large or too small a number"),
        ("9" * 500, "too large or too small a number"),
    ],
)
def test_text_that_is_no_rational_number_is_rejected(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        rational(text)
    assert said in str(refused.value)
