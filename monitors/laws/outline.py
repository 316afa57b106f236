"""Summarises an automaton: folds countdowns, and shows letters as conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forewarn.monitors.laws.automaton import Automaton

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Node:
    """A state, or a countdown of several states that differ only in the steps left.

    Args:
        name: The name of the node, such as `idle`, `wait:100 … wait:1` or `violated`.
        states: The numbers of the states, those closest to a violation last.
    """

    name: str
    states: tuple[int, ...]


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


MAX_NODES = 12
"""The maximum number of nodes; a larger outline shows only the number of waiting states
and the longest wait.
"""


def legend(automaton: Automaton) -> tuple[tuple[str, str], ...]:
    """Returns a short name for each proposition, and its text."""
    return tuple(
        (_letter(i), repr(proposition))
        for i, proposition in enumerate(automaton.propositions)
    )


def outline(automaton: Automaton) -> Outline:
    """Folds countdowns, and describes the letters of each transition as a condition."""
    chains = _chains(automaton)
    if len(chains) > MAX_NODES:
        return _summary(automaton)
    home = {state: i for i, chain in enumerate(chains) for state in chain}
    nodes = tuple(_node(automaton, chain) for chain in chains)
    edges: list[Edge] = []
    for i, chain in enumerate(chains):
        if chain[0] == automaton.violated:
            continue
        # All states of a countdown have the same transitions, except the last one.
        firsts, lasts = chain[0], chain[-1]
        targets = _targets(automaton, firsts, home)
        for target, columns in targets.items():
            edges.append(Edge(i, target, _when(automaton, columns)))
        if len(chain) > 1:
            for target, columns in _targets(automaton, lasts, home).items():
                left = [c for c in columns if c not in targets.get(target, ())]
                if left:
                    edges.append(Edge(i, target, _when(automaton, columns), True))
    return Outline(nodes, tuple(edges), legend(automaton))


def _summary(automaton: Automaton) -> Outline:
    """Outlines a large automaton by whether an obligation is pending."""
    groups: dict[str, list[int]] = {}
    for state in range(automaton.n):
        kind = "waiting" if automaton.pending[state] else "at rest"
        kind = "violated" if state == automaton.violated else kind
        groups.setdefault(kind, []).append(state)
    numbers = {state: i for i, g in enumerate(groups.values()) for state in g}
    nodes: list[Node] = []
    for kind, states in groups.items():
        name = automaton.names[states[0]] if len(states) == 1 else kind
        if len(states) > 1:
            name += f" ({len(states)} states"
            due = automaton.due[states]
            name += f", {min(due)} to {max(due)} left)" if kind == "waiting" else ")"
        nodes.append(Node(name, tuple(states)))
    pairs: dict[tuple[int, int], None] = {}
    for state in range(automaton.n):
        if state != automaton.violated:
            for target in automaton.step[state].tolist():
                pairs[numbers[state], numbers[target]] = None
    edges = tuple(Edge(source, target, "") for source, target in pairs)
    return Outline(tuple(nodes), edges, legend(automaton))


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


def _node(automaton: Automaton, chain: Sequence[int]) -> Node:
    first, last = automaton.names[chain[0]], automaton.names[chain[-1]]
    name = first if len(chain) == 1 else f"{first} … {last}"
    return Node(name, tuple(chain))


def _targets(
    automaton: Automaton, state: int, home: dict[int, int]
) -> dict[int, list[int]]:
    """Returns the columns of a state, grouped by the node to which they lead."""
    found: dict[int, list[int]] = {}
    for column, target in enumerate(automaton.step[state].tolist()):
        found.setdefault(home[target], []).append(column)
    return found


def _chains(automaton: Automaton) -> list[list[int]]:
    """Returns the states, grouped into countdowns, which are ordered by their first
    state.
    """
    rows = automaton.step.tolist()

    def successor(state: int) -> int | None:
        """Returns the next state of a countdown while the obligation is not met."""
        for target in rows[state]:
            if target != state and automaton.due[target] == automaton.due[state] - 1:
                return int(target)
        return None

    def shape(state: int) -> tuple[int, ...]:
        following = successor(state)
        return tuple(-1 if t == following else t for t in rows[state])

    follows: dict[int, int] = {}
    for state in range(automaton.n):
        if not automaton.pending[state]:
            continue
        following = successor(state)
        if following is None or not automaton.pending[following]:
            continue
        if shape(state) == shape(following):
            follows[state] = following
    # A state to which two countdowns lead begins a new countdown.
    led_to: dict[int, int] = {}
    for following in follows.values():
        led_to[following] = led_to.get(following, 0) + 1
    inner = {s for s in follows.values() if led_to[s] == 1}
    chains: list[list[int]] = []
    for state in range(automaton.n):
        if state in inner:
            continue
        chain = [state]
        while (following := follows.get(chain[-1], -1)) in inner:
            chain.append(following)
        chains.append(chain)
    return chains


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
