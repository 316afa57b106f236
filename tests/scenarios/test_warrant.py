"""A warrant: what is guaranteed, on which runs, and that nothing is half-written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.cli import main
from forewarn.monitors.guarding.certificate import (
    Certificate,
    InvalidCertificate,
    load_certificate,
)
from forewarn.plugins.loop.guarding import Guarding
from forewarn.scenarios.warrant.page import render
from forewarn.scenarios.warrant.runs import Facts, deal, once
from tests.scenarios import learned, warranted


def warrant(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["warrant", *(str(each) for each in arguments)])


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return load_certificate(warranted.guard())


def test_output_gives_the_guarantee_and_its_runs(certificate: Certificate) -> None:
    alarms, missed = certificate.guarantees
    assert (alarms.rate, alarms.most, alarms.law) == ("false_alarms", 0.05, "gentle")
    assert alarms.bound <= 0.05 and missed.bound <= missed.most == 0.3
    used = certificate.runs
    assert alarms.runs + missed.runs == len(used["certificate"])
    assert sum(map(len, used.values())) == 320
    (rate,) = certificate.base_rates
    assert rate.violating == missed.runs and rate.runs == len(used["certificate"])


def test_no_driver_lies_in_two_parts(certificate: Certificate) -> None:
    numbers = [
        {int(name.split("-")[1].split(".")[0]) % 8 for name in runs}
        for runs in certificate.runs.values()
    ]
    assert all(numbers)
    assert sum(map(len, numbers)) == len(set().union(*numbers)) == 8


def test_the_shadow_report_has_each_run_that_was_judged_wrongly(
    certificate: Certificate,
) -> None:
    alarms, missed = certificate.guarantees
    whats = [each.what for each in certificate.shadow]
    assert whats.count("wrongly stopped") == alarms.failures
    assert whats.count("wrongly let pass") == missed.failures
    assert len(whats) > 0
    for each in certificate.shadow:
        clip = each.clip
        assert clip.times_s[0] <= each.at_s <= clip.times_s[-1]
        assert len(clip.signals["acceleration"]) == len(clip.times_s)


def test_what_logs_call_their_runs_is_data(certificate: Certificate) -> None:
    page = render(certificate)
    assert "driver &lt;" in page and "driver <" not in page
    assert "<script" not in page
    assert page == (warranted.guard() / "certificate.html").read_text()


def test_it_loads_wherever_a_model_and_a_policy_load() -> None:
    guarding = Guarding.load(warranted.guard())
    (steps,) = guarding.policy.rules.values()
    certificate = load_certificate(warranted.guard())
    assert certificate.covers(guarding.policy)
    assert steps[0].threshold == certificate.laws["gentle"]
    assert [law.name for law in guarding.watch().laws] == ["gentle"]


def test_a_changed_file_loses_the_certificate(tmp_path: Path) -> None:
    guard = tmp_path / "guard"
    guard.mkdir()
    for file in warranted.guard().iterdir():
        (guard / file.name).write_bytes(file.read_bytes())
    policy = guard / "policy.yaml"
    policy.write_text(policy.read_text().replace("hold_s: 2", "hold_s: 3"))
    with pytest.raises(InvalidCertificate, match="policy.yaml was changed"):
        load_certificate(guard)


def test_too_few_runs_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    warranted.write_logs(tmp_path / "logs", 90)
    out = tmp_path / "guard"
    done = warrant(tmp_path / "logs", "--law", warranted.LAW, "--out", out, "--json")
    assert done.exit_code == 1
    payload = json.loads(done.stdout)
    assert payload["granted"] is False and payload["certificate"] is None
    assert {need["rate"] for need in payload["needs"]} == {"false_alarms", "missed"}
    assert all(need["more"] > 0 for need in payload["needs"])
    assert not out.exists() and [each.name for each in tmp_path.iterdir()] == ["logs"]
    told = warrant(tmp_path / "logs", "--law", warranted.LAW, "--out", out)
    assert "more clean runs are needed" in told.stdout


FLEET = """\
format: forewarn.scenario/1
name: fleet
title: Logs
world:
  name: log
  settings:
    files: $here/logs/*.csv
    period_s: 0.5
pilot: {name: log}
laws: ["gentle := always not (acceleration < -4.9)"]
abstraction: near.yaml
end: {max_time_s: 60}
"""


def test_the_guard_watches_logs_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warranted.own_guard(tmp_path)
    (tmp_path / "near.yaml").write_text(warranted.ABSTRACTION)
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "logs").mkdir()
    rows = [("time_s", *warranted.SIGNALS)]
    rows += [(f.time_s, *f.values.values()) for f in warranted.frames(False, False)]
    lines = "".join(",".join(map(str, row)) + "\n" for row in rows)
    (tmp_path / "logs" / "one.csv").write_text(lines)
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "warrants.md").read_text()
    (command,) = re.findall(r"^forewarn (run fleet.yaml .*)$", page, re.M)
    learned.forewarn(*command.split())
    evidence = json.loads((tmp_path / "guard" / "evidence.json").read_text())
    assert evidence["rates"]["gentle: clean runs with an alarm"]["outcomes"] == "0"


def test_it_takes_the_place_of_a_guard_and_of_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    done = warrant(warranted.logs(), "--law", warranted.LAW, "--out", tmp_path)
    assert done.exit_code == 2 and "contains other files" in done.stderr
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_runs_are_added_and_none_that_the_guard_was_learned_from(
    tmp_path: Path, certificate: Certificate
) -> None:
    guard, more = warranted.own_guard(tmp_path), tmp_path / "more"
    (guard / "evidence.json").write_text("{}")
    warranted.write_logs(more, 120, seed=1)
    facts = tmp_path / "facts.csv"
    tables = [(folder / "runs.csv").read_text() for folder in (warranted.logs(), more)]
    facts.write_text(tables[0] + tables[1].partition("\n")[2])
    alone = warrant("renew", guard, more)
    assert alone.exit_code == 2 and "so their driver is unknown" in alone.stderr
    done = warrant("renew", guard, warranted.logs(), more, "--facts", facts)
    assert done.exit_code == 0, done.output
    renewed = load_certificate(guard)
    for part in ("learning", "calibration"):
        assert renewed.runs[part] == certificate.runs[part]
    was, now = (each.runs["certificate"] for each in (certificate, renewed))
    assert was.items() < now.items()
    ours = {int(name[4:9]) % 8 for name in was}
    assert {int(name[4:9]) % 8 for name in now} == ours, "no driver it learned from"
    assert [(g.law, g.rate, g.most) for g in renewed.guarantees] == [
        (g.law, g.rate, g.most) for g in certificate.guarantees
    ]
    assert renewed.guarantees[0].runs > certificate.guarantees[0].runs
    assert not (guard / "evidence.json").exists()
    assert load_certificate(guard).covers(Guarding.load(guard).policy)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--group", "road"], "the road of the run"),
        (["--law", "always wet_road_friction > 1"], "wet_road_friction"),
    ],
)
def test_missing_file_is_named(more: list[str], said: str, tmp_path: Path) -> None:
    law = [] if "--law" in more else ["--law", warranted.LAW]
    done = warrant(warranted.logs(), *law, *more, "--out", tmp_path / "guard")
    assert done.exit_code == 2 and said in done.stderr


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=3, max_size=60),
    st.integers(0, 5),
)
def test_groups_are_dealt_whole_and_each_run_once(groups: list[str], seed: int) -> None:
    parts = deal(groups, [0.4, 0.2], seed)
    assert sorted(number for part in parts for number in part) == list(
        range(len(groups))
    )
    homes = [{groups[number] for number in part} for part in parts]
    assert sum(map(len, homes)) == len(set(groups))
    if len(set(groups)) >= 3:
        assert all(parts)


def test_a_table_with_gaps_is_matched_to_recordings_by_its_order(
    tmp_path: Path,
) -> None:
    table = tmp_path / "runs.csv"
    table.write_text("seed,driver\n7,c\n0,a\n5,b\n")
    facts = Facts.read(table)
    assert facts.of("x", 5)["driver"] == "b"
    ordered = facts.by_order([])
    assert [ordered.of("x", n)["driver"] for n in range(3)] == ["a", "b", "c"]


def test_a_run_that_comes_twice_counts_once() -> None:
    assert once(["a", "b", "a", "c"]) == ([0, 1, 3], [2])
