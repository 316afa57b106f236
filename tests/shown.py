"""What pages show of an output, compared with what is printed."""

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
    """What is shown was said, in that order; `…` stands for what is left out.

    How lines are broken does not matter, nor do numbers unless they have to.
    """
    form = _flowing if to_the_figure else _shape
    rest = form(said)
    for part in filter(None, map(form, shown.split("…"))):
        assert part in rest, f"{part}\n\nis not in\n\n{rest}"
        rest = rest.partition(part)[2]


def sessions(page: Path) -> Iterator[tuple[str, str]]:
    """Each command that a page shows at a prompt, with what is shown of its output."""
    for language, block in _BLOCK.findall(page.read_text("utf-8")):
        if language == "console":
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
                command, _, shown = part.partition("\n")
                yield command, shown


def outputs(page: Path) -> Iterator[str]:
    """What a page shows of outputs outside of its sessions."""
    for language, block in _BLOCK.findall(page.read_text("utf-8")):
        plain = language in ("", "text")
        if plain and not any(map(_TYPED.match, block.splitlines())):
            yield block
