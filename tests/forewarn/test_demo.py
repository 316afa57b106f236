"""`forewarn demo` goes the whole way, and what it writes can be used further."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.cli import main
from forewarn.cli.printing import say
from forewarn.monitors.chains.model import load_model
from forewarn.scenarios.demo import tour
from forewarn.scenarios.demo.tour import Leg
from forewarn.scenarios.measuring.seeds import trained_seeds
from forewarn.scenarios.report.runs import read_run
from forewarn.scenarios.schema import load_scenario
from forewarn.scenarios.shipped import shipped_with
from tests.shown import ROOT, assert_shown, outputs

README = ROOT / "README.md"


@contextmanager
def hearing() -> Iterator[list[dict[str, Any]]]:
    """What the demo would say as JSON while it speaks to people."""
    told: list[dict[str, Any]] = []

    def heard(payload: Any, lines: Iterable[str]) -> None:
        told.append(json.loads(json.dumps(payload, allow_nan=False)))
        say(payload, lines)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forewarn.cli.demo.say", heard)
        yield told


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A demo of a few runs, where SUMO is missing: its folder, and what it printed."""
    out = tmp_path_factory.mktemp("demo")
    legs = [
        Leg("tiny-road", "stop", range(150), range(5000, 5030)),
        Leg("fork-in-microwave", "reflect", range(120), range(5000, 5015)),
    ]
    with pytest.MonkeyPatch.context() as patch, hearing() as told:
        patch.setattr("forewarn.cli.demo.find_spec", lambda name: None)
        patch.setattr(tour, "WITHOUT_SUMO", legs[:1])
        patch.setattr(tour, "HOUSEHOLD", legs[1:])
        done = CliRunner().invoke(main, ["demo", "--out", str(out), "--jobs", "1"])
        assert done.exit_code == 0, done.output
    (out / "told.json").write_text(json.dumps(told[0]))
    return out, done.stdout


def told(small: tuple[Path, str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((small[0] / "told.json").read_text())
    return found


def test_demo_names_what_is_missing_and_ends_with_a_summary(
    small: tuple[Path, str],
) -> None:
    out, said = small
    assert said.startswith("SUMO is not installed")
    assert "pip install 'forewarn[sumo]'" in said
    lines = said.strip().splitlines()
    assert lines[-1] == f"Watch the runs in a browser: {out / 'report.html'}"
    start = lines.index("In short")
    assert [line[:3] for line in lines[start + 2 : start + 4]] == ["1. ", "2. "]
    assert lines[start + 2][3:] == told(small)["sentences"][0]


def test_demo_measures_held_out_runs_only(
    small: tuple[Path, str],
) -> None:
    for leg in told(small)["legs"]:
        first, last = leg["training_seeds"]
        assert last < leg["held_out_seeds"][0]
        model = load_model(small[0] / leg["scenario"] / f"{leg['scenario']}.model.json")
        assert trained_seeds(model, leg["scenario"]) == set(range(first, last + 1))


def test_demo_warnings_come_in_time_and_the_guard_reduces_violations(
    small: tuple[Path, str],
) -> None:
    road, kitchen = told(small)["legs"]
    for leg in (road, kitchen):
        law = max(leg["laws"], key=lambda row: row["violating"])
        assert law["detected"] > law["violating"] / 2
        assert law["false_alarms"] < law["clean"] / 2
        (guarded,) = (g for g in leg["guarded"]["laws"] if g["law"] == law["law"])
        assert guarded["violating_guarded"] < guarded["violating_unguarded"]


def test_one_seed_is_shown_without_and_with_the_guard(small: tuple[Path, str]) -> None:
    for leg in told(small)["legs"]:
        without, acting = (read_run(Path(record)) for record in leg["records"])
        assert without.seed == acting.seed == leg["shown_seed"]
        assert (without.mode, acting.mode) == ("shadow", "guarded")
        assert any(law.broken for law in without.laws)


def test_demo_report_shows_runs_with_and_without_the_guard(
    small: tuple[Path, str],
) -> None:
    out, _ = small
    text = (out / "report.html").read_text()
    assert text.count('class="run"') == 2, "each without the guard and with it"
    assert text.count('class="side">Without the guard') == 2
    assert text.index("Without the guard") < text.index(told(small)["sentences"][0])
    for sentence in told(small)["sentences"]:
        assert sentence in text
    assert "These results say nothing about an LLM" in text


def test_demo_seeds_differ_from_those_of_shipped_models() -> None:
    for leg in (*tour.DRIVING, *tour.WITHOUT_SUMO, *tour.HOUSEHOLD):
        assert not set(leg.training) & set(leg.held_out)
        files = shipped_with(load_scenario(leg.scenario))
        if files is not None:
            trained = trained_seeds(load_model(files.model), leg.scenario)
            assert not trained & {*leg.training, *leg.held_out}


@pytest.mark.slow
@pytest.mark.needs("libsumo")
def test_the_whole_demo_on_sumo(tmp_path: Path) -> None:
    with hearing() as told:
        done = CliRunner().invoke(main, ["demo", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    (found,) = told
    assert [leg["scenario"] for leg in found["legs"]] == [
        "s1", "s3", "fork-in-microwave",
    ]  # fmt: skip
    assert found["missing"] == [] and len(found["sentences"]) == 3
    for leg in found["legs"]:
        law = max(leg["laws"], key=lambda row: row["violating"])
        assert law["violating"] >= 5
        assert law["detected"] >= 0.8 * law["violating"]
        (guarded,) = leg["guarded"]["laws"]
        assert guarded["cut"] >= 0.5
    readme = " ".join(README.read_text(encoding="utf-8").split())
    for sentence in found["sentences"]:
        assert sentence in readme, "the README shows what the demo prints"
    (shown,) = outputs(README)
    assert_shown(shown.replace("out/demo", str(tmp_path)), done.stdout)
    size = (tmp_path / "report.html").stat().st_size
    assert size < 2_000_000 * 6, "below 2 MB a run"
