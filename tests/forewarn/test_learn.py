"""`forewarn learn`: the shapes it promises, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main
from forewarn.monitors.chains.model import load_model

GOLDEN = Path(__file__).parents[1] / "golden" / "chains"
RUNS = GOLDEN / "kettle.states"
THIRD = Fraction(1, 3)
SPEEDS = [0.0, 0.0, 20.0, 20.0, 0.0, 20.0]


def forewarn(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def learned(out: Path, *arguments: object) -> dict[str, Any]:
    done = forewarn("learn", *arguments, "--out", out, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def exact_rows(path: Path) -> dict[str, dict[str, Fraction]]:
    chain = load_model(path).chain
    names = chain.states
    return {
        name: {names[j]: p for j, p in chain.exact_row(i).items()}
        for i, name in enumerate(names)
    }


def trace(
    path: Path, speeds: Sequence[float], period: float = 0.1, **head: Any
) -> Path:
    header = {
        "format": "forewarn.trace/1",
        "vocabulary": "driving",
        "provides": ["speed"],
        "period_s": period,
        **head,
    }
    lines = [json.dumps(header)]
    for i, speed in enumerate(speeds):
        frame = {"sequence": i, "time_s": i * period, "signals": {"speed": speed}}
        lines.append(json.dumps(frame))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "M.json"


@pytest.fixture
def abstraction(tmp_path: Path) -> Path:
    path = tmp_path / "A.yaml"
    path.write_text(
        "format: forewarn.abstraction/1\nname: speeds\nvocabulary: driving\n"
        "predicates:\n  - speed < 5\n  - speed > 10\n"
    )
    return path


# sequences of states


def test_learned_frequencies_include_the_end_state(out: Path) -> None:
    told = learned(out, RUNS)
    assert exact_rows(out) == {
        "cold": {"cold": Fraction(1, 5), "warming": 3 * Fraction(1, 5),
                 "END": Fraction(1, 5)},
        "dry": {"dry": Fraction(1, 2), "END": Fraction(1, 2)},
        "hot": {"cold": Fraction(1, 4), "hot": Fraction(1, 2), "END": Fraction(1, 4)},
        "warming": {"dry": Fraction(1, 5), "hot": Fraction(2, 5),
                    "warming": Fraction(2, 5)},
        "END": {"END": Fraction(1)},
    }  # fmt: skip
    facts = told["training"]
    assert (facts["traces"], facts["frames"], facts["transitions"]) == (3, 16, 13)
    (entry,) = facts["files"]
    assert entry["name"] == "kettle.states" and len(entry["sha256"]) == 64
    assert told["unvisited"] == []


def test_a_declared_support_smooths_and_absorbs(out: Path) -> None:
    support = GOLDEN / "kettle.support.json"
    told = learned(out, RUNS, "--support", support, "--alpha", "0.5", "--end", "ignore")
    rows = exact_rows(out)
    # (c + alpha) / (n + alpha k): n = 5, k = 3.
    assert rows["warming"] == {
        "dry": Fraction(3, 13), "hot": Fraction(5, 13), "warming": Fraction(5, 13),
    }  # fmt: skip
    assert rows["dry"] == {"dry": Fraction(1)}
    assert "END" not in rows
    assert told["unvisited"] == []


def test_smoothing_is_another_name_for_support(tmp_path: Path) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    learned(first, RUNS, "--support", "all", "--alpha", "1/3")
    learned(second, RUNS, "--smoothing", "all", "--alpha", "1/3")
    assert first.read_bytes() == second.read_bytes()
    assert exact_rows(first)["dry"]["hot"] == THIRD / (1 + 4 * THIRD + 1 + THIRD)


def test_unvisited_row_is_reported(tmp_path: Path, out: Path) -> None:
    support = tmp_path / "S.json"
    support.write_text('{"a": ["a", "b"], "b": ["a", "b"], "c": ["a"]}')
    runs = tmp_path / "runs"
    runs.write_text("a a b\n")
    told = learned(out, runs, "--support", support)
    assert told["unvisited"] == ["c"]
    done = forewarn("learn", runs, "--support", support, "--out", out)
    assert (
        "no trace leaves these states, so all their successors are assumed equally "
        "likely: c" in done.output
    )


def test_unvisited_row_is_described_by_its_predicates(
    tmp_path: Path, out: Path
) -> None:
    abstraction, runs = tmp_path / "a.yaml", tmp_path / "runs"
    abstraction.write_text(
        "format: forewarn.abstraction/1\nname: near\nvocabulary: driving\n"
        "predicates: [lead_distance < 5 m, braking]\n"
    )
    runs.write_text("00 00 01\n")
    by = ("--format", "states", "--abstraction", abstraction, "--support", "valid")
    done = forewarn("learn", runs, *by, "--end", "ignore", "--out", out)
    assert done.exit_code == 0, done.output
    (said,) = (line for line in done.output.splitlines() if "no trace leaves" in line)
    told = "braking; lead_distance < 5 m; lead_distance < 5 m and braking"
    why = "no trace leaves these states, so all their successors are assumed equally"
    assert said == f"{why} likely: {told}"


# going on


def test_an_update_adds_to_what_was_learned(tmp_path: Path, out: Path) -> None:
    lines = RUNS.read_text().splitlines()[1:]
    parts = [tmp_path / f"{i}.txt" for i in range(3)]
    for part, line in zip(parts, lines, strict=True):
        part.write_text(line + "\n")
    options = ["--alpha", "0.25", "--support", "all"]
    learned(out, parts[0], *options)
    told = learned(out, *parts[1:], "--update", out)
    assert told["training"]["traces"] == 3 and len(told["training"]["files"]) == 3
    whole = tmp_path / "whole.json"
    learned(whole, RUNS, *options)
    assert exact_rows(out) == exact_rows(whole)
    assert load_model(out).alpha == Fraction(1, 4)


def test_a_folder_stands_for_the_traces_in_it(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    done = forewarn("learn", folder, "--out", out)
    assert done.exit_code == 2 and "contains no traces" in done.stderr
    (folder / "words.vocabulary.yaml").write_text("name: words\n")
    done = forewarn("learn", folder, "--out", out)
    assert done.exit_code == 2 and "contains no traces" in done.stderr
    for name in ("b.txt", "a.txt", ".hidden"):
        (folder / name).write_text(f"{name} x\n")
    files = learned(out, folder)["training"]["files"]
    assert [entry["name"] for entry in files] == ["a.txt", "b.txt"]


def test_trace_that_is_counted_twice_is_reported(out: Path) -> None:
    learned(out, RUNS)
    told = learned(out, RUNS, "--update", out)
    assert any("counted more than once" in warning for warning in told["warnings"])


def test_a_published_chain_cannot_be_updated(out: Path) -> None:
    done = forewarn("learn", RUNS, "--update", GOLDEN / "kettle.json", "--out", out)
    assert done.exit_code == 2 and "no transition counts" in done.output


# traces of frames


def test_a_trace_by_an_abstraction(
    tmp_path: Path, out: Path, abstraction: Path
) -> None:
    told = learned(
        out, trace(tmp_path / "t.jsonl", SPEEDS), "--abstraction", abstraction
    )
    rows = exact_rows(out)
    assert rows["10"] == {"10": THIRD, "01": 2 * THIRD}
    assert rows["01"] == dict.fromkeys(["01", "10", "END"], THIRD)
    model = load_model(out)
    assert model.period_s == 0.1
    assert model.abstraction is not None
    assert model.abstraction["predicates"] == ["speed < 5", "speed > 10"]
    assert told["training"]["frames"] == 6


def test_the_valid_support_is_the_abstraction_s(
    tmp_path: Path, out: Path, abstraction: Path
) -> None:
    path = trace(tmp_path / "t.jsonl", SPEEDS)
    told = learned(out, path, "--abstraction", abstraction, "--support", "valid",
                   "--alpha", "1", "--end", "ignore")  # fmt: skip
    rows = exact_rows(out)
    assert set(rows) == {"00", "10", "01"}  # never both: that would be 11
    assert rows["01"] == {"00": Fraction(1, 5), "01": Fraction(2, 5),
                          "10": Fraction(2, 5)}  # fmt: skip
    assert rows["00"] == dict.fromkeys(rows, THIRD) and told["unvisited"] == ["00"]


def test_predicates_come_from_a_law(tmp_path: Path, out: Path) -> None:
    law = "always(speed > 10 -> eventually[0, 0.2 s] speed < 5)"
    told = learned(out, trace(tmp_path / "t.jsonl", [*SPEEDS, 20, 20]), "--law", law)
    model = load_model(out)
    assert model.abstraction is not None
    assert model.abstraction["predicates"] == ["speed > 10", "speed < 5"]
    assert model.laws == ("always (speed > 10 -> eventually[0, 0.2 s] speed < 5)",)
    assert told["training"]["violations"] == {model.laws[0]: {"10": 1}}


def test_a_slower_abstraction_latches(tmp_path: Path, out: Path) -> None:
    law = "always(speed > 10 -> eventually[0, 1 s] speed < 5)"
    path = trace(tmp_path / "t.jsonl", [0, 0, 20, 0, 0], period=0.5)
    learned(out, path, "--law", law, "--period", "1")
    model = load_model(out)
    # In the second tick speed was high and low again: both atoms held in it.
    assert model.period_s == 1 and set(model.chain.states) == {"01", "11", "END"}


def test_guarded_and_unguarded_runs_are_mixed_only_on_request(
    tmp_path: Path, out: Path, abstraction: Path
) -> None:
    free = trace(tmp_path / "free.jsonl", SPEEDS)
    held = trace(tmp_path / "held.jsonl", SPEEDS[::-1], guarded=True)
    options = ["--abstraction", abstraction, "--out", out]
    done = forewarn("learn", free, held, *options)
    assert done.exit_code == 2 and not out.exists()
    assert "held.jsonl comes from a guarded run, but free.jsonl does not" in done.output
    assert forewarn("learn", free, held, *options, "--mix-guarded").exit_code == 0
    assert forewarn("learn", held, *options).exit_code == 0
    assert forewarn("learn", free, "--update", out, "--out", out).exit_code == 2


def test_traces_with_different_periods_are_reported(
    tmp_path: Path, out: Path, abstraction: Path
) -> None:
    paths = [trace(tmp_path / f"{p}.jsonl", SPEEDS, period=p) for p in (0.1, 0.2)]
    told = learned(out, *paths, "--abstraction", abstraction)
    assert any("different periods" in warning for warning in told["warnings"])
    assert load_model(out).period_s is None


# what is refused


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([RUNS, "--alpha", "much"], "--alpha: 'much' is not a number"),
        ([RUNS, "--alpha", "-1"], "alpha is -1, but must not be"),
        ([RUNS, "--support", "valid"], "--support valid needs --abstraction"),
        ([RUNS, "--support", "none.json"], "none.json: no such file"),
        ([RUNS, "--format", "trace"], "predicates (choose predicates with --scenario"),
        ([RUNS, "--law", "always("], "column"),
        ([RUNS, "--law", "51_55"], "the law book has no law '51_55'"),
        (
            [RUNS, "--law", "a := always speed < 9", "--law", "a := always speed < 8"],
            "two laws have the name a",
        ),
        (["none.txt"], "none.txt: no such file"),
        ([GOLDEN / "kettle.csv", "--format", "states"], "states with spaces"),
        ([GOLDEN / "kettle.umb", "--format", "states"], "this is not a text file"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_status_two(
    out: Path, arguments: list[object], said: str
) -> None:
    done = forewarn("learn", *arguments, "--out", out)
    assert done.exit_code == 2
    assert said in done.stderr and done.stderr.count("\n") == 1
    assert not out.exists()


def test_an_empty_file_and_a_cut_off_trace(tmp_path: Path, out: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n# nothing\n")
    done = forewarn("learn", empty, "--out", out)
    assert (
        done.exit_code == 2 and "the file contains no sequence of states" in done.stderr
    )
    path = trace(tmp_path / "t.jsonl", SPEEDS)
    path.write_text(path.read_text()[:-30])
    done = forewarn("learn", path, "--law", "always speed < 90", "--out", out)
    assert done.exit_code == 2
    assert "t.jsonl: line 7: the line is truncated" in done.stderr


def test_a_signal_that_is_not_provided(tmp_path: Path, out: Path) -> None:
    path = trace(tmp_path / "t.jsonl", SPEEDS)
    done = forewarn("learn", path, "--law", "always not collision", "--out", out)
    assert done.exit_code == 2
    assert "t.jsonl: the trace does not provide collision" in done.stderr


def test_error_in_sequences_names_their_file(tmp_path: Path, out: Path) -> None:
    states = tmp_path / "s.states"
    states.write_text("a END b\n")
    done = CliRunner().invoke(main, ["learn", str(states), "--out", str(out)])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"forewarn: {states}: a state is named END")
    assert not out.exists()


def test_names_that_are_no_states_of_the_abstraction(
    out: Path, abstraction: Path
) -> None:
    done = forewarn("learn", RUNS, "--abstraction", abstraction, "--out", out)
    assert (
        done.exit_code == 2
        and "is not the name of a state with 2 predicates" in done.stderr
    )
