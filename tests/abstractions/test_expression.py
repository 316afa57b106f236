"""The expression language: it prints what it parses, and means one thing everywhere."""

from __future__ import annotations

import math
import operator
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidExpression, SignalFault
from forewarn.abstractions.expression import Expression, parse_expression
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.expression.terms import MAX_DEPTH, MAX_LENGTH
from forewarn.abstractions.expression.tree import (
    And,
    Arithmetic,
    Call,
    Compare,
    Constant,
    Implies,
    IsNone,
    Name,
    Negative,
    Not,
    Number,
    ObjectPredicate,
    Or,
    Text,
    signals_of,
)
from forewarn.abstractions.expression.vector import evaluate
from forewarn.abstractions.vocabularies.signals import UNITS, named_unit
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from tests.strategies import (
    VOCABULARY,
    WORDS,
    expressions,
    frames,
    measured_comparisons,
    measured_expressions,
    measured_frames,
)

DRIVING = load_vocabulary("driving")
HOUSEHOLD = load_vocabulary("household")


# -- text ---------------------------------------------------------------------------


@given(expressions())
def test_repr_parses_back_without_a_vocabulary(node: Expression) -> None:
    assert parse_expression(repr(node)) == node


@given(measured_expressions())
def test_repr_parses_back_with_a_vocabulary(node: Expression) -> None:
    assert parse_expression(repr(node), VOCABULARY) == node


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("speed>30", "speed > 30"),
        ("30 < speed", "speed > 30"),
        ("speed > 8 && !wet", "speed > 8 and not wet"),
        ("wet | dark -> speed = 1e3", "wet or dark -> speed == 1000"),
        ("a -> b -> c", "a -> b -> c"),
        ("(a -> b) -> c", "(a -> b) -> c"),
        ("a and (b and c) or d", "a and (b and c) or d"),
        ("a - (b - c) > -1 * (2 + d)", "a - (b - c) > -1 * (2 + d)"),
        ("not (a > 3)", "not a > 3"),
        ("gap is not none", "not gap is none"),
        ("wet == true and dark != true", "wet and not dark"),
        ('light == "red"', "light == red"),
        ('light == "two words"', 'light == "two words"'),
        ('light == "true"', 'light == "true"'),
        ('light == "next"', 'light == "next"'),
        ("light == (red)", "light == (red)"),
        ("x > 1e22", "x > 1e+22"),
    ],
)
def test_printed_form(text: str, printed: str) -> None:
    node = parse_expression(text)
    assert repr(node) == printed
    assert parse_expression(printed) == node


def test_definitions_stand_for_their_expressions() -> None:
    fast = parse_expression("speed > 30 km/h", DRIVING)
    node = parse_expression("fast and not fast", DRIVING, {"fast": fast})
    assert node == And((fast, Not(fast)))


def test_object_predicates_are_signals_under_their_own_text() -> None:
    node = parse_expression("is_inside( Fork ,Microwave#2)", HOUSEHOLD)
    assert signals_of(node) == ("is_inside(Fork, Microwave#2)",)
    assert compile_test(node)({"is_inside(Fork, Microwave#2)": True})


# -- units ----------------------------------------------------------------------------


def test_a_known_unit_converts_exactly() -> None:
    assert named_unit("km/h").factor * Fraction("28.8") == 8 * named_unit("m/s").factor
    assert named_unit("mph").factor == Fraction("0.44704")
    assert named_unit("km").times(named_unit("h"), -1) == named_unit("km/h")
    assert (
        named_unit("m/s").times(named_unit("s"), -1)
        == named_unit("m/s²")
        == named_unit("m/s^2")
    )
    assert named_unit("parsec") == named_unit("parsec") != named_unit("furlong")
    assert not named_unit("parsec").same_kind(named_unit("m"))
    fast = compile_test(parse_expression("speed >= 8 m/s", VOCABULARY))
    assert fast({"speed": 28.8}) and not fast({"speed": math.nextafter(28.8, 0)})


@given(
    st.integers(1, 10**6), st.integers(0, 4), st.sampled_from(["km/h", "m/s", "mph"])
)
def test_a_constant_is_converted_with_one_rounding(
    digits: int, places: int, written: str
) -> None:
    text = f"{digits}e-{places}"
    same = compile_test(parse_expression(f"speed == {text} {written}", VOCABULARY))
    exact = Fraction(text) * UNITS[written].factor / UNITS["km/h"].factor
    assert same({"speed": float(exact)})


def test_a_constant_without_a_unit_has_that_of_the_signal() -> None:
    for text in ("speed > 36", "speed > 10 m/s", "speed - 6 > 30", "2 * speed > 72"):
        test = compile_test(parse_expression(text, VOCABULARY))
        assert test({"speed": 36.5}) and not test({"speed": 36.0}), text


@pytest.mark.parametrize(
    "text",
    [
        "speed > gap",
        "speed > 5 m",
        "gap + 3 s > 1",
        "min(speed, gap) > 1",
        "lanes > 2 km/h",
        "gap / 2 s > 5 m",
        "speed * speed > 3 km/h",
    ],
)
def test_quantities_of_different_kinds_are_refused(text: str) -> None:
    with pytest.raises(InvalidExpression, match="have different units"):
        parse_expression(text, VOCABULARY)


def exact_sides(node: Expression, frame: dict[str, Any]) -> Fraction | None:
    """A quantity's exact value in base units; a bare number is taken as it is."""
    match node:
        case Number(value=value, unit=name):
            return Fraction(repr(value)) * named_unit(name).factor
        case Name(name=name, unit=its):
            held = frame[name]
            return (
                None if held is None else Fraction(repr(held)) * named_unit(its).factor
            )
        case Negative(operand=operand):
            inner = exact_sides(operand, frame)
            return None if inner is None else -inner
        case Arithmetic() | Call():
            parts = [exact_sides(child, frame) for child in node.children]
            if any(part is None for part in parts):
                return None
            word = node.operator if isinstance(node, Arithmetic) else node.function
            return EXACT[word](*parts)
    raise AssertionError(node)


EXACT: dict[str, Any] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne, "abs": abs, "min": min, "max": max,
}  # fmt: skip


def bare(node: Expression) -> bool:
    """Whether it holds a number without unit where the kind has one."""
    match node:
        case Arithmetic(operator="*", left=left):
            return bare(left)
        case Number(unit=name):
            return not name
        case _:
            return any(bare(child) for child in node.children)


@given(measured_comparisons(), measured_frames())
def test_mixed_units_mean_what_exact_arithmetic_says(
    node: Compare, frame: dict[str, Any]
) -> None:
    # A number without unit takes on that of its neighbours: tested above.
    assume(not bare(node) or "lanes" in signals_of(node))
    left, right = exact_sides(node.left, frame), exact_sides(node.right, frame)
    if left is None or right is None:
        assert not compile_test(node)(frame)
        return
    assume(abs(left - right) > (abs(left) + abs(right)) / 10**9)
    assert compile_test(node)(frame) == EXACT[node.operator](left, right)


# -- meaning ------------------------------------------------------------------------


class Fault(Exception):
    """The interpreter's own SignalFault."""


def interpreted(node: Expression, frame: dict[str, Any]) -> Any:
    """The language's meaning, word for word; no units."""
    parts = [interpreted(child, frame) for child in node.children]
    match node:
        case Constant(value=value) | Number(value=value) | Text(value=value):
            return value
        case Name(name=name):
            return frame[name]
        case ObjectPredicate():
            return frame[repr(node)]
        case IsNone():
            return parts[0] is None
        case Not():
            return not parts[0]
        case And():
            return all(parts)
        case Or():
            return any(parts)
        case Implies():
            return not parts[0] or bool(parts[1])
        case Compare(operator=symbol):
            return None not in parts and EXACT[symbol](*parts)
    if None in parts:
        return None
    word = {Negative: "negative", Call: "function", Arithmetic: "operator"}[type(node)]
    if word == "negative":
        return -parts[0]
    try:
        result = EXACT[getattr(node, word)](*parts)
    except ZeroDivisionError:
        raise Fault from None
    if not math.isfinite(result):
        raise Fault
    return result


def columns_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows as columns: NaN for the none of a number, None for that of a word."""
    return {
        name: np.array([row[name] for row in rows], object if name in WORDS else float)
        for name in rows[0]
    }


@settings(max_examples=100)
@given(expressions(), st.lists(frames(), min_size=1, max_size=6))
def test_closures_and_arrays_mean_what_the_words_say(
    node: Expression, rows: list[dict[str, Any]]
) -> None:
    expected: list[bool | None] = []
    for row in rows:
        try:
            expected.append(bool(interpreted(node, row)))
        except Fault:
            expected.append(None)
    test = compile_test(node)
    for row, truth in zip(rows, expected, strict=True):
        if truth is None:
            with pytest.raises(SignalFault):
                test(row)
        else:
            assert test(row) is truth
    if None in expected:
        with pytest.raises(SignalFault):
            evaluate(node, columns_of(rows))
    else:
        held = np.broadcast_to(evaluate(node, columns_of(rows)), len(rows))
        assert held.tolist() == expected


@given(measured_comparisons(), st.lists(measured_frames(), min_size=1, max_size=4))
def test_arrays_round_as_closures_do(
    node: Expression, rows: list[dict[str, Any]]
) -> None:
    test = compile_test(node)
    try:
        expected = [test(row) for row in rows]
    except SignalFault:
        with pytest.raises(SignalFault):
            evaluate(node, columns_of(rows))
        return
    held = np.broadcast_to(evaluate(node, columns_of(rows)), len(rows))
    assert held.tolist() == expected


@pytest.mark.parametrize("symbol", ["<", "<=", ">", ">=", "==", "!="])
def test_no_comparison_with_none_holds(symbol: str) -> None:
    for text in (f"x {symbol} 3", f"x + 1 {symbol} y", f"max(x, y) {symbol} 2"):
        node = parse_expression(text)
        assert not compile_test(node)({"x": None, "y": 1.0})
        assert not evaluate(node, {"x": np.array([np.nan]), "y": np.ones(1)}).any()


def test_is_none_tells_none_from_everything_else() -> None:
    node = parse_expression("x is none")
    assert [compile_test(node)({"x": x}) for x in (None, 0.0, False)] == [True, 0, 0]
    assert evaluate(node, {"x": np.array([np.nan, 0.0])}).tolist() == [True, False]
    words = np.array([None, "red"], object)
    assert evaluate(node, {"x": words}).tolist() == [True, False]


def test_a_missing_signal_is_not_none() -> None:
    for text in ("x > 3", "x is none", "x", "light == red", "true or x > 3"):
        with pytest.raises(KeyError):
            compile_test(parse_expression(text))({})
        with pytest.raises(KeyError):
            evaluate(parse_expression(text), {})


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(
    "text", ["x > 3", "x + 1 > y", "abs(x) != 1", "x", "dark and x > 3", "dark or x"]
)
def test_a_number_that_is_not_finite_is_a_fault(text: str, bad: float) -> None:
    node = parse_expression(text)
    with pytest.raises(SignalFault, match=r"(x|result) is -?(inf|nan)"):
        compile_test(node)({"x": bad, "y": 1.0, "dark": "or" in text})
    columns = {"x": np.array([1.0, bad]), "y": np.ones(2), "dark": np.ones(2, bool)}
    if math.isnan(bad):
        assert not evaluate(node, columns)[1] or "or" in text
    else:
        with pytest.raises(SignalFault, match="x is -?inf"):
            evaluate(node, columns)


@pytest.mark.parametrize(
    "text", ["1 / x > 3", "x / x == 1", "1 / 0 > 3", "1e99 * y > 3"]
)
def test_no_result_is_silently_infinite(text: str) -> None:
    node = parse_expression(text)
    frame = {"x": 0.0, "y": 1e300}
    with pytest.raises(SignalFault):
        compile_test(node)(frame)
    with pytest.raises(SignalFault):
        evaluate(node, {name: np.array([value]) for name, value in frame.items()})


def test_none_divided_by_zero_is_none() -> None:
    node = parse_expression("y / x > 3")
    assert not compile_test(node)({"x": 0.0, "y": None})
    assert not evaluate(node, {"x": np.zeros(1), "y": np.array([np.nan])}).any()


def test_a_fault_shows_whatever_else_is_known() -> None:
    """Two conditions were once cut short where three were not."""
    for text in ("x > 3 and y > 3", "y < 3 or x > 3", "y > 3 -> x > 3"):
        with pytest.raises(SignalFault):
            compile_test(parse_expression(text))({"x": math.nan, "y": 0.0})


@pytest.mark.parametrize("value", ["false", "red", [1]])
def test_a_truth_value_is_not_a_word(value: object) -> None:
    with pytest.raises(SignalFault, match="neither true nor false"):
        compile_test(Name("wet"))({"wet": value})


def test_a_word_is_not_a_number() -> None:
    node = parse_expression("light == red")
    with pytest.raises(SignalFault, match="light is 3, not text"):
        compile_test(node)({"light": 3})
    with pytest.raises(SignalFault, match="x has a value that is not a number"):
        evaluate(parse_expression("x > 3"), {"x": np.array(["red"], object)})


def test_truth_values_may_be_numbers() -> None:
    wet = compile_test(Name("wet"))
    values = (True, np.True_, 1, 2.5, np.int64(1), False, np.False_, 0, 0.0, None)
    assert [wet({"wet": value}) for value in values] == [True] * 5 + [False] * 5


def test_columns_may_be_of_any_numeric_type() -> None:
    column: Any = np.array([0, 1, 3])
    for kind in (np.int8, np.int64, np.float32, np.float64, object):
        node = parse_expression("x > 0.1 and x / 2 < 1")
        assert evaluate(node, {"x": column.astype(kind)}).tolist() == [
            False,
            True,
            False,
        ]


def test_constants_go_with_columns() -> None:
    for text in ("true and x > 3", "x > 3 or 3 < 2", "false -> x > 3", "not true"):
        node = parse_expression(text)
        held = np.broadcast_to(evaluate(node, {"x": np.array([1.0, 5.0])}), 2)
        expected = [compile_test(node)({"x": x}) for x in (1.0, 5.0)]
        assert held.tolist() == expected, text


# -- errors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 1, "expected a signal or a number, found the end"),
        ("speed >", 8, "expected a signal or a number"),
        ("speed > 3 4", 11, "expected an operator before '4'"),
        ("speed ; 3", 7, "unexpected character ';'"),
        ("(speed > 3", 11, "expected ')', found the end (add ')')"),
        ("speed", 1, "speed is not a condition by itself (compare it, as in speed > 0"),
        ("speed + 1", 1, "speed + 1 is a number (compare it, as in speed + 1 > 0)"),
        ("wet and speed", 9, "speed is not a condition by itself"),
        ("spede > 3", 1, "unknown signal 'spede' (did you mean speed?)"),
        ("v > 3", 1, "unknown signal 'v' (write speed)"),
        ("qqq > 3", 1, "unknown signal 'qqq' (the vocabulary"),
        ("speed > 3 kmh", 11, "'kmh' is not a unit (did you mean km/h?)"),
        ("speed > 3 km/hr", 11, "'km/hr' is not a unit (did you mean km/h?)"),
        ("speed > 3 wet", 11, "'wet' is not a unit"),
        ("light == rde", 10, "'rde' is not a value of light (did you mean red?)"),
        (
            "light == 3",
            10,
            "'3' is not a value of light (use one of red, amber, green)",
        ),
        ("light < 3", 1, "light is not a number"),
        ("light != true", 10, "'true' is not a value of light"),
        ("speed == true", 10, "true is not a number"),
        ("wet > 3", 1, "wet is not a number"),
        (
            "wet == 3",
            8,
            "wet is Boolean: compare it with true, false, 0 or 1 (write wet)",
        ),
        ("1 < speed < 3", 11, "comparisons cannot be chained (write a < b and b < c)"),
        ("speed + wet > 3", 9, "wet is not a number"),
        ("(speed > 3) + 1 > 2", 1, "speed > 3 is not a number"),
        ("speed > 3 m", 7, "have different units"),
        ("speed + 1 is none", 1, "only a signal can be none"),
        ("min(speed) > 3", 1, "min takes 2 to 8 arguments (write min(x, y))"),
        ("abs(speed, pace) > 3", 1, "abs takes 1 argument (write abs(x))"),
        ("opne(Door)", 1, "'opne' is not a predicate or function (did you mean open?)"),
        ("open(Door, Box)", 1, "open takes 1 arguments, not 2"),
        ("open(3)", 6, "expected an object's name, found '3'"),
        ("speed > 1e101", 9, "the number 1e101 is too large"),
    ],
)
def test_errors_say_where_and_what_mends_them(
    text: str, column: int, says: str
) -> None:
    with pytest.raises(InvalidExpression) as caught:
        parse_expression(text, VOCABULARY)
    assert caught.value.place == f"column {column}"
    assert caught.value.mend
    for part in says.removesuffix(")").split(" ("):
        assert part in str(caught.value)


TOKENS = [
    *"()[]{},<>=!&|+-*/%²^°#\"'.;\\ \n\t", "->", "<=", "==", "!=", "&&", "||", "and",
    "or", "not", "true", "false", "is", "none", "is none", "is not none", "abs(",
    "min(", "max(", "speed", "gap", "light", "wet", "lanes", "red", "open(", "Door",
    "inside(Cup, Box)", "3", "0", "1e5", "1e999", ".5", "2.", "km/h", "m/s", "m", "s",
    '"red"', "٣", "é", "always", "U", "x",
]  # fmt: skip
SCRIBBLES = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from(TOKENS), max_size=14).map("".join),
    st.lists(st.sampled_from(TOKENS), max_size=14).map(" ".join),
)


@settings(max_examples=120)
@given(SCRIBBLES, st.booleans())
@example("x == y -", False)
def test_any_text_parses_or_says_where_it_does_not(text: str, known: bool) -> None:
    vocabulary = VOCABULARY if known else None
    try:
        node = parse_expression(text, vocabulary)
    except InvalidExpression as error:
        column = int(error.place.removeprefix("column "))
        assert 1 <= column <= len(text) + 1
        assert error.mend
    else:
        assert parse_expression(repr(node), vocabulary) == node
        compile_test(node)


@pytest.mark.parametrize(
    ("before", "after"),
    [("(", ")"), ("not ", ""), ("abs(", ")"), ("x + ", ""), ("a -> ", ""),
     ("(a and ", ")"), ("not(", ")"), ("-(", ")"), ("x * (", ")")],
)  # fmt: skip
def test_nesting_is_limited_before_python_gives_up(before: str, after: str) -> None:
    end = " > 3" if before[0] in "-x" or before == "abs(" else ""
    for depth in (2, 10, MAX_DEPTH // 2 - 1):
        node = parse_expression(before * depth + "x" + after * depth + end)
        assert parse_expression(repr(node)) == node
    for depth in (MAX_DEPTH + 1, 2000):
        with pytest.raises(InvalidExpression, match="nested more than 40 levels deep"):
            parse_expression(before * depth + "x" + after * depth + end)


def test_the_deepest_nesting_leaves_room_on_the_stack() -> None:
    def deeper(levels: int) -> Expression:
        if levels:
            return deeper(levels - 1)
        return parse_expression("(" * 39 + "x > 3" + ")" * 39)

    frame: Any = sys._getframe()
    used = 0
    while frame := frame.f_back:
        used += 1
    assert deeper(max(0, 250 - used)) == parse_expression("x > 3")


def test_a_long_text_is_fine_and_a_longer_one_is_not() -> None:
    text = " or ".join(["x > 3"] * 2000)
    assert len(parse_expression(text).children) == 2000
    with pytest.raises(InvalidExpression, match=f"longer than {MAX_LENGTH} characters"):
        parse_expression(" or ".join([text] * 3))
