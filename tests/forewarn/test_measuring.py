"""`forewarn measure` with everything: baselines, trade-off, CSV, the paper's table."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forewarn.cli import main
from forewarn.cli.measured import write_csv
from forewarn.monitors.evaluation.warned import Warned
from forewarn.scenarios.measuring.measure import Measurement
from tests.scenarios import learned

pytestmark = pytest.mark.needs("sklearn")

BASELINES = ("reactive", "ttc", "rss", "released", "logistic")


def measure(*options: str | Path) -> Result:
    arguments = [
        "measure", "tiny-road", "--model", learned.model("tiny-road"), "--seed", "6000",
        "--episodes", "40", "--no-guarded", *options,
    ]  # fmt: skip
    done = CliRunner().invoke(main, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("table") / "table.csv"


@pytest.fixture(scope="module")
def facts(table: Path) -> dict[str, Any]:
    named = [f"--baseline={name}" for name in BASELINES]
    done = measure(
        "--thresholds", "0.3,0.5", "--sweep", "--paper-table", "--csv", table,
        "--training", learned.traces("tiny-road"), "--json", *named,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_every_baseline_is_in_the_table(facts: dict[str, Any]) -> None:
    names = {*BASELINES, "paper", "redriver"}
    assert set(facts["baselines"]) == names
    assert set(facts["trade_off"]) == {"guard", *names}
    for name in names:
        judged = facts["baselines"][name]
        laws = {row["law"] for row in judged["laws"]} | set(judged["skipped"])
        assert laws == {"stop_at_red", "no_collision"}
        for row in judged["laws"]:
            assert row["violating"] + row["clean"] == 40
    assert "other road users" in facts["baselines"]["ttc"]["skipped"]["stop_at_red"]


@pytest.mark.slow
def test_baselines_detect_a_minimum_of_violations(facts: dict[str, Any]) -> None:
    """Each sees something coming, and the papers' recipes hardly anything."""
    best = {
        way: max(
            (p["detection_rate"] for p in laws["no_collision"]
             if p["false_alarm_rate"] <= 0.1), default=0.0,
        )
        for way, laws in facts["trade_off"].items()
    }  # fmt: skip
    assert best["guard"] >= 0.8
    for way in ("reactive", "ttc", "rss", "redriver", "logistic"):
        assert best[way] >= 0.3, way
    assert best["paper"] == best["released"] == 0.0


@pytest.mark.slow
def test_the_table_of_the_paper_has_its_columns(facts: dict[str, Any]) -> None:
    cells = facts["paper_table"]
    thresholds = {cell["threshold"] for cell in cells if cell["way"] == "paper"}
    assert thresholds == {"P_safe < 0.3", "P_safe < 0.5", "P_safe < 0.7"}
    assert {cell["threshold"] for cell in cells if cell["way"] == "redriver"} == {
        "robustness < 0.4", "robustness < 0.8", "robustness < 1.2",
    }  # fmt: skip
    assert len(cells) == 2 * 9


@pytest.mark.slow
def test_the_csv_says_what_the_json_says(facts: dict[str, Any], table: Path) -> None:
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [("guard", row) for row in facts["laws"]]
    for name, judged in facts["baselines"].items():
        expected += [(name, row) for row in judged["laws"]]
    assert len(rows) == len(expected)
    for written, (way, row) in zip(rows, expected, strict=True):
        assert (written["scenario"], written["by"]) == ("tiny-road", way)
        assert written["law"] == row["law"]
        assert float(written["threshold"]) == row["threshold"]
        assert int(written["detected"]) == row["detected"]
        mean = row["awt_trigger_s"]["mean"]
        assert written["awt_trigger_s_mean"] == ("" if mean is None else str(mean))
        low, _ = row["intervals"]["base_rate"]
        assert float(written["intervals_base_rate_low"]) == low


def test_no_cell_of_a_table_is_a_formula(tmp_path: Path) -> None:
    rows = {name: ((f"{name}1", 0.5, Warned(())),) for name in ("=", "+", "-", "@")}
    found = Measurement("=HYPERLINK(1)", 3.0, (), (), rows, {})
    write_csv(tmp_path / "table.csv", found)
    with (tmp_path / "table.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [(row["by"], row["law"]) for row in written] == [
        (f"'{name}", f"'{name}1") for name in rows
    ]
    assert {row["scenario"] for row in written} == {"'=HYPERLINK(1)"}


@pytest.mark.slow
def test_without_their_traces_training_runs_are_run_once_more() -> None:
    few = ("--thresholds", "0.5", "--sweep", "--episodes", "20")
    found = measure("--baseline", "logistic", *few)
    assert "logistic  no_collision" in found.stdout
    assert "Best detection rate at a false-alarm rate of at most 0.1" in found.stdout
    assert "always predicting the base rate scores" in found.stdout


def test_the_papers_table_is_printed_with_what_it_omits() -> None:
    traces = learned.traces("tiny-road")
    few = ("--episodes", "10", "--thresholds", "0.5", "--training", traces)
    told = measure("--paper-table", *few).stdout
    after = told[told.index("The paper's Table 1") :]
    assert "P_safe < 0.3" in after and "robustness < 1.2" in after
    assert (
        "of the clean runs had an alarm"
        in after[after.index("Figures that this table omits:") :]
    )


def test_unknown_baseline_is_reported() -> None:
    arguments = ["measure", "tiny-road", "--model", str(learned.model("tiny-road"))]
    done = CliRunner().invoke(main, [*arguments, "--baseline", "redrivr"])
    assert done.exit_code == 2 and "redriver" in done.stderr
