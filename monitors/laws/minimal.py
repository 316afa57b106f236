"""Minimises deterministic automata by partition refinement."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_REPEATED_LETTERS = 32
"""The number of letters whose repetition is used to separate states quickly."""


def steps_to(step: NDArray[np.int32], target: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Returns the minimum number of letters from each state to a target state; -1 if
    unreachable.
    """
    n, letters = step.shape
    before: list[list[int]] = [[] for _ in range(n)]
    for source, row in enumerate(step.tolist()):
        for after in set(row):
            before[after].append(source)
    distance = [-1] * n
    queue = np.flatnonzero(target).tolist()
    for state in queue:
        distance[state] = 0
    for state in queue:
        for source in before[state]:
            if distance[source] < 0:
                distance[source] = distance[state] + 1
                queue.append(source)
    return np.array(distance, np.int32)


def certain_to_reach(
    step: NDArray[np.int32], target: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Returns the states from which every word reaches the target."""
    while not (target[step].all(axis=1) <= target).all():
        target = target | target[step].all(axis=1)
    return target


def merge_equivalent(
    step: NDArray[np.int32], target: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Returns the equivalence class of each state; equivalent states reach the target
    by the same words.

    Refinement starts from the distances to the target, by any letters and by
    repetitions of one letter. Equivalent states have equal distances, so they stay
    together. Distances separate all states of a long countdown at once, where
    refinement alone would separate one state per round.
    """
    single = range(min(step.shape[1], _REPEATED_LETTERS))
    distances = [steps_to(step[:, [letter]], target) for letter in single]
    told = [d + 1 for d in (steps_to(step, target), *distances)]
    classes = _number_rows(np.column_stack(told))
    last = classes.max()
    while True:
        classes = _number_rows(np.column_stack([classes, classes[step]]))
        if classes.max() == last:
            return classes
        last = classes.max()


def _number_rows(rows: NDArray[np.integer]) -> NDArray[np.int64]:
    """Numbers the rows so that equal rows get the same number, one column at a time."""
    wide = rows.astype(np.int64)
    width = int(wide.max()) + 1
    numbers = wide[:, 0]
    for column in wide.T[1:]:
        _, numbers = np.unique(numbers * width + column, return_inverse=True)
    return numbers
