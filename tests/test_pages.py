"""Every command on every page is one that there is; those of the tutorials are run.

A tutorial's commands run one after the other in an empty folder, and what is shown of
their output is compared in shape: the same words in the same order, any numbers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from forewarn.cli import main
from tests.scenarios import learned

ROOT = Path(__file__).parents[1]

if not (ROOT / "docs").is_dir():
    pytest.skip("the pages are not here: not a checkout", allow_module_level=True)

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
HOLES = re.compile(r"…|\.\.\.|<[a-z ]+>")


def _commands(page: Path) -> Iterator[str]:
    """The command lines of a page: indented, in a block, or behind a prompt."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        found = re.match(r"(?:    |\$ |)(forewarn [a-z].*)", line)
        if found and not line.endswith(":"):
            yield found.group(1)


def _block_lines(page: Path) -> set[str]:
    """The lines of a page that stand in a block, so prose is no command."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = "\n".join(re.findall(r"```(?:console|sh|)\n(.*?)```", text, re.S))
    indented = "\n".join(line for line in text.splitlines() if line[:4] == "    ")
    return {line.strip().removeprefix("$ ") for line in (blocks + indented).split("\n")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_commands_are_those_that_there_are(page: Path) -> None:
    blocks = _block_lines(page)
    for line in _commands(page):
        if line in blocks and not HOLES.search(line):
            _parse(shlex.split(line, comments=True)[1:], line)


def _parse(words: list[str], line: str) -> None:
    """Reads a command line as click does, and runs nothing."""
    words = [word for word in words if word not in ("&", "|", ">")]
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        inner = command.get_command(context, words.pop(0))
        assert inner is not None, line
        command = inner
    if {"--help", "-h"} & set(words):
        return
    try:
        command.make_context(line, words)
    except click.ClickException as error:
        said = error.format_message()
        assert said.endswith("does not exist."), f"{line}: {said}"


def test_the_moving_picture_is_made_of_a_run(tmp_path: Path) -> None:
    spec = spec_from_file_location("film", ROOT / "docs" / "film.py")
    assert spec is not None and spec.loader is not None
    film = module_from_spec(spec)
    spec.loader.exec_module(film)
    run = ["run", "tiny-road", "--model", str(learned.model("tiny-road"))]
    done = CliRunner().invoke(main, [*run, "--seed", "9014", "--out", str(tmp_path)])
    assert done.exit_code in (0, 1), done.output
    (record,) = tmp_path.glob("*.run.jsonl")
    drawn, shown = film.film(record), (ROOT / "docs" / "film.svg").read_text("utf-8")
    parts = [re.findall(r"<(?!text|/text)/?[a-z]+", text) for text in (drawn, shown)]
    head = parts[1].index("<polyline")
    assert parts[0][:head] == parts[1][:head], "draw it again: docs/film.py says how"
    assert "values=" in drawn and drawn.endswith("</svg>\n")


def _steps(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each command of a tutorial, with what is shown of its output."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *shown = part.splitlines()
            yield command, [line for line in shown if line.strip()]


def _shape(line: str) -> str:
    """A line without its numbers, and blanks that only align."""
    return " ".join(re.sub(r"\d[\d,.]*", "#", line).split())


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_and_shows_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, shown in _steps(page):
        done = CliRunner().invoke(main, shlex.split(command)[1:])
        refused = any(line.startswith("forewarn: ") for line in shown)
        assert done.exit_code in ((2,) if refused else (0, 1)), done.output
        said = iter(map(_shape, done.output.splitlines()))
        for line in shown:
            assert _shape(line) in said, f"{command}\n{line}\n{done.output}"
