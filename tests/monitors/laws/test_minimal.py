"""Minimising against the meaning: which words reach the target, found by trying."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from forewarn.monitors.laws.minimal import (
    _number_rows,
    certain_to_reach,
    merge_equivalent,
    steps_to,
)


@st.composite
def automata(draw: st.DrawFn) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """A table of steps and the states that are the target."""
    n, letters = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    states = st.integers(0, n - 1)
    row = st.lists(states, min_size=letters, max_size=letters)
    step = draw(st.lists(row, min_size=n, max_size=n))
    target = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return np.array(step, np.int32), np.array(target)


def after(step: NDArray[np.int32], state: int, word: tuple[int, ...]) -> int:
    for letter in word:
        state = int(step[state, letter])
    return state


@given(automata())
def test_steps_to_is_the_length_of_a_shortest_word(
    automaton: tuple[NDArray[np.int32], NDArray[np.bool_]],
) -> None:
    step, target = automaton
    found = steps_to(step, target)
    assert found.dtype == np.int32
    for state, steps in enumerate(found.tolist()):
        near = {state}
        for expected in range(len(step)):
            if target[list(near)].any():
                assert steps == expected
                break
            near = {int(after) for s in near for after in step[s]}
        else:
            assert steps == -1


@given(automata())
def test_certain_states_are_those_no_infinite_word_avoids(
    automaton: tuple[NDArray[np.int32], NDArray[np.bool_]],
) -> None:
    step, target = automaton
    before = target.copy()
    # Whoever can avoid it for as many steps as there are states can for ever.
    avoids = [not reached for reached in target.tolist()]
    for _ in range(len(step)):
        avoids = [
            not target[state] and any(avoids[after] for after in row)
            for state, row in enumerate(step.tolist())
        ]
    assert certain_to_reach(step, target).tolist() == [not free for free in avoids]
    assert (target == before).all()


def check_classes(step: NDArray[np.int32], target: NDArray[np.bool_]) -> None:
    """The classes are those that filling in the table of pairs gives."""
    n, classes = len(step), merge_equivalent(step, target).tolist()
    apart = target[:, None] != target
    for _ in range(n):
        apart = apart | apart[step[:, None], step[None, :]].any(axis=2)
    for p, q in product(range(n), repeat=2):
        assert (classes[p] != classes[q]) == apart[p, q]
    assert set(classes) == set(range(max(classes) + 1))


@given(automata())
def test_states_are_merged_just_where_no_word_tells_them_apart(
    automaton: tuple[NDArray[np.int32], NDArray[np.bool_]],
) -> None:
    check_classes(*automaton)


@pytest.mark.parametrize(
    "rows",
    [
        [[2, 2], [7, 4], [6, 1], [6, 7], [0, 1], [1, 2], [2, 0], [7, 7]],
        [[4, 4], [4, 3], [2, 4], [3, 6], [7, 3], [5, 1], [4, 1], [0, 1]],
        [[4, 6], [5, 6], [1, 6], [2, 3], [1, 3], [1, 4], [6, 6]],
        [[7, 5], [7, 3], [0, 0], [0, 2], [7, 0], [1, 6], [0, 5], [6, 5]],
        [[6, 0], [2, 3], [2, 6], [5, 2], [3, 0], [2, 7], [5, 0], [5, 7]],
    ],
)
def test_refinement_goes_on_for_as_many_rounds_as_it_takes(
    rows: list[list[int]],
) -> None:
    """Each needs several, which add one class or two; the last state is the target."""
    step = np.array(rows, np.int32)
    check_classes(step, np.arange(len(step)) == len(step) - 1)


@pytest.mark.parametrize("letters", [1, 31, 32, 33, 40])
def test_every_letter_counts_however_many_there_are(letters: int) -> None:
    """Only the last letter tells states 0 and 1 apart."""
    step = np.zeros((3, letters), np.int32)
    step[:2] = [[0] * letters, [1] * letters]
    step[2] = 2
    step[1, -1] = 2
    classes = merge_equivalent(step, np.array([False, False, True]))
    assert len(set(classes.tolist())) == 3


def test_rows_of_large_numbers_are_not_confused() -> None:
    """In 32 bits 2^15 times 2^17 would be 0."""
    rows = np.array([[0, 0], [2**15, 0], [0, 0], [2**17 - 1, 0]], np.int32)
    first, second, third, fourth = _number_rows(rows).tolist()
    assert first == third and len({first, second, fourth}) == 3
