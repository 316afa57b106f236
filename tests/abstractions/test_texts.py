"""What conditions say of texts: what they start with, match, are one of; and counts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.encoding import ColumnReader, Reader, compile_states, past_of
from forewarn.abstractions.errors import InvalidExpression
from forewarn.abstractions.expression import parse_expression
from forewarn.abstractions.expression.pattern import Pattern
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.expression.vector import evaluate
from forewarn.abstractions.frame import Frame
from forewarn.monitors.laws.formula import parse_formula

ATOMS = ["a", "b", ".", "[ab]", "[^a-b]", r"\w", r"\S", r"\b", "^", "x", r"\."]


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeats = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])
    return (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format)
        | st.tuples(inner, repeats).map("({0[0]}){0[1]}".format)
    )


PATTERNS = st.recursive(st.sampled_from(ATOMS), _grown, max_leaves=6)


@given(PATTERNS, st.text("ab x1.\n", max_size=8))
def test_patterns_mean_what_they_mean_in_python(text: str, value: str) -> None:
    assert Pattern(text).found_in(value) == bool(re.search(text, value))


def test_text_that_cannot_be_encoded_hides_nothing_from_a_pattern() -> None:
    assert Pattern("rm -rf").found_in("\ud800 rm -rf")


def test_a_pattern_made_for_backtracking_takes_no_longer_than_any() -> None:
    assert not Pattern("(a|a)+(a+)+$").found_in("a" * 20_000 + "b")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (r"(a)\1", "linear time"),
        ("(?=a)", "linear time"),
        ("(a", "unclosed group"),
        ("a)", "unopened group"),
        ("*a", "repetition operator missing expression"),
        ("a{3,2}", "invalid repetition count range"),
        ("(a{999}){9999}", "exceeds size limit.*use fewer repetitions"),
        ("[z-a]", "invalid character class range"),
        ("[a", "unclosed character class"),
        ("(" * 300, "unclosed group"),
    ],
)
def test_unsupported_pattern_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(InvalidExpression, match=problem):
        Pattern(text)


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ('path starts_with "/etc/"', "/etc/passwd", True),
        ('path starts_with "/etc/"', "/home/etc/", False),
        ('path starts_with "/etc/"', None, False),
        ("path in [red, green]", "green", True),
        ("path in [red, green]", "blue", False),
        ('path in ("a b", c)', "a b", True),
        ("path not in {red, green}", "blue", True),
        (r'path matches "^[\w.]+@corp\.com$"', "ann.b@corp.com", True),
        (r'path matches "^[\w.]+@corp\.com$"', "ann@corp.com.evil.org", False),
        ('path matches "(?i)DROP\\s+table"', "; drop  TABLE x", True),
        ('path matches "a"', None, False),
    ],
)
def test_conditions_on_texts(text: str, value: Any, holds: bool) -> None:
    node = parse_expression(text)
    assert parse_expression(repr(node)) == node
    assert compile_test(node)({"path": value}) is holds
    column = np.array([value], dtype=object)
    assert evaluate(node, {"path": column}).tolist() == [holds]


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("path starts_with /etc", 'write path starts_with "…"'),
        ("path in red", "write path in [a, b]"),
        ("path in [red", "expected , or ]"),
        ('(1 + 2) matches "a"', "name one signal, as in arg_path matches"),
        (r'path matches "(a)\1"', "remove backreferences"),
        ("count[0, 60](failed) > 3", "write count[0, 60 s](condition) <= 3"),
        ("count[5, 60 s](failed) > 3", "write count[0, 60 s](condition) <= 3"),
        ("count[0, 60 s] failed > 3", "write count[0, 60 s](condition) <= 3"),
        ("count[0, 60 s](failed)", "compare it"),
        ("count[0, 60 s](count[0, 1 s](failed) > 1) > 3", "on the current frame"),
    ],
)
def test_errors_name_the_fix(text: str, mend: str) -> None:
    with pytest.raises(InvalidExpression) as error:
        parse_expression(text)
    assert mend in str(error.value)


def test_a_law_counts_conditions_of_one_moment() -> None:
    with pytest.raises(InvalidExpression, match="a single moment"):
        parse_formula("always count[0, 9 s](once failed) <= 3")


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(1, 9))
def test_counts_are_of_the_last_seconds(held: list[bool], seconds: int) -> None:
    node = parse_expression(f"count[0, {seconds} s](p) >= 2")
    past = past_of([node])
    expected = [sum(held[max(0, i - seconds) : i + 1]) >= 2 for i in range(len(held))]
    reader = Reader(compile_states([node]), past, ())
    frames = [Frame(float(i), i, {"p": p}) for i, p in enumerate(held)]
    seen = []
    for frame in frames:
        assert reader.peek(frame) == reader.peek(frame)  # looking changes nothing
        seen.append(bool(reader.frame(frame)))
    times = np.arange(len(held), dtype=float)
    columns = ColumnReader(past).told({"p": np.array(held)}, times)
    assert seen == evaluate(node, columns).tolist() == expected
