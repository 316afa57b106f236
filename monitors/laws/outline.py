"""Summarises an automaton as text or drawing: folds countdowns, and shows letters as
conditions.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from forewarn.monitors.laws.automaton import Automaton

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Node:
    """A state, or a countdown of several states that differ only in the steps left.

    Args:
        name: `idle`, `wait:100 … wait:1`, `violated`.
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
    """A short name for each proposition, and its text."""
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
    """All transitions as source, condition and target."""
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
    """The columns of a state, grouped by the node to which they lead."""
    found: dict[int, list[int]] = {}
    for column, target in enumerate(automaton.step[state].tolist()):
        found.setdefault(home[target], []).append(column)
    return found


def _chains(automaton: Automaton) -> list[list[int]]:
    """The states, grouped into countdowns, which are ordered by their first state."""
    rows = automaton.step.tolist()

    def successor(state: int) -> int | None:
        """The next state of a countdown while the obligation is not met."""
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
    # A state to which two countdowns lead begins a new one.
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
    """A condition that holds for the chosen letters and no other possible letter."""
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


_STEP, _BOX, _HEIGHT = 300, 170, 46
_MARGIN, _LINE = 30, 18
_WIDEST = 44
_STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1b1f24 }
.title { font-size: 17px; font-weight: 600 }
.when { font-size: 12px; fill: #444c56 }
.box { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.5 }
.idle { fill: #e6f4ea; stroke: #2e7d32 }
.violated { fill: #fdecea; stroke: #b3261e }
.step { fill: none; stroke: #57606a; stroke-width: 1.4; marker-end: url(#head) }
.paper { fill: #fff }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .when { fill: #9aa7b4 } .paper { fill: #0f1419 }
.box { fill: #1a2129; stroke: #9aa7b4 } .idle { fill: #12351f; stroke: #57c26f }
.violated { fill: #40191a; stroke: #ff8078 } .step { stroke: #9aa7b4 }
}
""".strip()


def draw(outlines: Sequence[tuple[str, Outline]]) -> str:
    """Draws an SVG image with a titled row for each outline."""
    rows = [_Row(title, outline) for title, outline in outlines]
    width = max(row.width for row in rows)
    height = sum(row.height for row in rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img">',
        f"<title>{_text(outlines[0][0])}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/>'
        "</marker></defs>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
    ]
    top = 0
    for row in rows:
        parts += [f'<g transform="translate(0 {top})">', *row.svg(), "</g>"]
        top += row.height
    return "\n".join([*parts, "</svg>", ""])


class _Row:
    def __init__(self, title: str, outline: Outline) -> None:
        self.outline = outline
        self.title = textwrap.wrap(title, 90) or [""]
        self.legend = [
            line
            for name, text in outline.legend
            for line in textwrap.wrap(f"{name}: {text}", 100, subsequent_indent="    ")
        ]
        spans = [e.target - e.source for e in outline.edges if e.target != e.source]
        loops = any(e.target == e.source for e in outline.edges)
        self.above = max([_rise(s) for s in spans if s > 0] + [60 * loops, 20]) + 20
        below = max([_rise(s) for s in spans if s < 0] + [0]) + 42
        self.base = _MARGIN + len(self.title) * 24 + self.above + _HEIGHT // 2
        self.foot = self.base + _HEIGHT // 2 + below
        self.height = self.foot + len(self.legend) * _LINE + _MARGIN
        count = len(outline.nodes)
        self.width = max(2 * _MARGIN + (count - 1) * _STEP + _BOX + 60, 760)

    def svg(self) -> Iterator[str]:
        for i, line in enumerate(self.title):
            y = _MARGIN + i * 24
            yield f'<text class="title" x="{_MARGIN}" y="{y}">{_text(line)}</text>'
        places = {edge: self._labels(edge) for edge in self.outline.edges}
        for edge in self.outline.edges:
            yield from self._edge(edge, places[edge])
        for i, node in enumerate(self.outline.nodes):
            kind = node.name if node.name in ("idle", "violated") else ""
            x, y = self._x(i), self.base
            yield (
                f'<rect class="box {kind}" x="{x - _BOX // 2}" y="{y - _HEIGHT // 2}"'
                f' width="{_BOX}" height="{_HEIGHT}" rx="9"/>'
            )
            for dy, line in _centred(textwrap.wrap(node.name, 22)):
                yield _middle(x, y + 5 + dy, line)
        for i, line in enumerate(self.legend):
            at = f'x="{_MARGIN}" y="{self.foot + i * _LINE}" xml:space="preserve"'
            yield f"<text {at}>{_text(line)}</text>"

    def _x(self, node: int) -> int:
        return _MARGIN + _BOX // 2 + node * _STEP

    def _labels(self, edge: Edge) -> str:
        label = edge.when
        if edge.at_the_end:
            label += ", at the last step"
        elif (
            edge.source == edge.target and len(self._states(edge.source)) > 1 and label
        ):
            label += ": one less"
        return label

    def _states(self, node: int) -> tuple[int, ...]:
        return self.outline.nodes[node].states

    def _edge(self, edge: Edge, label: str) -> Iterator[str]:
        x, y, top = self._x(edge.source), self.base, self.base - _HEIGHT // 2
        end, bottom = self._x(edge.target), self.base + _HEIGHT // 2
        span = edge.target - edge.source
        if span == 0:
            high = top - 52
            path = f"M{x - 22} {top}C{x - 40} {high} {x + 40} {high} {x + 22} {top}"
            at, level = x, top - 44
        elif span == 1:
            path = f"M{x + _BOX // 2} {y}L{end - _BOX // 2} {y}"
            at, level = (x + end) // 2, y - 8
        elif span > 1:
            rise = _rise(span)
            path = (
                f"M{x + 50} {top}C{x + 90} {top - rise * 4 // 3}"
                f" {end - 90} {top - rise * 4 // 3} {end - 50} {top}"
            )
            at, level = (x + end) // 2, top - rise - 5
        else:
            rise = _rise(span)
            path = (
                f"M{x - 30} {bottom}C{x - 70} {bottom + rise * 4 // 3}"
                f" {end + 70} {bottom + rise * 4 // 3} {end + 30} {bottom}"
            )
            at, level = (x + end) // 2, bottom + rise + 14
        yield f'<path class="step" d="{path}"><title>{_text(label)}</title></path>'
        if label:
            widest = 17 if span == 1 else _WIDEST
            lines = textwrap.wrap(label, widest, max_lines=3, placeholder=" …")
            for i, line in enumerate(lines):
                below = span < 0
                dy = 14 * i if below else 14 * (i - len(lines) + 1)
                yield _middle(at, level + dy, line, "when")


def _rise(span: int) -> int:
    """The height of an arc that spans this many states."""
    return 34 + 26 * abs(span) + (40 if span > 1 else 0)


def _centred(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    for i, line in enumerate(lines):
        yield 16 * i - 8 * (len(lines) - 1), line


def _middle(x: int, y: int, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x}" y="{y}" text-anchor="middle">{_text(text)}</text>'


def _text(text: str) -> str:
    """Escapes the text, and replaces control characters that XML forbids."""
    return escape("".join(c if c.isprintable() else " " for c in text))
