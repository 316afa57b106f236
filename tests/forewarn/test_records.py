"""`forewarn verify` and `forewarn replay` on records that a run wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main
from forewarn.monitors.guarding.record import line_hash
from tests.scenarios import learned


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    said = learned.forewarn(
        *("run", "tiny-kitchen", "--model", learned.model("tiny-kitchen")),
        *("--seed", "1003", "--out", out, "--json"),
    )
    return Path(json.loads(said)["episodes"][0]["record"])


def ask(command: str, path: Path, *more: str) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(main, [command, str(path), *more, "--json"])
    return done.exit_code, json.loads(done.stdout)


def damaged(record: Path, folder: Path, data: bytes) -> Path:
    """The record with other bytes, and the model beside it."""
    path = folder / record.name
    path.write_bytes(data)
    for model in record.parent.glob("model-*.json"):
        shutil.copy(model, folder)
    return path


def test_intact_record_verifies_and_replays(record: Path) -> None:
    status, found = ask("verify", record)
    last = json.loads(record.read_text().splitlines()[-1])
    assert (status, found["whole"], found["head"]) == (0, True, last["hash"])
    status, found = ask("replay", record)
    assert (status, found["divergence"]) == (0, None)
    assert found["decisions"] > 5
    assert f"head {last['hash']}" in learned.forewarn("verify", record)
    assert "all as recorded" in learned.forewarn("replay", record)


def test_a_flipped_byte_anywhere_is_found_in_its_line(
    record: Path, tmp_path: Path
) -> None:
    data = record.read_bytes()
    step = max(1, len(data) // 150)
    for at in range(0, len(data), step):
        changed = bytearray(data)
        changed[at] ^= 1
        path = damaged(record, tmp_path, bytes(changed))
        status, found = ask("verify", path)
        assert (status, found["whole"]) == (1, False), at
        line = data[:at].count(b"\n") + 1
        # A newline that is gone, or that came, shows in this line or the next.
        assert found["place"] in (f"line {line}", f"line {line + 1}"), at
        assert found["verified_lines"] in (line - 1, line)


def test_truncated_record_is_verified_up_to_the_cut(
    record: Path, tmp_path: Path
) -> None:
    data = record.read_bytes()
    for at in range(len(data) - 1, 0, -max(1, len(data) // 60)):
        path = damaged(record, tmp_path, data[:at])
        status, found = ask("verify", path)
        assert (status, found["whole"]) == (1, False)
        assert "truncated" in found["problem"]
        assert found["verified_lines"] == data[:at].count(b"\n")
        done: Result = CliRunner().invoke(main, ["replay", str(path)])
        assert done.exit_code == 2 and done.stdout == ""
        if found["verified_lines"]:
            assert "are identical" in done.stderr


def test_lines_that_change_places_are_found(record: Path, tmp_path: Path) -> None:
    lines = record.read_bytes().splitlines(keepends=True)
    lines[3], lines[4] = lines[4], lines[3]
    status, found = ask("verify", damaged(record, tmp_path, b"".join(lines)))
    assert (status, found["place"]) == (1, "line 4")
    assert (
        found["problem"] == "this line does not contain the hash of the line before it"
    )


def rechained(lines: list[str], number: int, old: str, new: str) -> bytes:
    """The record with a line changed by someone who also mends every hash."""
    head, out = "0" * 64, []
    for i, line in enumerate(lines):
        if i == number:
            assert old in line
            line = line.replace(old, new, 1)
        if i:
            content = json.loads(line)
            line = line.replace(
                f'"previous":"{content["previous"]}"', f'"previous":"{head}"'
            )
        body, _, tail = line.partition(',"hash":"')
        head = line_hash(
            "0" * 64 if not i else json.loads(line)["previous"], body + "}"
        )
        out.append(f'{body},"hash":"{head}{tail[64:]}\n')
    return "".join(out).encode()


def test_a_decision_that_differs_is_named_with_its_field(
    record: Path, tmp_path: Path
) -> None:
    lines = record.read_text().splitlines()
    number = next(i for i, line in enumerate(lines) if '"decision":"proceed"' in line)
    data = rechained(lines, number, '"decision":"proceed"', '"decision":"alert"')
    path = damaged(record, tmp_path, data)
    assert ask("verify", path)[0] == 0
    status, found = ask("replay", path)
    assert status == 1
    divergence = found["divergence"]
    assert (divergence["line"], divergence["field"]) == (number + 1, "decision")
    assert (divergence["recorded"], divergence["replayed"]) == ("alert", "proceed")
    done = CliRunner().invoke(main, ["replay", str(path)])
    assert "decision was 'alert' and is now 'proceed'" in done.stdout


def test_without_its_model_a_record_says_which_it_needs(
    record: Path, tmp_path: Path
) -> None:
    path = tmp_path / record.name
    shutil.copy(record, path)
    done = CliRunner().invoke(main, ["replay", str(path)])
    assert done.exit_code == 2 and "model-" in done.stderr
    status, found = ask("replay", path, "--model", str(learned.model("tiny-kitchen")))
    assert (status, found["divergence"]) == (0, None)
    other = str(learned.model("tiny-road"))
    done = CliRunner().invoke(main, ["replay", str(path), "--model", other])
    assert done.exit_code == 2
    assert "the record was made with a different model" in done.stderr


@pytest.mark.parametrize("command", ["verify", "replay"])
def test_invalid_record_is_reported_as_such(command: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"format": "forewarn.trace/1"}\n')
    done = CliRunner().invoke(main, [command, str(path)])
    assert done.exit_code in (1, 2)
    assert "forewarn.trace, but a run record is needed" in done.output
