"""Compares the outputs that pages show with the outputs that commands print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.M | re.S)
_TYPED = re.compile(r"(\$ )?(forewarn|python|pip|make|git|websockets|tail|cd) ")


def _flowing(text: str) -> str:
    return " ".join(text.split())


def _shape(text: str) -> str:
    return _flowing(re.sub(r"\d[\d,.]*", "#", text))


def assert_shown(shown: str, said: str, *, to_the_figure: bool = False) -> None:
    """Checks that an output contains what a page shows; `…` stands for omitted text.

    Line breaks are ignored. Numbers are compared only with `to_the_figure`.
    """
    form = _flowing if to_the_figure else _shape
    rest = form(said)
    for part in filter(None, map(form, shown.split("…"))):
        assert part in rest, f"{part}\n\nis not in\n\n{rest}"
        rest = rest.partition(part)[2]


def sessions(page: Path) -> Iterator[tuple[str, str]]:
    """Yields each command that a page shows at a prompt, with the output shown."""
    for language, block in _BLOCK.findall(page.read_text("utf-8")):
        if language == "console":
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
                command, _, shown = part.partition("\n")
                yield command, shown


def outputs(page: Path) -> Iterator[str]:
    """Yields the outputs that a page shows without a command at a prompt."""
    for language, block in _BLOCK.findall(page.read_text("utf-8")):
        plain = language in ("", "text")
        if plain and not any(map(_TYPED.match, block.splitlines())):
            yield block
