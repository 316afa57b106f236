"""Tests that every reader rejects small YAML files that would expand to gigabytes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn import scenarios
from forewarn.abstractions.abstraction import load_abstraction
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.cli import main
from forewarn.monitors.guarding.policy import load_policy
from forewarn.monitors.laws.lawbook import law_book
from forewarn.scenarios.schema import is_family, load_family, load_scenario
from forewarn.thor_bridge.tasks import load_tasks

BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 64)
)
MERGED = "a0: &a0 {k: x}\n" + "".join(
    f"a{i}: &a{i} {{<<: *a{i - 1}, k{i}: *a{i - 1}}}\n" for i in range(1, 64)
)

LOADERS: dict[str, Callable[[Path], object]] = {
    "policy": load_policy,
    "scenario": lambda path: load_scenario(str(path)),
    "family": lambda path: load_family(str(path)),
    "family or scenario": lambda path: is_family(str(path)),
    "abstraction": load_abstraction,
    "vocabulary": load_vocabulary,
    "law book": lambda path: law_book(path=path),
    "household tasks": load_tasks,
}


@contextmanager
def little_memory(most: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most


@pytest.mark.parametrize("bomb", [BOMB, MERGED], ids=["lists", "merged keys"])
@pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS)
def test_aliases_do_not_unfold(
    tmp_path: Path, loader: Callable[[Path], object], bomb: str
) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(bomb)
    said = r"bomb\.yaml: line 2 column \d+: not YAML: the alias \*a0 is not supported"
    with little_memory(8_000_000), pytest.raises(InvalidInput, match=said):
        loader(path)


@pytest.mark.parametrize(
    "command",
    [
        ["run", "{bomb}"],
        ["guard", "--stdio", "--model", "{trained}", "--policy", "{bomb}"],
        ["collect", "{bomb}", "--out", "{folder}"],
        ["laws", "--book", "{bomb}"],
    ],
)
def test_the_command_line_says_so(tmp_path: Path, command: list[str]) -> None:
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text(BOMB)
    trained = Path(scenarios.__file__).parent / "trained" / "s2.model.json.gz"
    named = {"bomb": bomb, "folder": tmp_path / "out", "trained": trained}
    done = CliRunner().invoke(main, [word.format_map(named) for word in command])
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1
    assert "the alias *a0" in done.stderr
