"""`forewarn import` and `forewarn export`: any format in, other tools' formats out."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats.files import write_chain
from forewarn.monitors.chains.model import load_model

GOLDEN = Path(__file__).parents[1] / "golden" / "chains"


def forewarn(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def told(*arguments: object) -> dict[str, Any]:
    done = forewarn(*arguments, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# import


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("kettle.prism", marks=pytest.mark.needs("stormpy")),
        pytest.param("kettle.drn", marks=pytest.mark.needs("stormpy")),
        "kettle.tra",
        "kettle.json",
        pytest.param("kettle.umb", marks=pytest.mark.needs("stormpy")),
    ],
)
def test_every_format_becomes_the_same_model(name: str, tmp_path: Path) -> None:
    found = told("import", GOLDEN / name, "--out", tmp_path / "M.json")
    assert (found["states"], found["transitions"], found["exact"]) == (4, 8, True)
    assert found["labels"] == {"hot": 1, "dry": 1}
    assert (tmp_path / "M.json").read_bytes() == (GOLDEN / "kettle.json").read_bytes()


SYSTEM = {"#states": 1, "#branches": 1, "time": "discrete", "#players": 0}


@pytest.mark.parametrize(
    "index",
    [
        {},
        {"transition-system": 5},
        {"transition-system": {**SYSTEM, "#states": -1}},
        {"transition-system": {**SYSTEM, "#states": True}},
        {"transition-system": {**SYSTEM, "time": ["discrete"]}},
        {"transition-system": SYSTEM, "annotations": 5},
        {"transition-system": SYSTEM, "annotations": {"aps": [1]}},
        {"transition-system": SYSTEM, "valuations": {"states": {"classes": 1}}},
        {"transition-system": SYSTEM, "model-data": {"name": {"a": 1}}},
    ],
)
@pytest.mark.needs("stormpy")
def test_a_umb_file_that_says_nonsense_is_bad_input(
    index: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "m.umb"
    with tarfile.open(GOLDEN / "kettle.umb") as packed:
        files = {m.name: packed.extractfile(m).read() for m in packed}  # type: ignore[union-attr]
    for others in ({}, files):
        with tarfile.open(path, "w:gz") as out:
            for name, content in (others | {"index.json": json.dumps(index)}).items():
                data = content.encode() if isinstance(content, str) else content
                member = tarfile.TarInfo(name)
                member.size = len(data)
                out.addfile(member, io.BytesIO(data))
        done = forewarn("import", path, "--out", tmp_path / "M.json")
        assert done.exit_code == 2, done.output
        assert done.stderr.count("\n") == 1 and str(path) in done.stderr


def test_no_cell_is_a_formula_to_a_spreadsheet(tmp_path: Path) -> None:
    names = ["=HYPERLINK(1)", "+1+1", "-2", "@SUM"]
    chain = Chain.from_rows(names, {0: {1: 1.0}, 1: {2: 1.0}, 2: {3: 1.0}})
    write_chain(chain, "csv", tmp_path / "chain.csv")
    with (tmp_path / "chain.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    cells = {cell for row in rows for cell in row[:2]}
    assert cells == {f"'{name}" for name in names}


def test_deadlocks_are_reported_and_kept(tmp_path: Path) -> None:
    source, out = tmp_path / "m.prism", tmp_path / "M.json"
    source.write_text("dtmc module m s:[0..1]; [] s=0 -> (s'=1); endmodule")
    (warning,) = told("import", source, "--out", out)["warnings"]
    assert "no row" in warning and load_model(out).chain.deadlocks == (1,)
    done = forewarn("import", source, "--out", out)
    assert f"warning: {warning}" in done.output


def test_failed_import_keeps_the_old_file(tmp_path: Path) -> None:
    source, out = tmp_path / "m.prism", tmp_path / "M.json"
    source.write_text("dtmc module m s:[0..1]; [] s=0 -> 0.9:(s'=1); endmodule")
    out.write_text("kept")
    done = forewarn("import", source, "--out", out)
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert "m.prism: the row of state '0' sums to 0.9" in done.stderr
    assert out.read_text() == "kept" and len(list(tmp_path.iterdir())) == 2


# export


@pytest.mark.parametrize("kind", ["prism", "drn", "csv"])
def test_text_goes_to_standard_output(kind: str) -> None:
    kept = (GOLDEN / f"kettle.{kind}").read_text()
    done = forewarn("export", GOLDEN / "kettle.json", "--format", kind)
    assert done.exit_code == 0 and done.stdout == kept
    assert told("export", GOLDEN / "kettle.json", "--format", kind)["text"] == kept


@pytest.mark.parametrize(
    "kind", ["prism", pytest.param("umb", marks=pytest.mark.needs("stormpy"))]
)
def test_files_are_written(kind: str, tmp_path: Path) -> None:
    out = tmp_path / f"m.{kind}"
    found = told("export", GOLDEN / "kettle.json", "--format", kind, "--out", out)
    assert found["files"] == [str(out)]
    chain, wanted = load_model(out).chain, load_model(GOLDEN / "kettle.json").chain
    assert (chain.dense() == wanted.dense()).all()
    assert chain.exact == (wanted.exact if kind == "prism" else None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "umb"], "--format umb requires --out"),
        (["--format", "jani"], "jani"),
    ],
)
def test_bad_input_is_one_line_and_status_two(arguments: list[str], said: str) -> None:
    done = forewarn("export", GOLDEN / "kettle.json", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr and done.stderr.count("\n") == 1
