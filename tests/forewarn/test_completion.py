"""What the shell completes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from forewarn.cli import main


def completed(*typed: str) -> list[str]:
    """What stands after the last word that was typed, once tab is pressed."""
    shell = ShellComplete(main, {}, "forewarn", "_FOREWARN_COMPLETE")
    return [each.value for each in shell.get_completions([*typed[:-1]], typed[-1])]


@pytest.mark.parametrize(
    ("typed", "known"),
    [
        (("ru",), "run"),
        (("run", "s"), "s3"),
        (("run", "house"), "household"),
        (("learn", "--scenario", "tiny"), "tiny-road"),
        (("monitor", "--law", "51_"), "51_5"),
        (("laws", "51_"), "51_5"),
        (("run", "--th"), "--threshold"),
    ],
)
def test_names_are_completed(typed: tuple[str, ...], known: str) -> None:
    found = completed(*typed)
    assert known in found
    assert all(name.startswith(typed[-1]) for name in found)


def test_models_are_completed(tmp_path: Path) -> None:
    for name in ("model.json", "model.b.json.gz", "model.txt"):
        (tmp_path / name).touch()
    (tmp_path / "models").mkdir()
    begun = f"{tmp_path}/mod"
    found = [f"{tmp_path}/{n}" for n in ("model.b.json.gz", "model.json", "models/")]
    assert completed("show", begun) == found
    assert completed("run", "s3", "--model", begun) == found


@pytest.mark.parametrize(
    "name", ["$(id)", "a;b", "a b", "a\nplain,b", "`id`", "a'b", "\x1b[2J", "*", "a&b"]
)
def test_file_names_that_need_quotes_are_not_completed(
    name: str, tmp_path: Path
) -> None:
    """What is completed stands on the command line as it is, without quotes."""
    (tmp_path / f"{name}.json").touch()
    (tmp_path / "modèle.json").touch()
    assert completed("show", f"{tmp_path}/") == [f"{tmp_path}/modèle.json"]


def test_a_command_that_does_not_exist_completes_to_nothing() -> None:
    assert completed("rnu", "--mo") == []
