"""The formula language: text, clocks and errors."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidExpression
from forewarn.abstractions.expression import parse_expression
from forewarn.abstractions.expression.terms import MAX_DEPTH
from forewarn.abstractions.expression.tree import And, Implies, Name, Not
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary, load_vocabulary
from forewarn.monitors.laws.formula import (
    Always,
    Eventually,
    Formula,
    Historically,
    Interval,
    Next,
    Once,
    Since,
    Until,
    is_temporal,
    parse_formula,
)
from tests.strategies import bounded_formulas, combined, comparisons, laws

DRIVING = load_vocabulary("driving")


# -- text ---------------------------------------------------------------------------


@given(laws(3, 5))
def test_repr_parses_back(formula: Formula) -> None:
    assert parse_formula(repr(formula)) == formula


def timed() -> st.SearchStrategy[Interval]:
    number = st.tuples(st.integers(0, 10**6), st.integers(0, 4)).map(
        lambda pair: float(f"{pair[0]}e-{pair[1]}")
    )
    units = st.sampled_from(["s", "ms", "min"])
    both = st.lists(number, min_size=2, max_size=2).map(sorted)
    return st.one_of(
        st.builds(lambda pair, unit: Interval(pair[0], pair[1], unit), both, units),
        st.builds(lambda low, unit: Interval(low, None, unit), number, units).filter(
            lambda interval: interval.low > 0
        ),
        st.just(Interval()),
    )


@given(combined(comparisons(1), 2), combined(comparisons(1), 2), timed())
def test_any_interval_and_any_predicate_print_and_parse(
    a: Formula, b: Formula, interval: Interval
) -> None:
    for node in (
        Always(Implies(a, Eventually(b, interval))),
        Until(a, b, interval),
        And((Since(a, b, interval), Not(Once(b, interval)))),
        Historically(Next(Not(a)), interval),
        Until(Until(a, b, interval), Not(Until(b, a)), interval),
    ):
        assert parse_formula(repr(node)) == node


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("G(a -> F[0,100 steps] b)", "always (a -> eventually[0, 100 steps] b)"),
        ("always a -> b", "always a -> b"),
        ("always (a) and b", "always a and b"),
        ("a U[0, 2 s] b", "a until[0, 2 s] b"),
        ("speed > 5 U gap < 3", "speed > 5 until gap < 3"),
        ("not a until b", "not a until b"),
        ("not (a until b)", "not (a until b)"),
        ("a until b and c since d", "a until b and c since d"),
        ("(a until b) until c", "(a until b) until c"),
        ("X X a", "next next a"),
        ("F[1 s, 2 s] a", "eventually[1, 2 s] a"),
        ("F[1 s, 2] a", "eventually[1, 2 s] a"),
        ("F[0, 0.5 min] a", "eventually[0, 0.5 min] a"),
        ("F[0, 1 step] a", "eventually[0, 1 steps] a"),
        ("once[0,] a", "once a"),
        ("once[0 s,] a", "once a"),
        ("once[3,] a", "once[3 steps,] a"),
        ("historically[1.5 s,] a", "historically[1.5 s,] a"),
        ("always light == U", "always light == U"),
    ],
)
def test_printed_form(text: str, printed: str) -> None:
    formula = parse_formula(text)
    assert repr(formula) == printed
    assert parse_formula(printed) == formula


def test_one_letter_operators_give_way_to_names_that_are_defined() -> None:
    goal = parse_expression("gap < 3")
    assert parse_formula("always G", None, {"G": goal}) == Always(goal)
    assert parse_formula("G a") == Always(Name("a"))


def test_definitions_may_be_laws_themselves() -> None:
    answered = parse_formula("eventually[0, 2 s] b")
    formula = parse_formula("always (a -> answered)", None, {"answered": answered})
    assert formula == parse_formula("always (a -> eventually[0, 2 s] b)")


def test_signals_are_checked_inside_laws() -> None:
    formula = parse_formula("always (speed > 5 m/s -> F[0, 2 s] speed < 1)", DRIVING)
    assert is_temporal(formula)
    with pytest.raises(InvalidExpression, match="unknown signal 'spede'"):
        parse_formula("always (a -> F[0, 2 s] spede < 1)", DRIVING, {"a": Name("a")})


# -- clocks -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "unit", "period", "steps"),
    [
        (0.3, "s", 0.1, 3),
        (0.7, "s", 0.1, 7),
        (2.3, "s", 0.1, 23),
        (1.0, "s", 0.3, 3),
        (0.29, "s", 0.1, 2),
        (100, "ms", 0.1, 1),
        (99, "ms", 0.1, 0),
        (1.1, "min", 0.1, 660),
        (4.35, "s", 0.01, 435),
        (3, "s", 0.07, 42),
        (7, "steps", 0.5, 7),
        (7, "steps", None, 7),
    ],
)
def test_seconds_are_counted_in_whole_steps(
    bound: float, unit: str, period: float | None, steps: int
) -> None:
    formula = parse_formula(f"eventually[0, {bound} {unit}] a")
    assert isinstance(formula, Eventually)
    assert formula.interval.steps(period) == (0, steps)


@given(
    st.integers(0, 10**6), st.integers(0, 4), st.integers(1, 10**4), st.integers(0, 4)
)
@example(3, 1, 1, 1)
def test_steps_are_the_floor_of_the_decimals_as_written(
    bound: int, places: int, period: int, period_places: int
) -> None:
    exact = Fraction(bound, 10**places) / Fraction(period, 10**period_places)
    interval = Interval(0, float(f"{bound}e-{places}"), "s")
    clock = float(f"{period}e-{period_places}")
    if exact > 10**6:
        with pytest.raises(InvalidExpression, match="is more than 1000000 steps"):
            interval.steps(clock)
    else:
        assert interval.steps(clock) == (0, exact // 1)
        assert Interval(interval.high or 0, None, "s").steps(clock) == (
            exact // 1,
            None,
        )


# -- errors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 1, "expected a signal or a number, found the end"),
        ("always", 7, "expected a signal or a number, found the end"),
        ("always (a -> )", 14, "expected a signal or a number, found ')'"),
        ("always[0 a", 10, "'a' is not a unit of time (use s, ms, min or steps)"),
        ("always[0, 2] a", 8, "the time has no unit (write s, ms or steps)"),
        ("always[0 s, 2 ms] a", 8, "both times must have the same unit"),
        (
            "always[0, 2.5 steps] a",
            8,
            "the number of steps must be whole (round the number, or use s)",
        ),
        ("always[2.5,] a", 8, "the number of steps must be whole"),
        ("always[3, 2 s] a", 8, "the interval ends before it begins: 3 > 2"),
        ("eventually[-1, 2 s] a", 12, "a time cannot be negative (write once[0, 1 s]"),
        ("eventually[x, 2 s] a", 12, "expected a time, found 'x'"),
        ("eventually[0, 2 sec] a", 17, "'sec' is not a unit of time"),
        ("eventually[0 2 s] a", 14, "expected ','"),
        ("eventually[0, 2 s a", 19, "expected ']', found 'a'"),
        ("a until b until c", 11, "'until' cannot be chained (add parentheses)"),
        ("a since b until c", 11, "'since' cannot be chained"),
        ("always x + 1", 8, "x + 1 is a number (compare it, as in x + 1 > 0)"),
        ("x + 1 until b", 1, "x + 1 is a number"),
        ("a until", 8, "expected a signal or a number"),
        ("always a b", 10, "expected an operator before 'b'"),
        ("(always a) > 3", 1, "always a is not a number"),
        ("never x < 5", 1, "'never' is not an operator (write always not (…))"),
        ("never (x < 5)", 1, "'never' is not an operator (write always not (…))"),
        ("eventually x < 5 within 2 s", 18, "'within' is not an operator"),
    ],
)
def test_errors_say_where_and_what_mends_them(
    text: str, column: int, says: str
) -> None:
    with pytest.raises(InvalidExpression) as caught:
        parse_formula(text)
    assert caught.value.place == f"column {column}"
    assert caught.value.mend
    for part in says.removesuffix(")").split(" ("):
        assert part in str(caught.value)


TOKENS = [
    *"()[],<>!&|+-", "->", "and", "or", "not", "true", "always", "eventually", "once",
    "historically", "until", "since", "next", "G", "F", "X", "U", "[0, 2 s]", "[0,",
    "[1 steps,]", "3", "0.5", "s", "steps", "ms", "a", "b", "x > 3", "light == red",
]  # fmt: skip


@settings(max_examples=100)
@given(
    st.one_of(
        st.lists(st.sampled_from(TOKENS), max_size=14).map(" ".join),
        st.lists(st.sampled_from(TOKENS), max_size=14).map("".join),
    )
)
def test_any_text_parses_or_says_where_it_does_not(text: str) -> None:
    try:
        formula = parse_formula(text)
    except InvalidExpression as error:
        column = int(error.place.removeprefix("column "))
        assert 1 <= column <= len(text) + 1
        assert error.mend
    else:
        assert parse_formula(repr(formula)) == formula


@pytest.mark.parametrize(
    "before", ["always ", "next ", "once (", "not always (", "a U ("]
)
def test_nesting_is_limited_before_python_gives_up(before: str) -> None:
    closing = ")" * before.count("(")
    deep = MAX_DEPTH // 3 - 1
    formula = parse_formula(before * deep + "a" + closing * deep)
    assert parse_formula(repr(formula)) == formula
    with pytest.raises(InvalidExpression, match="nested more than 40 levels deep"):
        parse_formula(before * 1500 + "a" + closing * 1500)


@given(bounded_formulas(2))
def test_temporal_formulas_are_recognised(formula: Formula) -> None:
    words = ("always", "eventually", "next", "until", "once", "historically", "since")
    assert is_temporal(formula) == any(word in repr(formula) for word in words)


@pytest.mark.parametrize("vocabulary", [None, load_vocabulary("driving")])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alway(speed > 3)", "did you mean always?"),
        ("alway(collision)", "did you mean always?"),
        ("alway speed > 3", "column 1: 'alway' is not an operator"),
        (
            "always(speed > 3 -> eventualy[0, 2 s] brake > 2)",
            "did you mean eventually?",
        ),
        ("speed > 3 untill brake > 2", "did you mean until?"),
    ],
)
def test_misspelt_operator_gets_a_suggestion(
    text: str, said: str, vocabulary: Vocabulary | None
) -> None:
    with pytest.raises(InvalidExpression) as caught:
        parse_formula(text, vocabulary)
    assert said in str(caught.value)
