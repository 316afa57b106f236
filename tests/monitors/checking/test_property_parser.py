"""Properties: what parses, what it prints as, and what each error says."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput, InvalidProperty, TooLarge
from forewarn.monitors.checking.language.parser import MAX_STEPS, parse_property
from forewarn.monitors.checking.language.properties import (
    TRUE,
    Bound,
    Compare,
    Conditional,
    Constant,
    Junction,
    Name,
    Not,
    Probability,
    Quantified,
    StateFormula,
    Temporal,
    is_numeric,
    opposite,
)

WORDS = st.sampled_from(
    ["a", "b", "unsafe", "0101", "speed < 0.5", "U", "true", 'says "go"', '"']
)
VARIABLES = st.sampled_from(["s", "d", "x_1"])
BOUNDS = st.one_of(
    st.builds(Bound, st.integers(0, 9)),
    st.integers(0, 9).flatmap(
        lambda low: st.builds(Bound, st.just(low), st.integers(low, low + 9))
    ),
)
ATOMS: st.SearchStrategy[StateFormula] = st.one_of(
    st.builds(Constant, st.booleans()),
    st.builds(Name, WORDS),
    st.builds(
        Compare,
        VARIABLES,
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        st.one_of(st.integers(-9, 99), VARIABLES, st.builds(Name, WORDS)),
    ),
)


def paths(inner: st.SearchStrategy[StateFormula]) -> st.SearchStrategy[Temporal]:
    return st.one_of(
        st.builds(Temporal, st.just("X"), st.just(TRUE), inner),
        st.builds(Temporal, st.sampled_from("FG"), st.just(TRUE), inner, BOUNDS),
        st.builds(Temporal, st.sampled_from("UWR"), inner, inner, BOUNDS),
    )


def larger(inner: st.SearchStrategy[StateFormula]) -> st.SearchStrategy[StateFormula]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Not, inner),
        st.builds(Junction, st.sampled_from("&|"), several),
        st.builds(Conditional, st.sampled_from(["=>", "<=>"]), inner, inner),
        st.builds(
            Probability,
            paths(inner),
            st.sampled_from(["<", "<=", ">", ">="]),
            st.fractions(0, 1, max_denominator=1000),
        ),
        st.builds(Quantified, st.sampled_from("EA"), paths(inner)),
    )


FORMULAS = st.recursive(ATOMS, larger, max_leaves=8)
PROPERTIES = st.one_of(FORMULAS, st.builds(Probability, paths(FORMULAS)))


@given(PROPERTIES)
def test_what_is_printed_parses_back(formula: StateFormula) -> None:
    assert parse_property(str(formula)) == formula


@given(st.text(alphabet='PEAXFGUWR=?<>[]()!&|,"ab1.- ', max_size=30))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        formula = parse_property(text)
    except InvalidInput as error:
        assert "column" in str(error)
    else:
        assert parse_property(str(formula)) == formula


@given(paths(ATOMS))
def test_the_opposite_of_the_opposite_is_the_same_kind_of_question(
    path: Temporal,
) -> None:
    twice = opposite(opposite(path))
    assert twice.bound == path.bound
    # W has no node of its own for its opposite, which is an until.
    assert twice.operator == ("R" if path.operator == "W" else path.operator)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("P=? [ F<=20 (s=17|s=18) ]", "P=? [ F<=20 (s=17 | s=18) ]"),
        ("P=?[F<=20 s=17|s=18]", "P=? [ F<=20 (s=17 | s=18) ]"),
        ("P=? [F a & b]", 'P=? [ F ("a" & "b") ]'),
        ("P=? [a & b U c | d]", 'P=? [ ("a" & "b") U ("c" | "d") ]'),
        ("P=? [(F a)]", 'P=? [ F "a" ]'),
        ("P=? [!(F a)]", 'P=? [ G !"a" ]'),
        ("P=? [!(a W b)]", 'P=? [ ("a" & !"b") U (!"a" & !"b") ]'),
        ("P=? [F<3 a]", 'P=? [ F<=2 "a" ]'),
        ("P=? [F=3 a]", 'P=? [ F[3,3] "a" ]'),
        ("P=? [F>=3 a]", 'P=? [ F>=3 "a" ]'),
        ("P=? [F>3 a]", 'P=? [ F>=4 "a" ]'),
        ("P=? [F[0,3] a]", 'P=? [ F<=3 "a" ]'),
        ("P=? [a U[2,5] b]", 'P=? [ "a" U[2,5] "b" ]'),
        ("P>=0.9 [X a]", 'P>=9/10 [ X "a" ]'),
        ("P<1e-3 [G a]", 'P<1/1000 [ G "a" ]'),
        ("P<=1/3 [a R b]", 'P<=1/3 [ "a" R "b" ]'),
        ("EF a & AG b", 'E [ F "a" ] & A [ G "b" ]'),
        ("E F a & b", 'E [ F "a" ] & "b"'),
        ("AX EX a", 'A [ X E [ X "a" ] ]'),
        ("EF<=3 a", 'E [ F<=3 "a" ]'),
        ("E[a U b]", 'E [ "a" U "b" ]'),
        ("A (a U b)", 'A [ "a" U "b" ]'),
        ("a => b => c", '"a" => ("b" => "c")'),
        ("a <=> b <=> c", '("a" <=> "b") <=> "c"'),
        ("a | b & c", '"a" | ("b" & "c")'),
        ("a => b | c <=> d", '"a" => (("b" | "c") <=> "d")'),
        ("!s=3", "!s=3"),
        ("3<=s", "s>=3"),
        ("-1 < s", "s>-1"),
        ("b=true", "b=1"),
        ('s="crash"', 's="crash"'),
    ],
)
def test_reads(text: str, meaning: str) -> None:
    assert str(parse_property(text)) == meaning


def test_asks_for_a_number_or_not() -> None:
    assert is_numeric(parse_property("P=? [F a]"))
    assert not is_numeric(parse_property("P>=1/2 [F a]"))
    limit = parse_property("P>=0.1 [F a]")
    assert isinstance(limit, Probability)
    assert limit.limit == Fraction(1, 10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: the property is empty"),
        ("P=? [F a", "column 9: expected ']' to close the brackets of P=?"),
        ("P=? F a", "column 5: expected '[' after P=?, but found F"),
        ("P=? [F]", "column 7: expected a state formula, but found ]"),
        ("P=? [a]", "column 6: the brackets hold no path operator"),
        ("P=? [F a b]", "column 10: expected ']'"),
        ("P=? [F a]]", "column 10: expected the end of the property"),
        ("F a", "column 1: the path operator F stands outside of P, E and A"),
        ("P=? [G F a]", "column 8: the path operator F stands outside"),
        ("P=? [F a & G b]", "column 12: the path operator G cannot stand here"),
        ("P=? [F (P=? [X a])]", "column 9: P=? asks for a number"),
        ("!P=? [F a]", "column 2: P=? asks for a number"),
        ("P=? [F a] & b", "column 1: P=? asks for a number"),
        ("P=? [F<0 a]", "column 7: no step lies before step 0 (write <=0)"),
        ("P=? [F<=-1 a]", "column 9: a horizon counts steps and cannot be negative"),
        ("P=? [F<=2.5 a]", "column 9: a horizon is a whole number of steps, not 2.5"),
        ("P=? [F[5,2] a]", "column 7: no step lies from 5 to 2"),
        ("P=? [X<=2 a]", "column 7: X looks exactly one step ahead"),
        ("P>=1.5 [F a]", "column 4: a probability is between 0 and 1, not 3/2"),
        ("P>=-0.1 [F a]", "column 4: a probability is between 0 and 1"),
        ("P>=1/0 [F a]", "column 4: division by zero"),
        ("P>=1e999 [F a]", "column 4: this number has too many digits"),
        ("P=0.5 [F a]", "column 1: P says neither what to ask nor what to require"),
        ("Pmax=? [F a]", "column 1: a chain has no choices"),
        ("R=? [F a]", "column 1: R=? is not supported"),
        ("S=? [a]", "column 1: S=? is not supported"),
        ("E a", "column 1: E needs a path formula in brackets"),
        ("s=1.5", "column 3: a variable is compared with a whole number, not 1.5"),
        ("s=", "column 3: expected a whole number, but the property ends"),
        ("3", "column 1: a number alone is not a state formula"),
        ("s==1", "'==' is not an operator here (write =)"),
        ("a && b", "'&&' is not an operator here (write &)"),
        ("a and b", "column 3: 'and' is not an operator here (write &)"),
        ("a -> b", "column 3: '->' is not an operator here (write =>)"),
        ("P=? [F 'a']", "column 8: single quotes mean nothing here"),
        ('P=? [F "a]', "column 8: the quoted name does not end"),
        ('P=? [F ""]', "column 8: the name between the quotes is empty"),
        ("P=? [F\u00a0a]", "column 7: the character '\\xa0' means nothing here"),
        ("(" * 300, "column 51: the property is nested too deeply"),
        ("!" * 300 + "a", "the property is nested too deeply"),
        ("a" + " => a" * 300, "the property is nested too deeply"),
        ("a" + " <=> a" * 300, "the property is nested too deeply"),
    ],
)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(InvalidProperty) as caught:
        parse_property(text)
    assert message in str(caught.value)


def test_an_error_names_the_property_or_the_source() -> None:
    with pytest.raises(InvalidProperty, match=r"^P=\? \[F\]: column 7: "):
        parse_property("P=? [F]")
    with pytest.raises(InvalidProperty, match=r"^--define bad: column 3: "):
        parse_property("a b", "--define bad")


def test_a_bound_beyond_the_limit_is_refused() -> None:
    parse_property(f"P=? [F<={MAX_STEPS} a]")
    with pytest.raises(TooLarge, match="leave the horizon out"):
        parse_property(f"P=? [F<={MAX_STEPS + 1} a]")


def test_a_long_disjunction_is_no_deep_one() -> None:
    formula = parse_property("|".join(f"s={i}" for i in range(20_000)))
    assert isinstance(formula, Junction)
    assert len(formula.parts) == 20_000
