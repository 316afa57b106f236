"""The page on evidence: what it names is there, and its words mean that and no more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import forewarn

PACKAGE = Path(forewarn.__file__).parent
ROOT = Path(__file__).parents[1]

WORD = re.compile(r"\b(?:guarant\w+|bounds?)\b(?!:)", re.IGNORECASE)
"""Said of what a simulation shows to hold, and of nothing else."""

OF_EVIDENCE = re.compile(
    r"\brisks?\b|probab|transition|\bcounts?\b|delta|truth|visits|interval|as often as"
    r"|PAC|\bCTL\b|epsilon|counted|clean runs|worst|\bcurve\b|no bound|sound|estimate",
    re.IGNORECASE,
)
"""What a sentence speaks of that has one of these words in its own meaning."""

ABOUT_INTERVALS = (
    "checking/bounding.py", "chains/intervals.py", "guarding/drift.py",
    "fleet/rejecting.py", "report/showing/", "risk/", "trust/pac.py",
    "trust/row_bounds.py",
)  # fmt: skip
"""Modules that speak of little else."""

if not (ROOT / "docs").is_dir():
    pytest.skip("the pages are not here: not a checkout", allow_module_level=True)

PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


def sentences(text: str) -> list[str]:
    """Those of a text; each cell of a table and each point of a list is one."""
    parts = re.split(r"(?<=[.?!])\s+|\n\s*\n|\n\s*[-*] |\|", text)
    return [" ".join(part.split()) for part in parts]


def loose(text: str) -> list[str]:
    """The sentences in which one of the words means something else."""
    return [
        each
        for each in sentences(text.replace('words "guarantee" and "bound"', ""))
        if WORD.search(each) and not OF_EVIDENCE.search(each)
    ]


def said(module: Path) -> Iterator[str]:
    """What a module says to people: its docstrings, helps and messages."""
    text = module.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if WORD.search(text) else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if " " in node.value:
                yield node.value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_the_words_of_evidence_for_nothing_else(page: Path) -> None:
    assert loose(page.read_text(encoding="utf-8")) == []


def test_helps_messages_and_docstrings_use_them_for_nothing_else() -> None:
    found = {
        str(module.relative_to(PACKAGE)): wrong
        for folder in ("", *(each.name for each in PACKAGE.iterdir() if each.is_dir()))
        for module in sorted((PACKAGE / folder).glob("**/*.py" if folder else "*.py"))
        if not any(part in str(module) for part in ABOUT_INTERVALS)
        for text in said(module)
        if (wrong := loose(text))
    }
    assert found == {}


def test_the_words_are_found_where_they_mean_something_else() -> None:
    assert loose("A bound needs its unit. The risk has bounds.") == [
        "A bound needs its unit."
    ]
    assert loose("Delivery is guaranteed.") and not loose("Frames are bounded.")


def test_what_the_page_names_is_there() -> None:
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    defined = {name for text in texts for name in re.findall(r"def (test_\w+)", text)}
    assert named and named <= defined
    paths = re.findall(r"`((?:tests|benchmarks|monitors)/[\w/]+\.py)", page)
    assert paths and all((ROOT / path).is_file() for path in paths)
