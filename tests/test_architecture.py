"""Tests that the files named on pages exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

if not (ROOT / "docs").is_dir():
    pytest.skip("the pages are not here: not a checkout", allow_module_level=True)

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FOLDERS = {
    "abstractions", "apollo_bridge", "benchmarks", "docs", "examples", "forewarn",
    "monitors", "plugins", "scenarios", "standins", "tests", "thor_bridge",
}  # fmt: skip
PATH = re.compile(r"(?<![\w/.$~-])(?:[\w-]+/)+[\w.@-]*\w|`(?:[\w-]+/)+`")


def named(page: str) -> set[str]:
    """Returns the paths in this checkout's folders that a page names."""
    paths = {found.strip("`") for found in PATH.findall(page)}
    # A word in capitals is a placeholder.
    return {
        path
        for path in paths
        if path.split("/")[0] in FOLDERS and not re.search("[A-Z]{4}", path)
    }


def test_missing_paths_are_found() -> None:
    page = "See `plugins/loop/loop.py`, tests/no/such.py and `scenarios/gone`."
    assert named(page) == {"plugins/loop/loop.py", "tests/no/such.py", "scenarios/gone"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_on_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [path for path in sorted(named(text)) if not (ROOT / path).exists()] == []


def test_architecture_page_names_files_of_every_room() -> None:
    paths = named((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert len(paths) > 30
