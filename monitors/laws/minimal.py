"""Minimises deterministic automata by partition refinement."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_REPEATED_LETTERS = 32
"""The number of letters whose repetition is used to separate states quickly."""

_LARGEST = 2**63 - 1


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


def _repetitions_to(
    step: NDArray[np.int32], target: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """Returns how often each letter must be repeated to reach a target state from each
    state; -1 if it never does.
    """
    distance = np.where(target[:, None], 0, np.where(target[step], 1, -1))
    distance = distance.astype(np.int32)
    jump, jumped = step, 1
    while True:
        # Each round doubles the number of steps that are looked ahead.
        further = np.take_along_axis(distance, jump, axis=0)
        found = (distance < 0) & (further >= 0)
        if not found.any():
            return distance
        distance[found] = further[found] + jumped
        jump, jumped = np.take_along_axis(jump, jump, axis=0), 2 * jumped


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
    repeated = _repetitions_to(step[:, :_REPEATED_LETTERS], target)
    told = np.column_stack([steps_to(step, target), repeated])
    classes = _number_rows(told + 1)
    last = classes.max()
    while True:
        classes = _number_rows(np.column_stack([classes, classes[step]]))
        if classes.max() == last:
            return classes
        last = classes.max()


def _number_rows(rows: NDArray[np.integer]) -> NDArray[np.int64]:
    """Numbers the rows in lexicographic order; equal rows get the same number.

    Each round combines the numbers so far with as many columns as fit into 64 bits.
    """
    wide = rows.astype(np.int64)
    width = int(wide.max()) + 1
    numbers, size = wide[:, 0], width
    for column in wide.T[1:]:
        if size * width > _LARGEST:
            _, numbers = np.unique(numbers, return_inverse=True)
            size = len(numbers)
        numbers, size = numbers * width + column, size * width
    return np.unique(numbers, return_inverse=True)[1]
