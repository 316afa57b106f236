"""How much of the house one world brings along: its imports, followed without running.

What a world needs is what who adds one must know. Imports inside functions, and those
for types alone, are not followed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import forewarn

PACKAGE = Path(forewarn.__file__).parent

ONCE = {"carla": (55, 9290), "sumo": (52, 8247)}
"""Modules and lines that a world brought along before its scene was typed."""
SHARE = 0.8


def file_of(module: str) -> Path | None:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    places = path / "__init__.py", path.with_suffix(".py")
    return next((place for place in places if place.is_file()), None)


def imported(nodes: list[ast.stmt]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Try | ast.With):
            yield from imported(node.body)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test):
            yield from imported(node.body)


def closure(module: str) -> dict[str, int]:
    """The modules of ours that a module leads to, itself included, and their lines."""
    lines: dict[str, int] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        path = file_of(name) if name.partition(".")[0] == "forewarn" else None
        if path is not None and name not in lines:
            text = path.read_text(encoding="utf-8")
            lines[name] = len(text.splitlines())
            todo += imported(ast.parse(text).body)
    return lines


@pytest.mark.parametrize("world", sorted(ONCE))
def test_a_world_brings_a_fifth_less_along(world: str) -> None:
    found = closure(f"forewarn.plugins.{world}.bridge")
    modules, lines = ONCE[world]
    assert len(found) <= SHARE * modules, sorted(found)
    assert sum(found.values()) <= SHARE * lines, sorted(found)


def test_the_guard_is_no_part_of_a_world() -> None:
    """The loop stands between: a world knows decisions, and neither laws nor chains."""
    for world in ONCE:
        found = closure(f"forewarn.plugins.{world}.bridge")
        ours = {name for name in found if name.startswith("forewarn.monitors.")}
        assert ours <= {"forewarn.monitors.guarding.decision"}
