"""The command line as a whole: help, errors in one line, what it does not import."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import (
    InvalidInput,
    MissingDependency,
    clean,
)
from forewarn.cli import COMMANDS, main
from forewarn.cli.command import _APART, _NEEDS, _named, command
from forewarn.cli.printing import progress, say, table

HEAVY = ("numpy", "scipy", "pydantic", "yaml", "matplotlib", "stormpy", "libsumo")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["-m", "forewarn", "--help"], HEAVY),
        (["-c", "import forewarn"], HEAVY[1:]),
    ],
    ids=["forewarn --help", "import forewarn"],
)
def test_imports_nothing_heavy(arguments: list[str], heavy: tuple[str, ...]) -> None:
    done = _run("-X", "importtime", *arguments)
    assert done.returncode == 0
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "forewarn" in modules
    assert modules.isdisjoint(heavy)


def test_help_lists_each_command_with_its_purpose() -> None:
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0
    for name in main.list_commands(click.Context(main)):
        assert f"  {name} " in shown.output
        assert COMMANDS[name].summary in shown.output


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_each_command_has_help_and_json(name: str) -> None:
    shown = CliRunner().invoke(main, [name, "--help"])
    assert shown.exit_code == 0, shown.output
    assert "--json" in shown.output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["docter"], "forewarn: no such command 'docter' (did you mean doctor?)"),
        (["xyzzy"], "forewarn: no such command 'xyzzy' (forewarn --help lists them)"),
        (["doctor", "--jsn"], "forewarn doctor: no such option '--jsn' (did you mean"),
        (["doctor", "strom"], "forewarn: 'strom' is not a known engine,"),
    ],
)
def test_misspelt_words_get_a_suggestion(arguments: list[str], line: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "former"),
    [
        (["run", "tiny-road", "--for", "x"], "--preset"),
        (["measure", "tiny-road", "--for", "x"], "--preset"),
        (["tune", "tiny-road", "--for", "x"], "--preset"),
        (["tune", "tiny-road", "--longer", "x"], "--max-slowed"),
        (["tune", "tiny-road", "--holds", "x"], "--release-after"),
        (["collect", "tiny-road", "--again", "--jobs", "x"], "--jobs"),
        (["run", "tiny-road", "--again", "--jobs", "x"], "--jobs"),
        (["train", "tiny-road", "--again", "--jobs", "x"], "--jobs"),
        (["merge", "--into", "x"], "TALLIES"),
    ],
)
def test_names_of_the_last_release_are_still_taken(
    arguments: list[str], former: str
) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2 and former in done.stderr
    assert "no such" not in done.stderr.lower()
    shown = CliRunner().invoke(main, [arguments[0], "--help"]).output
    old = next((word for word in arguments if word.startswith("--")), "")
    assert arguments[0] == "merge" or f" {old} " not in shown


def _command_that_raises(error: BaseException) -> ModuleType:
    @click.command()
    def doctor() -> None:
        raise error

    module = ModuleType("forewarn.cli.doctor")
    module.doctor = doctor  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (InvalidInput("no\x1b[2J\nway", source="a"), 2, "forewarn: a: no way"),
        (MissingDependency("this", "storm"), 3, "forewarn: this needs a package"),
        (KeyboardInterrupt(), 130, "forewarn: interrupted"),
        (PermissionError(13, "Permission denied", "/x"), 2, "forewarn: /x: permission"),
        (RecursionError("deep"), 2, "forewarn: the input is nested too deeply"),
        (ZeroDivisionError("oh"), 70, "forewarn: a defect in forewarn: ZeroDivision"),
        (SystemExit(1), 1, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_every_error_ends_in_one_line_and_its_status(
    error: BaseException, status: int, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = importlib.import_module
    broken = _command_that_raises(error)
    monkeypatch.setattr(
        importlib,
        "import_module",
        lambda name: broken if name == broken.__name__ else original(name),
    )
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == status
    assert done.stderr.lstrip().startswith(line)
    assert done.stderr.strip().count("\n") == 0


def test_a_closed_pipe_ends_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "forewarn.cli", "doctor"],
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (141, "")


def test_doctor_lists_pieces_and_install_commands() -> None:
    done = CliRunner().invoke(main, ["doctor", "--json"])
    assert done.exit_code == 0
    pieces = {piece["name"]: piece for piece in json.loads(done.stdout)["pieces"]}
    assert pieces["core"]["usable"] and pieces["core"]["versions"]["numpy"]
    for name, piece in pieces.items():
        assert piece["usable"] == (piece["remedy"] is None)
        if not piece["usable"] and name not in ("cyber_py3", "unity"):
            assert piece["remedy"] == f"pip install 'forewarn[{name}]'"


def test_doctor_with_a_missing_piece_ends_with_3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("forewarn.cli.doctor.version_of", lambda package: None)
    done = CliRunner().invoke(main, ["doctor", "carla"])
    assert done.exit_code == 3
    assert "pip install 'forewarn[carla]'" in done.stdout
    assert CliRunner().invoke(main, ["doctor"]).exit_code == 0


def test_doctor_detects_apollos_bindings_without_importing_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bindings = tmp_path / "cyber" / "python" / "cyber_py3"
    bindings.mkdir(parents=True)
    (tmp_path / "cyber" / "__init__.py").write_text("raise SystemError")
    monkeypatch.syspath_prepend(tmp_path)
    done = CliRunner().invoke(main, ["doctor", "apollo", "--json"])
    assert json.loads(done.stdout)["pieces"][1]["usable"] is True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Straße 5 µs → ok", "Straße 5 µs → ok"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("a\rb\x00c\x9bd\x7f", "abcd"),
        ("safe\u202eelbasnu\u2066", "safeelbasnu"),
        ("one\u2028two", "onetwo"),
        ("kept\n\there", "kept\n\there"),
    ],
)
def test_clean_drops_what_commands_a_terminal(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(
    st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x1b[m]\x9b"))
)
def test_cleaned_text_is_stable_and_has_no_control_characters(text: str) -> None:
    shown = clean(text)
    assert clean(shown) == shown
    assert all(ord(c) >= 32 and not 127 <= ord(c) < 160 or c in "\n\t" for c in shown)


def test_say_prints_json_alone_or_clean_lines() -> None:
    @command()
    def both(number: float, /, *, bad: bool = False) -> None:
        """Say it.

        Args:
            bad: Whether it is.
        """
        say({"a": [number, None]}, ["one\x07", "two"], found=bad)

    assert CliRunner().invoke(both, ["1", "--json"]).stdout == '{"a": [1.0, null]}\n'
    done = CliRunner().invoke(both, ["1", "--bad"])
    assert (done.stdout, done.exit_code) == ("one\ntwo\n", 1)


def test_table_aligns_numbers_right_and_words_left() -> None:
    assert table(("law", "risk"), [("no_collision", 0.5), ("law38", 12)]) == [
        "law           risk",
        "no_collision   0.5",
        "law38           12",
    ]
    assert table(("a", "b"), []) == ["a  b"]


def test_progress_hands_on_every_item_and_counts_slow_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    assert list(progress("abcdefgh", "reading", total=8)) == list("abcdefgh")
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"reading: 1 of 8, \d[\d,]* MiB", lines[0])
    # Two in twelve seconds.
    assert re.fullmatch(r"reading: 3 of 8, 0\.17/s, 0:30 left, \d[\d,]* MiB", lines[1])


def _commands(group: click.Group) -> Iterator[click.Command]:
    for name in group.list_commands(context := click.Context(group)):
        found = group.get_command(context, name)
        assert found is not None
        yield from _commands(found) if isinstance(found, click.Group) else [found]


def test_every_option_that_a_help_names_exists() -> None:
    """Otherwise, the check of which options can be combined would fail."""
    checked = 0
    for each in _commands(main):
        known = {name for option in each.params for name in option.opts}
        for option in each.params:
            words = getattr(option, "help", None) or ""
            for found in (_NEEDS.match(words), _APART.search(words)):
                named = {name for name, _ in _named(found[1])} if found else set()
                assert named <= known, (each.name, option.name)
                checked += len(named)
    assert checked > 60
