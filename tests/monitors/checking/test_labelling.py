"""What names mean: labels, states, definitions, variables and the abstraction's."""

from __future__ import annotations

from fractions import Fraction

import pytest

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.errors import InvalidProperty
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.chain import END, Chain
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.properties import check, define, parse_property

THIRD = Fraction(1, 3)


def driving(*predicates: str) -> Labelling:
    """Every state of these predicates, each leading to all of them and to END."""
    abstraction = from_expressions(predicates, load_vocabulary("driving"))
    names = [abstraction.state_name(bits) for bits in abstraction.valid_states()]
    share = Fraction(1, len(names) + 1)
    rows = {i: {j: share for j in range(len(names) + 1)} for i in range(len(names))}
    rows[len(names)] = {len(names): Fraction(1)}
    chain = Chain.from_rows([*names, END], rows, initial=0, end=len(names))
    return Labelling(chain, abstraction)


def states(text: str, labelling: Labelling) -> list[str]:
    """The states in which a state formula holds."""
    held = check(parse_property(text, labelling), labelling).values
    return [name for name, is_in in zip(labelling.chain.states, held, strict=True)
            if is_in]  # fmt: skip


def refusal(text: str, labelling: Labelling) -> str:
    with pytest.raises(InvalidProperty) as caught:
        states(text, labelling)
    return str(caught.value)


def test_predicates_are_names() -> None:
    labelling = driving("speed < 0.5", "speed > 15", "collision")
    assert states('"collision"', labelling) == ["001", "101", "011"]
    assert states('"speed < 0.5"', labelling) == ["100", "101"]
    assert states('"speed<0.5" & !"collision"', labelling) == ["100"]


def test_predicates_decide_expressions_that_follow_from_them() -> None:
    labelling = driving("speed < 0.5", "speed > 15", "collision")
    assert states('"speed <= 15 and not collision"', labelling) == ["000", "100"]
    assert "do not determine whether speed > 10 is true" in refusal(
        '"speed > 10"', labelling
    )


def test_no_predicate_holds_at_the_end() -> None:
    labelling = driving("collision")
    assert states('"collision"', labelling) == ["1"]
    assert states('"not collision"', labelling) == ["0"]
    assert states('!"collision"', labelling) == ["0", END]


def test_states_are_names_and_values_of_s() -> None:
    labelling = driving("speed < 0.5", "collision")
    assert states('"10"', labelling) == ["10"]
    assert states('s="10" | s=END', labelling) == ["10", END]
    assert states('s!="10"', labelling) == ["00", "01", "11", END]
    assert 'unknown state "12"' in refusal('s="12"', labelling)


def test_states_that_are_numbers_have_an_order() -> None:
    chain = Chain.from_rows(["-1", "2", "10", END], {}, end=3)
    labelling = Labelling(chain)
    assert states("s>=2", labelling) == ["2", "10"]
    assert states("s<2", labelling) == ["-1"]
    assert states("s=10", labelling) == ["10"]
    assert 'unknown state "3"' in refusal("s=3", labelling)


def test_an_unknown_name_gets_the_nearest() -> None:
    labelling = driving("speed < 0.5", "collision")
    message = refusal('F "colision"'.replace("F ", ""), labelling)
    assert (
        message
        == '"colision": column 1: unknown name "colision" (did you mean collision?)'
    )
    define(labelling, "unsafe=collision")
    assert "did you mean unsafe?" in refusal("unsaef", labelling)
    assert "column 5: " in refusal('!(! "sped < 0.5")', labelling)
    assert "did you mean speed?" in refusal('"sped < 0.5"', labelling)


def test_a_name_with_two_meanings_is_refused_unless_they_are_one() -> None:
    chain = Chain.from_rows(
        ["crash", "calm"], {}, labels={"crash": frozenset({0}), "calm": frozenset({0})}
    )
    labelling = Labelling(chain)
    assert states('"crash"', labelling) == ["crash"]
    assert (
        'column 1: the name "calm" is ambiguous: a label and a different state'
        in refusal('"calm"', labelling)
    )
    for name in ("crash", "deadlock"):
        with pytest.raises(InvalidProperty, match=f"{name}' is already used for a"):
            define(labelling, f"{name}=s=calm")


def test_definitions_use_what_is_defined_before() -> None:
    chain = Chain.from_rows(["a1", "a2", "b1"], {0: {1: THIRD, 2: 1 - THIRD}})
    labelling = Labelling(chain)
    define(labelling, 'a="a1"|"a2"')
    define(labelling, "quiet=P>=1/3 [ X a ] & !s=a2")
    assert states("quiet", labelling) == ["a1"]
    assert tuple(labelling.definitions) == ("a", "quiet")
    with pytest.raises(
        InvalidProperty, match="the name 'a' is already used for a definition"
    ):
        define(labelling, "a=true")


def test_init_and_deadlock_are_labels() -> None:
    chain = Chain.from_rows(["x", "y"], {0: {1: Fraction(1)}}, initial=0)
    labelling = Labelling(chain)
    assert states('"init"', labelling) == ["x"]
    assert states('"deadlock"', labelling) == ["y"]
    nowhere = Labelling(Chain.from_rows(["x"], {}))
    assert 'unknown name "init"' in refusal('"init"', nowhere)
