"""Summarises an automaton: folds waiting states, and shows letters as conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forewarn.monitors.laws.automaton import Automaton

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Node:
    """A state, or several states that are summed up.

    Args:
        name: The name of the node, such as `idle`, `wait:100 … wait:1` or `violated`.
        states: The numbers of the states.
        counts_down: Whether the states differ in the number of steps left.
    """

    name: str
    states: tuple[int, ...]
    counts_down: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """A transition between nodes, with the condition under which it is taken.

    `at_the_end` marks an edge that leaves a countdown only from its last state.
    """

    source: int
    target: int
    when: str
    at_the_end: bool = False


@dataclass(frozen=True, slots=True)
class Outline:
    """The folded automaton; `legend` lists the proposition behind each short name."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    legend: tuple[tuple[str, str], ...]


VIOLATED = "violated"

MAX_NODES = 12
"""The maximum number of states that are shown one by one."""


def legend(automaton: Automaton) -> tuple[tuple[str, str], ...]:
    """Returns a short name for each proposition, and its text."""
    return tuple(
        (_letter(i), repr(proposition))
        for i, proposition in enumerate(automaton.propositions)
    )


def outline(automaton: Automaton) -> Outline:
    """Folds countdowns, sums up the states of large automata, and describes the letters
    of each transition as a condition.
    """
    nodes = _nodes(automaton)
    home = {state: i for i, node in enumerate(nodes) for state in node.states}
    edges: list[Edge] = []
    for i, node in enumerate(nodes):
        columns: dict[int, set[int]] = {}
        at_the_end = set[int]()
        for state in reversed(node.states) if node.name != VIOLATED else ():
            for target, some in _targets(automaton, state, home).items():
                if node.counts_down and automaton.due[state] == 1:
                    at_the_end |= {target} - columns.keys()
                columns.setdefault(target, set()).update(some)
        edges += [
            Edge(i, target, _when(automaton, some), target in at_the_end)
            for target, some in columns.items()
        ]
    return Outline(nodes, tuple(edges), legend(automaton))


def _nodes(automaton: Automaton) -> tuple[Node, ...]:
    due, names = automaton.due.tolist(), automaton.names
    waits = [steps for steps in due if steps]
    counts_down = 1 < len(set(waits)) == len(waits)
    large = automaton.n - counts_down * len(waits) > MAX_NODES
    groups: dict[str, list[int]] = {}
    for state, name in enumerate(names):
        if due[state] and (counts_down or large):
            name = "waiting"
        elif large and name != VIOLATED:
            name = "at rest"
        groups.setdefault(name, []).append(state)
    nodes: list[Node] = []
    for name, states in groups.items():
        is_countdown = name == "waiting" and counts_down
        if is_countdown:
            name = f"wait:{max(waits)} … wait:{min(waits)}"
        elif len(states) == 1:
            name = names[states[0]]
        else:
            name += f" ({len(states)} states"
            name += f", {min(waits)} to {max(waits)} left)" if due[states[0]] else ")"
        nodes.append(Node(name, tuple(states), is_countdown))
    return tuple(nodes)


def transitions(automaton: Automaton) -> list[tuple[str, str, str]]:
    """Returns all transitions as source, condition and target."""
    found: list[tuple[str, str, str]] = []
    alone = {state: state for state in range(automaton.n)}
    for state, name in enumerate(automaton.names):
        for target, columns in _targets(automaton, state, alone).items():
            when = _when(automaton, columns)
            found.append((name, when, automaton.names[target]))
    return found


def _letter(bit: int) -> str:
    return _LETTERS[bit] if bit < len(_LETTERS) else f"p{bit}"


def _targets(
    automaton: Automaton, state: int, home: dict[int, int]
) -> dict[int, list[int]]:
    """Returns the columns of a state, grouped by the node to which they lead."""
    found: dict[int, list[int]] = {}
    for column, target in enumerate(automaton.step[state].tolist()):
        found.setdefault(home[target], []).append(column)
    return found


def _when(automaton: Automaton, columns: Iterable[int]) -> str:
    chosen = {automaton.letters[column] for column in columns}
    return condition(chosen, automaton.letters, len(automaton.propositions))


def condition(chosen: set[int], possible: Sequence[int], bits: int) -> str:
    """Returns a condition that is true for the chosen letters and no other possible
    letter.
    """
    if chosen.issuperset(possible):
        return "always"
    cubes: list[tuple[int, int]] = []
    for letter in sorted(chosen):
        if any(letter & mask == value for mask, value in cubes):
            continue
        mask = (1 << bits) - 1
        for bit in reversed(range(bits)):
            wider = mask & ~(1 << bit)
            if all(x in chosen for x in possible if (x ^ letter) & wider == 0):
                mask = wider
        cubes.append((mask, letter & mask))
    return " or ".join(_cube(mask, value, bits) for mask, value in cubes)


def _cube(mask: int, value: int, bits: int) -> str:
    return " and ".join(
        _letter(bit) if value >> bit & 1 else f"not {_letter(bit)}"
        for bit in range(bits)
        if mask >> bit & 1
    )
