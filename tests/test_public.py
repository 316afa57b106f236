"""Tests that pages and examples import only public names, and show all of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FRONTS = (
    "forewarn",
    "forewarn.plugins",
    "forewarn.plugins.carla",
    "forewarn.plugins.gym",
    "forewarn.thor_bridge",
)
"""The packages that load their public names on first use."""

UNSAID = {"ForewarnError"}
"""Public names that no page needs to show; this is the base class of all errors."""

if not (ROOT / "docs").is_dir():
    pytest.skip("the pages are not here: not a checkout", allow_module_level=True)

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield text
    else:
        yield from re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def imported(path: Path) -> Iterator[tuple[str, str]]:
    for block in blocks(path):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module:
                if node.module.split(".")[0] == "forewarn":
                    yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: path.name)
def test_shown_names_are_public(path: Path) -> None:
    hidden = [
        f"{module}.{name}"
        for module, name in imported(path)
        if name not in getattr(import_module(module), "__all__", ())
    ]
    assert hidden == []


@pytest.mark.parametrize("front", FRONTS)
def test_public_names_exist_and_are_shown(front: str) -> None:
    package = import_module(front)
    text = "\n".join(path.read_text(encoding="utf-8") for path in [*PAGES, *EXAMPLES])
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in UNSAID or re.search(rf"\b{name}\b", text), f"no page: {name}"
