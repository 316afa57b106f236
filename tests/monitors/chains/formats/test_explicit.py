"""Explicit files: both headers, what stands beside, and what is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidModel, TooLarge
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.model import load_model

PRISM_TRA = "3 4\n0 1 0.5\n0 2 0.5\n1 0 1\n2 2 1\n"
PRISM_LAB = '0="init" 1="deadlock" 2="bad"\n0: 0\n2: 1 2\n'
STORM_TRA = "dtmc\n0 1 0.5\n0 2 0.5\n1 0 1\n2 2 1\n"
STORM_LAB = "#DECLARATION\ninit bad\n#END\n0 init\n2 bad\n"


def load(
    folder: Path, tra: str, lab: str | None = None, sta: str | None = None
) -> Chain:
    for suffix, text in ((".tra", tra), (".lab", lab), (".sta", sta)):
        if text is not None:
            (folder / f"m{suffix}").write_text(text)
    return load_model(folder / "m.tra").chain


@pytest.mark.parametrize(
    ("tra", "lab"), [(PRISM_TRA, PRISM_LAB), (STORM_TRA, STORM_LAB)]
)
def test_both_headers_mean_the_same(tmp_path: Path, tra: str, lab: str) -> None:
    chain = load(tmp_path, tra, lab)
    assert chain.dense().tolist() == [[0, 0.5, 0.5], [1, 0, 0], [0, 0, 1]]
    assert chain.initial == 0
    assert chain.labels == {"bad": frozenset({2})}


def test_states_get_their_values(tmp_path: Path) -> None:
    chain = load(tmp_path, PRISM_TRA, PRISM_LAB, "(s)\n0:(7)\n1:(5)\n2:(-1)\n")
    assert chain.states == ("7", "5", "-1")
    assert chain.variables["s"].tolist() == [7, 5, -1]
    chain = load(
        tmp_path, PRISM_TRA, PRISM_LAB, "(x,b)\n0:(0,true)\n1:(0,false)\n2:(1,true)\n"
    )
    assert chain.states[1] == "x=0,b=false"


def test_transitions_are_read_without_label_and_state_files(tmp_path: Path) -> None:
    chain = load(tmp_path, PRISM_TRA)
    assert chain.states == ("0", "1", "2")
    assert chain.initial is None and not chain.labels


def test_storm_leaves_absorbing_states_out(tmp_path: Path) -> None:
    assert load(tmp_path, "dtmc\n0 1 1\n").deadlocks == (1,)


def test_actions_in_a_fourth_column_are_passed_over(tmp_path: Path) -> None:
    assert load(tmp_path, "2 2\n0 1 1 go\n1 1 1 stay\n").row(0) == {1: 1.0}


@pytest.mark.parametrize(
    ("tra", "said"),
    [
        (
            "2 3\n0 1 1\n1 1 1\n",
            "3 transitions are declared, but 2 are listed (the file may",
        ),
        ("2 2\n0 1 1\n1 1\n", "line 3: expected FROM TO PROBABILITY, found 1 1"),
        ("2 2\n0 1 1\n1 2 1\n", "line 3: unknown state 2: there are 2 states"),
        ("2 2\n0 1 1\n1 x 1\n", "line 3: expected a whole number, found x"),
        ("2 2\n0 1 1\n1 1 nan\n", "line 3: the probability 'nan' is not a number"),
        ("2 2\n0 1 1\n1 1 inf\n", "line 3: the probability 'inf' is not a number"),
        ("2 2\n0 1 1\n1 1 1.5\n", "line 3: the probability 1.5 is not between 0 and 1"),
        ("2 2\n0 1 1\n0 1 1\n", "line 3: the transition from 0 to 1 appears twice"),
        ("2 2\n0 1 1\n1 1 0.9\n", "the row of state '1' sums to 0.9, not to 1"),
        ("0 0\n", "the file contains no states"),
    ],
)
def test_error_is_reported_with_its_line(tmp_path: Path, tra: str, said: str) -> None:
    with pytest.raises(InvalidModel) as refusal:
        load(tmp_path, tra)
    assert said in str(refusal.value) and "m.tra" in str(refusal.value)


@pytest.mark.parametrize(
    ("lab", "sta", "said"),
    [
        ("nonsense\n", None, 'm.lab: line 1: expected 0="init"'),
        ('0="init"\n0: 1\n', None, "m.lab: line 2: unknown label 1"),
        (
            '0="init"\n9: 0\n',
            None,
            "m.lab: line 2: unknown state 9: there are 3 states",
        ),
        ('0="init"\n0: 0\n1: 0\n', None, "m.tra: the chain has 2 initial states"),
        ("#DECLARATION\ninit\n", None, "the declaration has no #END"),
        (None, "s\n0:(0)\n", "m.sta: line 1: expected (variable,…)"),
        (None, "(s)\n0:(0)\n", "m.sta: end: state 1 of 3 is missing"),
        (None, "(s)\n0:(0)\n0:(1)\n", "state 0 appears twice"),
        (None, "(s)\n0:(0,1)\n", "m.sta: line 2: expected 1 values"),
        (None, "(s)\n0:(0.5)\n", "m.sta: line 2: expected 1 values"),
    ],
)
def test_companion_files_are_checked_too(
    tmp_path: Path, lab: str | None, sta: str | None, said: str
) -> None:
    with pytest.raises(InvalidModel) as refusal:
        load(tmp_path, PRISM_TRA, lab, sta)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    "tra", ["10000000 20000000\n0 1 1\n", "dtmc\n0 1 1\n1 10000000 1\n"]
)
def test_ten_million_states_are_refused(tmp_path: Path, tra: str) -> None:
    with pytest.raises(TooLarge, match=r"10,000,00\d states exceed the limit"):
        load(tmp_path, tra)
