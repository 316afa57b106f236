"""A run for other tools: MCAP as its own reader reads it, and CSV."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.cli import main
from forewarn.scenarios.report.runs import read_run
from forewarn.scenarios.running.scenery import read_scene, scene_file
from tests.scenarios import learned
from tests.scenarios.learned import forewarn


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    forewarn(
        "run", "tiny-road", "--model", learned.model("tiny-road"), "--shadow",
        "--seed", "9004", "--out", folder,
    )  # fmt: skip
    (found,) = folder.glob("*.run.jsonl")
    return found


def read_back(path: Path) -> tuple[dict[str, str], dict[str, list[tuple[float, Any]]]]:
    """The schema of each topic, and its messages with their times."""
    from mcap.reader import make_reader

    schemas: dict[str, str] = {}
    found: dict[str, list[tuple[float, Any]]] = {}
    with path.open("rb") as file:
        for schema, channel, message in make_reader(file).iter_messages():
            assert schema is not None and schema.encoding == "jsonschema"
            assert json.loads(schema.data)["type"] == "object"
            assert channel.message_encoding == "json"
            schemas[channel.topic] = schema.name
            content = json.loads(message.data)
            found.setdefault(channel.topic, []).append(
                (message.log_time / 1e9, content)
            )
    return schemas, found


@pytest.mark.needs("mcap")
def test_mcap_is_read_back(record: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.mcap"
    told = json.loads(
        forewarn("export", record, "--format", "mcap", "--out", out, "--json")
    )
    run = read_run(record)
    schemas, found = read_back(out)
    assert {topic: len(each) for topic, each in found.items()} == told["topics"]
    assert schemas["/scene"] == "foxglove.SceneUpdate"
    assert schemas["/tf"] == "foxglove.FrameTransform"
    assert schemas["/events"] == "foxglove.Log"
    assert [time_s for time_s, _ in found["/signals"]] == pytest.approx(run.times_s)
    assert [c["speed"] for _, c in found["/signals"]] == list(run.signals["speed"])
    for law in run.laws:
        said = [content for _, content in found[f"/risk/{law.name}"]]
        assert [c["risk"] for c in said] == [r and r.point for r in law.risks]
        assert [c["pending"] for c in said] == [left is not None for left in law.left_s]
    assert [c["decision"] for _, c in found["/decision"]] == list(run.decisions)
    assert [c["message"] for _, c in found["/events"]] == [e.text for e in run.events]


@pytest.mark.needs("mcap")
def test_the_scene_in_it_is_that_of_the_run(record: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.mcap"
    forewarn("export", record, "--format", "mcap", "--out", out)
    _, found = read_back(out)
    scenery = read_scene(scene_file(record), "tiny-road", 9004)
    assert len(found["/scene"]) == len(scenery.moments)
    for (_, content), moment in zip(found["/scene"], scenery.moments, strict=True):
        assert [each["id"] for each in content["entities"]] == list(moment.things)
        assert content["deletions"][0]["type"] == 1, "all that was there before"
    _, first = found["/tf"][0]
    ego = scenery.moments[0].things["ego"]
    assert first["translation"]["x"] == ego.x
    # It drives east: no turn in Foxglove's terms.
    assert first["rotation"]["w"] == pytest.approx(1.0)


@pytest.mark.needs("mcap")
def test_the_same_run_gives_the_same_bytes(record: Path, tmp_path: Path) -> None:
    outs = [tmp_path / "a.mcap", tmp_path / "b.mcap"]
    for out in outs:
        forewarn("export", record, "--format", "mcap", "--out", out)
    assert outs[0].read_bytes() == outs[1].read_bytes()


def test_csv_has_a_row_a_frame(record: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.csv"
    forewarn("export", record, "--format", "csv", "--out", out)
    run = read_run(record)
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["time_s"]) for row in rows] == list(run.times_s)
    assert [float(row["speed"]) for row in rows] == list(run.signals["speed"])
    law = run.laws[0]
    risks = [row[f"{law.name}: risk"] for row in rows]
    assert [r and float(r) for r in risks] == [r and r.point for r in law.risks]
    assert {row["collision"] for row in rows} <= {"true", "false"}


def test_what_looks_like_a_formula_is_text() -> None:
    from forewarn.scenarios.export import _cell

    assert _cell("=HYPERLINK(1)") == "'=HYPERLINK(1)"
    assert _cell(-1.5) == -1.5 and _cell("red") == "red" and _cell(None) is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--format", "prism"], "--format prism applies only to models"),
        (["--format", "csv", "--law", "no_collision"], "no such option '--law'"),
    ],
)
def test_what_only_models_have_is_refused(
    record: Path, arguments: list[str], problem: str
) -> None:
    done = CliRunner().invoke(main, ["export", str(record), *arguments])
    assert done.exit_code == 2 and problem in done.stderr


def test_a_model_is_no_run() -> None:
    model = str(learned.model("tiny-road"))
    done = CliRunner().invoke(main, ["export", model, "--format", "mcap"])
    assert (
        done.exit_code == 2
        and "--format mcap applies only to run records" in done.stderr
    )
