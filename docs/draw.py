"""Draws docs/architecture.svg from the imports in the code.

    python docs/draw.py

A large box is a package. Its small boxes, the parts, are its folders and its top
modules. An arrow points from the importer to what it imports; an arrow that follows
from others is left out. Every arrow points down.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PICTURE = Path(__file__).with_name("architecture.svg")

ROWS = (
    ("forewarn/cli",),
    ("scenarios",),
    ("apollo_bridge", "thor_bridge"),
    ("standins",),
    ("plugins",),
    ("monitors",),
    ("abstractions",),
)
"""The packages, from top to bottom; packages in one row do not import each other."""


def modules() -> dict[str, Path]:
    """Every module of the packages, by its dotted name."""
    found = {}
    for room in (room for row in ROWS for room in row):
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts if parts[0] == "forewarn" else ("forewarn", *parts))
            found[name.removesuffix(".__init__")] = path
    return found


def imports(names: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """Pairs of importer and imported module; imports inside functions count."""
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.ImportFrom(module=str(module), names=aliases):
                    for alias in aliases:
                        whole = f"{module}.{alias.name}"
                        if (to := whole if whole in names else module) in names:
                            yield name, to
                case ast.Import(names=aliases):
                    yield from ((name, a.name) for a in aliases if a.name in names)


def part(name: str, path: Path) -> tuple[str, str]:
    """The package and the part of a module; "" for the package's `__init__`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    room = "forewarn/cli" if parts[0] == "forewarn" else parts[0]
    inner = parts[2:] if parts[0] == "forewarn" else parts[1:]
    return room, "" if inner[0].startswith("__") else inner[0]


def house() -> tuple[dict[str, dict[str, set[str]]], dict[str, set[str]]]:
    """The imports between the parts of each room, and those between rooms."""
    names = modules()
    home = {name: part(name, path) for name, path in names.items()}
    inside: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    between: dict[str, set[str]] = defaultdict(set)
    for room, own in home.values():
        if own:
            inside[room][own]
    for one, other in imports(names):
        (room, own), (other_room, other_own) = home[one], home[other]
        if room != other_room:
            between[room].add(other_room)
        elif own != other_own and own and other_own:
            inside[room][own].add(other_own)
    return inside, between


def levels(graph: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """The length of the longest path of arrows below each part.

    Raises:
        ValueError: Some arrows run in a circle.
    """
    depth: dict[str, int] = {}
    under_way: list[str] = []

    def visit(node: str) -> int:
        if node in under_way:
            circle = [*under_way[under_way.index(node) :], node]
            raise ValueError(f"a circle: {' -> '.join(circle)}")
        if node not in depth:
            under_way.append(node)
            below = [visit(other) for other in sorted(graph.get(node, ()))]
            under_way.pop()
            depth[node] = 1 + max(below, default=-1)
        return depth[node]

    for node in sorted(graph):
        visit(node)
    return depth


def told(graph: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """The arrows that do not follow from other arrows."""
    reach: dict[str, set[str]] = {}

    def below(node: str) -> set[str]:
        if node not in reach:
            reach[node] = set()
            for other in graph.get(node, ()):
                reach[node] |= {other} | below(other)
        return reach[node]

    return {
        node: {
            other
            for other in others
            if not any(other in below(third) for third in others if third != other)
        }
        for node, others in graph.items()
    }


WIDE, LINE, CHIP, GAP, EDGE = 1180, 64, 24, 10, 22


def _width(text: str) -> float:
    return 16 + 7.1 * len(text)


def _room(
    room: str, graph: Mapping[str, set[str]], left: float, top: float, wide: float
) -> tuple[list[str], float]:
    """A room as SVG, and its height."""
    depth = levels(graph)
    rows: dict[int, list[str]] = defaultdict(list)
    for own in sorted(graph):
        rows[-depth[own]].append(own)
    lines: list[list[str]] = []
    for level in sorted(rows):
        lines += _broken(rows[level], wide - 2 * EDGE)
    place: dict[str, tuple[float, float, float]] = {}
    for number, line in enumerate(lines):
        total = sum(map(_width, line)) + GAP * (len(line) - 1)
        x = left + (wide - total) / 2
        y = top + 40 + number * LINE
        for own in line:
            place[own] = x, y, _width(own)
            x += _width(own) + GAP
    high = 40 + (len(lines) - 1) * LINE + CHIP + EDGE
    drawn = [
        f'<rect x="{left}" y="{top}" width="{wide}" height="{high}" class="room"/>',
        f'<text x="{left + 14}" y="{top + 24}" class="name">{escape(room)}/</text>',
    ]
    for own, others in sorted(told(graph).items()):
        x, y, w = place[own]
        for other in sorted(others):
            a, b, v = place[other]
            start, end = (x + w / 2, y + CHIP), (a + v / 2, b)
            bend = (end[1] - start[1]) / 2
            drawn.append(
                f'<path d="M{start[0]:.1f} {start[1]:.1f} '
                f"C{start[0]:.1f} {start[1] + bend:.1f} "
                f'{end[0]:.1f} {end[1] - bend:.1f} {end[0]:.1f} {end[1] - 3:.1f}" '
                'class="arrow" marker-end="url(#head)"/>'
            )
    for own, (x, y, w) in sorted(place.items()):
        drawn.append(
            f'<rect x="{x:.1f}" y="{y}" width="{w:.1f}" height="{CHIP}" class="part"/>'
            f'<text x="{x + w / 2:.1f}" y="{y + 16}" class="word">{escape(own)}</text>'
        )
    return drawn, high


def _broken(line: list[str], wide: float) -> Iterator[list[str]]:
    """A line of parts, broken into lines that fit."""
    room, taken = wide, list[str]()
    for own in line:
        if taken and room < _width(own):
            yield taken
            room, taken = wide, []
        taken.append(own)
        room -= _width(own) + GAP
    yield taken


STYLE = """
.room { fill: #f6f8fa; stroke: #8c959f; rx: 8; }
.name { font: bold 15px sans-serif; fill: #24292f; }
.part { fill: #ffffff; stroke: #57606a; rx: 5; }
.word { font: 12px sans-serif; fill: #24292f; text-anchor: middle; }
.arrow { fill: none; stroke: #57606a; stroke-opacity: 0.45; }
.down { fill: none; stroke: #0969da; stroke-width: 3; }
""".strip()


def picture() -> str:
    """All rooms as SVG.

    Raises:
        ValueError: An arrow goes up, or runs in a circle.
    """
    inside, between = house()
    row_of = {room: number for number, row in enumerate(ROWS) for room in row}
    for room, others in sorted(between.items()):
        for other in sorted(others):
            if row_of[other] <= row_of[room]:
                raise ValueError(f"{room} imports {other}, which is not below it")
    drawn: list[str] = []
    top, spans = 10.0, dict[str, tuple[float, float, float]]()
    for row in ROWS:
        wide = (WIDE - 40 * (len(row) - 1)) / len(row)
        highest = 0.0
        for number, room in enumerate(row):
            left = 10 + number * (wide + 40)
            part_drawn, high = _room(room, inside[room], left, top, wide)
            drawn += part_drawn
            spans[room] = left + wide / 2, top, top + high
            highest = max(highest, high)
        top += highest + 46
    for room, others in sorted(told(between).items()):
        for other in sorted(others):
            (x, _, low), (a, high, _) = spans[room], spans[other]
            drawn.append(
                f'<path d="M{x:.1f} {low:.1f} L{a:.1f} {high - 8:.1f}" class="down" '
                'marker-end="url(#big)"/>'
            )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE + 20} {top}"'
            ' role="img" aria-label="The rooms of Forewarn and what imports what">',
            f"<style>{STYLE}</style>",
            "<defs>"
            '<marker id="head" markerWidth="7" markerHeight="7" refX="5" refY="3" '
            'orient="auto"><path d="M0 0L6 3L0 6z" fill="#57606a"/></marker>'
            '<marker id="big" markerWidth="5" markerHeight="5" refX="2" refY="2" '
            'orient="auto"><path d="M0 0L4 2L0 4z" fill="#0969da"/></marker></defs>',
            *drawn,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
