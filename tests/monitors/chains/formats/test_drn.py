"""Storm's DRN: what it writes is read, what we write it accepts."""

from __future__ import annotations

from fractions import Fraction

import pytest

from forewarn.abstractions.errors import InvalidModel, TooLarge
from forewarn.monitors.chains.formats.drn import read_drn, recognises

pytestmark = pytest.mark.needs("stormpy")

HEAD = """// Exported by storm
// Original model type: DTMC
@type: DTMC
@value_type: double
@parameters

@reward_models

@nr_states
3
@nr_choices
3
@model
"""
BY_STORM = (
    HEAD
    + """state 0 init
//[s=1]
	action __NOLABEL__
		0 : 0.3333333333
		1 : 0.6666666667
state 1
//[s=0]
	action __NOLABEL__
		2 : 1
state 2 bad "very bad"
//[s=4]
	action __NOLABEL__
		2 : 1
"""
)


def test_files_written_by_storm_are_read() -> None:
    chain = read_drn(BY_STORM)
    assert chain.states == ("1", "0", "4")
    assert chain.variables["s"].tolist() == [1, 0, 4]
    assert chain.row(0) == pytest.approx({0: 1 / 3, 1: 2 / 3})
    assert chain.initial == 0
    assert chain.labels == {"bad": frozenset({2}), "very bad": frozenset({2})}


def test_names_in_comments_and_exact_values() -> None:
    text = HEAD.replace("double", "rational").replace("3\n", "2\n")
    text += "state 0\n//idle\n\taction 0\n\t\t1 : 1/3\n\t\t0 : 2/3\nstate 1\n//gone\n"
    chain = read_drn(text)
    assert chain.states == ("idle", "gone")
    assert chain.exact_row(0) == {0: Fraction(2, 3), 1: Fraction(1, 3)}
    assert chain.deadlocks == (1,)
    assert chain.initial is None


def test_several_variables() -> None:
    text = BY_STORM.replace("[s=1]", "[x=0\t& b=true]")
    text = text.replace("[s=0]", "[x=0\t& b=false]").replace(
        "[s=4]", "[x=1\t& b=false]"
    )
    chain = read_drn(text)
    assert chain.states == ("x=0,b=true", "x=0,b=false", "x=1,b=false")
    assert chain.variables["b"].tolist() == [1, 0, 0]


def test_rewards_are_passed_over() -> None:
    chain = read_drn(BY_STORM.replace("state 0 init", "state 0 [1, 2.5] init"))
    assert chain.initial == 0 and "[1," not in chain.labels


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("@type: DTMC", "@type: MDP", "the model is of type MDP; only DTMCs"),
        ("double", "parametric", "Value type 'parametric'"),
        ("@parameters\n", "@parameters\np q", "Parameters are not supported"),
        ("@nr_states\n3\n", "", "No. of states has to be declared"),
        ("@model", "", "Could not parse line 'state 0 init'"),
        ("0.6666666667", "0.6", "the row of state '1' sums to 0.9333333333"),
        ("0.6666666667", "NaN", "the probability 'nan' is not a number"),
        ("0.6666666667", "-0.6", "state 0: the probability -0.6 is not between"),
        ("2 : 1\nstate", "3 : 1\nstate", "target state 3 is greater than state size"),
        ("state 1", "state 0", "state ids are not ordered and without gaps"),
        ("\t\t2 : 1\nstate 2", "\taction b\n\t\t2 : 1\nstate 2", "Storm rejects"),
        ("\t\t2 : 1\nstate 2", "\t\t2 -> 1\nstate 2", "':' not found in '2 -> 1'"),
        ("state 1\n", "state 1 init\n", "2 initial states"),
        (BY_STORM[BY_STORM.index("state 2") :], "", "Storm rejects the model"),
    ],
)
def test_invalid_files_are_rejected(old: str, new: str, said: str) -> None:
    assert old in BY_STORM
    with pytest.raises(InvalidModel) as refusal:
        read_drn(BY_STORM.replace(old, new, 1), "m.drn")
    assert said in str(refusal.value) and "m.drn" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_booleans_as_storm_writes_them() -> None:
    text = BY_STORM.replace("[s=1]", "[x=0\t& b]").replace("[s=0]", "[x=0\t& !b]")
    chain = read_drn(text.replace("[s=4]", "[x=1\t& !b]"))
    assert chain.states == ("x=0,b=true", "x=0,b=false", "x=1,b=false")


@pytest.mark.parametrize("comment", ["[x]y", "[s=1\t& s=2]", "[t=1]"])
def test_other_comments_in_brackets_are_ignored(comment: str) -> None:
    chain = read_drn(BY_STORM.replace("[s=1]", comment))
    assert chain.states == ("0", "1", "2") and not chain.variables


def test_ten_million_states_are_refused() -> None:
    with pytest.raises(TooLarge, match="10,000,000 states"):
        read_drn(HEAD.replace("@nr_states\n3", "@nr_states\n10000000"))


def test_drn_is_recognised_by_its_head() -> None:
    assert recognises(HEAD) and not recognises("dtmc\nmodule m")
