"""Tests that the tables of figures on pages match the files of results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "docs").is_dir():
    pytest.skip("the pages are not here: not a checkout", allow_module_level=True)
from docs import tables  # noqa: E402

NAMES = sorted(path.stem for path in tables.RESULTS.glob("*.json"))


@pytest.mark.parametrize("page", list(tables.pages()), ids=lambda path: path.stem)
def test_a_page_shows_the_stored_results(page: Path) -> None:
    text = page.read_text("utf-8")
    assert tables.rendered(text) == text, "run: python docs/tables.py"


def test_an_empty_table_is_filled_without_changing_the_rest_of_the_page() -> None:
    name, table = NAMES[0], "<!-- figures: {} -->\n{}\n<!-- end -->\n"
    page = table.format(name, "") + "More.\n" + table.format(NAMES[1], "")
    found = tables.rendered(page)
    assert found.count("<!-- end -->") == 2 and "\n\n<!-- end -->\nMore.\n" in found
    assert tables.rendered(found) == found


def test_all_results_are_shown_once() -> None:
    shown = [
        found[2]
        for page in tables.pages()
        for found in tables.MARKED.finditer(page.read_text("utf-8"))
    ]
    assert sorted(shown) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_results_name_a_command_that_exists(name: str) -> None:
    found = tables.results(name)
    program, script = found["command"].split()[:2]
    assert program in ("python", "forewarn")
    assert program == "forewarn" or (ROOT / script).is_file()
    assert found["measured"]
    assert all(len(row) == len(found["columns"]) for row in found["rows"])


@pytest.mark.parametrize("page", list(tables.pages()), ids=lambda path: path.stem)
def test_one_benchmark_prints_the_results_on_a_page(page: Path) -> None:
    shown = [found[2] for found in tables.MARKED.finditer(page.read_text("utf-8"))]
    commands = "; ".join(tables.results(name)["command"] for name in shown)
    modules = re.findall(r"benchmarks/(?:run\.py )?(\w+)", commands)
    assert len(set(modules)) <= 1


@pytest.mark.parametrize(
    "output",
    ["| a | b c |\n|---|---|\n| 1 | 2 |\n", "of 3 runs:\n\na     b c\n1     2\n"],
)
def test_a_printed_table_is_read(output: str) -> None:
    assert tables.printed(output) == [[["a", "b c"], ["1", "2"]]]


def test_each_printed_table_is_read() -> None:
    first, second = "| a |\n|---|\n| 1 |\n", "| b | c |\n|---|---|\n| 2 | 3 |\n"
    assert tables.printed(f"{first}\nand:\n\n{second}") == [
        [["a"], ["1"]],
        [["b", "c"], ["2", "3"]],
    ]


@pytest.mark.parametrize(
    ("measured", "rows", "expected"),
    [
        ({"b"}, [["b, x", "4"]], [["a", "1"], ["b, x", "4"], ["c", "3"]]),
        ({"b"}, [], [["a", "1"], ["c", "3"]]),
        ({"d"}, [["d", "5"]], [["a", "1"], ["b, x", "2"], ["c", "3"], ["d", "5"]]),
    ],
)
def test_only_rows_of_measured_scenarios_are_replaced(
    measured: set[str], rows: list[list[str]], expected: list[list[str]]
) -> None:
    stored = [["a", "1"], ["b, x", "2"], ["c", "3"]]
    assert tables.merged(stored, rows, measured) == expected
