"""Tests that the commands on all pages exist and run, except those in `LEFT`.

The commands of a page run one after the other in a separate folder. Their outputs are
compared with those on the page. Numbers are compared only in outputs that are shown
below a prompt.
"""

from __future__ import annotations

import glob
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from forewarn.cli import main
from tests.shown import PAGES, ROOT, assert_shown, outputs, sessions

if not (ROOT / "docs").is_dir():
    pytest.skip("the pages are not here: not a checkout", allow_module_level=True)

SESSIONS = [page for page in PAGES if any(sessions(page))]
SHOWN = {
    "README": "test_demo.py has the whole demo",
    "evidence": "test_oracles.py prints the same",
    "warrants": "test_warrant.py has too few runs",
}
"""The tests that compare outputs without a prompt, for pages not compared here."""

SHELLS = ("", "sh", "bash", "console", "text")
LEFT = {
    r" apollo (serve|record|signals)|--bridge|drive\.jsonl": "another process drives",
    r" carla |--world carla|@carla": "CARLA, or its stand-in, is another process",
    r"^forewarn guard |mcp guard|--live|--socket": "runs until it is stopped",
    r"-llm ": "asks a language model",
    r" thor (harvest|replay|tasks)": "needs the real build, or recordings of it",
    r"s3://": "needs a bucket; see tests/forewarn/test_storage.py",
    r"--on ray": "needs a cluster; see tests/scenarios/test_on_ray.py",
    r" measure household": "takes minutes; see tests/scenarios/test_embodied.py",
    r" measure env-highway": "takes a minute; see tests/plugins/highway",
    r"--baseline logistic": "500 runs; see tests/forewarn/test_measuring.py",
    r"--until rate": "hundreds of runs; see tests/scenarios/test_sampling.py",
    r" metadrive-": "needs packages of 300 MB; see tests/plugins/metadrive",
    r" red\.": "tests/plugins/test_add_a_world.py runs that page",
    r" virtualhome-": "tests/plugins/virtualhome/test_page.py runs that section",
    r" cart\.|report kept": "tests/plugins/gym/test_page.py runs that page",
    r"[ /]crossing\.| monitor runs ": "tests/plugins/commonroad runs that section",
    r" fleet\.": "needs the world and files of that page",
    r"forewarn (warrant|run \S+ --model guard)": "needs the reader's logs",
    r" rules |--rules |--cases access": "needs the reader's rules, labels or cases",
    r"merge-tallies|--book |--model model\.": "needs own files",
    r"drive\.csv": "tests/monitors/laws/test_laws_page.py runs these",
}
"""Matches the commands that are not run here, with the reason."""

LONG = re.compile(
    r" measure s3|s3 .*--episodes|collect s6|traces .*(s6|_collision)|convert"
    r"|report measured"
)
"""Matches the commands that run only in slow tests, with at most `FEW` runs."""
FEW = 20

BEFORE = {
    "report": ["forewarn run s3 --seed 7"],
    "columns": ["forewarn collect tiny-road --episodes 2 --format jsonl --out runs"],
    "files": ["forewarn collect tiny-road --episodes 12 --out traces"],
}
"""The commands that a page assumes the reader has already run."""

FILES = {"files": {"abstraction.yaml": 0}}
"""The files that a reader has saved from a page: the number of the YAML block."""

HOLES = re.compile(r"…|\.\.\.|<[a-z ]+>")


def _commands(page: Path) -> Iterator[str]:
    """Yields the command lines in the fenced and indented blocks of a page."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    language: str | None = None
    for line in text.splitlines():
        if (fence := re.match(r"\s*```(\w*)", line)) is not None:
            language = fence.group(1) if language is None else None
            continue
        shown = language in SHELLS if language is not None else line[:4] == "    "
        found = re.match(r"(?:\$ )?(forewarn [a-z].*)", line.strip())
        if shown and found and not line.endswith(":"):
            yield found.group(1)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_commands_are_those_that_there_are(page: Path) -> None:
    for line in _commands(page):
        if not HOLES.search(line):
            _parse(shlex.split(line, comments=True)[1:], line)


RUN = {
    page: [
        line
        for line in _commands(page)
        if not HOLES.search(line) and not any(re.search(left, line) for left in LEFT)
    ]
    for page in PAGES
    if page not in SESSIONS and page.stem != "README"
}


QUICK = {page: [each for each in RUN[page] if not LONG.search(each)] for page in RUN}


@pytest.mark.needs("libsumo")
@pytest.mark.parametrize(
    "page", [page for page, lines in QUICK.items() if lines], ids=lambda page: page.stem
)
def test_its_commands_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(page, QUICK[page], tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.needs("libsumo")
@pytest.mark.parametrize(
    "page",
    [page for page in RUN if QUICK[page] != RUN[page]],
    ids=lambda page: page.stem,
)
def test_its_longer_commands_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(page, RUN[page], tmp_path, monkeypatch)


def _run(
    page: Path, lines: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    blocks = re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    for name, number in FILES.get(page.stem, {}).items():
        (folder / name).write_text(blocks[number], encoding="utf-8")
    for name in ("examples", "scenarios"):
        (folder / name).symlink_to(ROOT / name)
    for line in [*BEFORE.get(page.stem, ()), *lines]:
        few = re.sub(r"--episodes (\d+)", _few, line)
        words = shlex.split(few, comments=True)[1:]
        known = [found for word in words for found in glob.glob(word) or [word]]
        done = CliRunner().invoke(main, known)
        assert done.exit_code in (0, 1), f"{line}\n{done.output}"
        assert not isinstance(done.exception, Exception), line


def _few(episodes: re.Match[str]) -> str:
    return f"--episodes {min(FEW, int(episodes[1]))}"


GUIDES = [page for page in PAGES if page.stem not in ("README", "architecture")]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_it_begins_with_what_a_reader_can_do_after_it(page: Path) -> None:
    title, first, *_ = page.read_text(encoding="utf-8").split("\n\n")
    assert title.startswith("# ")
    assert re.match(r"After (reading this page|this tutorial) you can ", first)


def test_each_reason_to_leave_one_out_is_needed() -> None:
    lines = [line for page in PAGES for line in _commands(page)]
    for left in LEFT:
        assert any(re.search(left, line) for line in lines), left


def _parse(words: list[str], line: str) -> None:
    """Reads a command line as click does, and runs nothing."""
    words = [word for word in words if word not in ("&", "|", ">")]
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        _, inner, words = command.resolve_command(context, words)
        assert inner is not None, line
        command = inner
    if {"--help", "-h"} & set(words):
        return
    try:
        command.make_context(line, words)
    except click.ClickException as error:
        said = error.format_message()
        assert said.endswith("does not exist."), f"{line}: {said}"


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.stem)
def test_what_is_typed_at_a_prompt_says_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, shown in sessions(page):
        done = CliRunner().invoke(main, shlex.split(command)[1:])
        refused = any(line.startswith("forewarn: ") for line in shown.splitlines())
        assert done.exit_code in ((2,) if refused else (0, 1)), done.output
        assert_shown(shown, done.output, to_the_figure=True)


def test_whatever_output_a_page_shows_is_compared() -> None:
    assert {page.stem for page in PAGES if any(outputs(page))} == set(SHOWN)
