"""Every reader rejects small YAML files that would expand to gigabytes, and the page
lists the limits in the code.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

import forewarn.apollo_bridge.frames as apollo_frames
import forewarn.apollo_bridge.maps as apollo_maps
import forewarn.plugins.carla.maps as carla_maps
from forewarn import scenarios
from forewarn.abstractions import files, lines
from forewarn.abstractions.abstraction import load_abstraction
from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.limits import STORAGE_SECONDS, STORM_BYTES, STORM_SECONDS
from forewarn.abstractions.readers import calls
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.cli import main
from forewarn.monitors.chains import chain, learning
from forewarn.monitors.chains.formats import own
from forewarn.monitors.checking import properties
from forewarn.monitors.guarding import decision, record
from forewarn.monitors.guarding.policy import load_policy
from forewarn.monitors.laws import automaton
from forewarn.monitors.laws.lawbook import law_book
from forewarn.monitors.programs import grammar, running
from forewarn.monitors.rules import agentspec
from forewarn.monitors.trust import training
from forewarn.plugins import mcp
from forewarn.plugins.commonroad.reading import _Scene as commonroad
from forewarn.plugins.deepscenario import _Part as deepscenario
from forewarn.plugins.programs import apart, cell
from forewarn.plugins.remote import messages, server
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


def _mib(size: int) -> str:
    return f"{size >> 20:,} MiB"


def _limits() -> dict[str, str]:
    """Returns the rows of the table, from the constants in the code."""
    frames, values = f"{lines.MAX_FRAMES:,} frames", f"{lines.MAX_VALUES:,} values"
    scene, replay = commonroad.most_bytes, deepscenario.most_bytes
    xml = commonroad.most_elements, deepscenario.most_elements
    return {
        "a text, JSON or model file, uncompressed": (
            f"{_mib(files.MAX_TEXT_BYTES)}, {files.MAX_ITEMS:,} items"
        ),
        "YAML": (
            f"{files.MAX_YAML_CHARACTERS:,} characters, {files.MAX_YAML_DEPTH} nested "
            "brackets"
        ),
        "a trace as text": (
            f"{_mib(lines.MAX_BYTES)}, {lines.MAX_LINES:,} lines, {frames} and "
            f"{values} for each GiB of free memory; {_mib(lines.MAX_LINE)} per line"
        ),
        "gzipped sequences of states": (
            f"{_mib(training._UNPACKED_BYTES)} of text, plus "
            f"{training._UNPACKED_RATIO} times the size on disk"
        ),
        "a chain": (
            f"{chain.MAX_STATES:,} states, {chain.MAX_TRANSITIONS:,} transitions"
        ),
        "the PRISM language, DRN and UMB, read by Storm": (
            f"{STORM_SECONDS} s of processor time, {STORM_BYTES >> 20} MB"
        ),
        "a file of AgentSpec's rules": (
            f"{_mib(agentspec.MAX_BYTES)}, {agentspec.MAX_RULES:,} rules"
        ),
        "a property for Storm": f"{properties.MAX_FOREIGN} words and symbols",
        "a law": (
            f"{automaton.MAX_PROPOSITIONS} propositions, {automaton.MAX_STATES:,} "
            "states of its monitor"
        ),
        "a tally": (f"{learning.MAX_PAIRS:,} different transitions, counts up to 10¹²"),
        "a message to `forewarn guard`": (
            f"{_mib(messages.MAX_BYTES)}; {messages.HELLO_BYTES >> 10} KiB before the "
            "token"
        ),
        "connections to `forewarn guard`": (
            f"{server.MAX_CONNECTIONS}, and {server.MAX_STRANGERS} that have not sent "
            f"the token, each for at most {server.HELLO_S:g} s"
        ),
        "a message of an MCP server or agent": (
            f"{_mib(mcp.MAX_MESSAGE)}, {mcp.MAX_WAITING:,} waiting calls, "
            f"{mcp.CALL_LIMIT_S:g} s per call (`--time-limit`)"
        ),
        "an action's arguments": (
            f"{decision.MOST_CHARACTERS:,} characters, {decision.MOST_ITEMS:,} items, "
            f"{decision.DEEPEST} levels"
        ),
        "a log of agents' calls": (
            f"{calls.MAX_RUNS:,} runs of {calls.MAX_CALLS:,} calls; results are cut "
            f"after {calls.MAX_RESULT:,} characters"
        ),
        "a line of a run record": _mib(record.MAX_LINE_BYTES),
        "a guard program": (
            f"{grammar.LONGEST_PROGRAM:,} characters, {grammar.MOST_TOKENS:,} words "
            f"and symbols, {running.MOST_STEPS:,} steps per call"
        ),
        "a function of a guard program's user": (
            f"{_mib(cell.MEMORY_BYTES)}, {apart.CALL_S:g} s per call"
        ),
        "a file of CommonRoad or DeepScenario": (
            f"{_mib(scene)} or {_mib(replay)}, {xml[0]:,} or {xml[1]:,} XML elements"
        ),
        "a map in OpenDRIVE; of Apollo": (
            f"{_mib(carla_maps.LONGEST_TEXT)}; {_mib(apollo_maps.MAX_BYTES)}"
        ),
        "a message of Apollo": _mib(apollo_frames.LIMIT),
        "object storage, for one answer": f"{STORAGE_SECONDS} s",
    }


def test_page_lists_the_limits_in_the_code() -> None:
    page = (Path(__file__).parents[1] / "docs" / "files.md").read_text()
    section = page.partition("\n## Limits on untrusted input\n")[2]
    rows = (line.strip("| ").split(" | ") for line in section.splitlines())
    told = {row[0]: row[1] for row in rows if len(row) == 2}
    del told["input"]
    del told["a compressed trace"]  # a factor on the row before
    assert own.MAX_COUNT == 10**12
    assert told == _limits()
