"""The report's page, as text: what it holds, and what it must never hold."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.record import ORIGIN, BrokenRecord, line_hash
from forewarn.scenarios.report.drawing import trade_off
from forewarn.scenarios.report.film import film, first_alarm
from forewarn.scenarios.report.page import write_report
from forewarn.scenarios.report.runs import RecordedRun, read_run
from forewarn.scenarios.report.sentences import WIDE, bounds, moment_of
from forewarn.scenarios.report.sources import Show, read_sources
from forewarn.scenarios.report.stage import KINDS, SHOWN, Card, kind_of
from forewarn.scenarios.running.scenery import scene_file
from tests.scenarios import learned
from tests.scenarios.learned import forewarn

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign on the tiny road, in shadow mode."""
    folder = tmp_path_factory.mktemp("road")
    forewarn(
        "run", "tiny-road", "--model", learned.model("tiny-road"), "--shadow",
        "--episodes", "40", "--seed", "9000", "--out", folder,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Guarded episodes in the tiny kitchen, which nothing draws."""
    folder = tmp_path_factory.mktemp("kitchen")
    forewarn(
        "run", "tiny-kitchen", "--model", learned.model("tiny-kitchen"),
        "--intervene", "reflect", "--threshold", "0.3",
        "--episodes", "12", "--seed", "9000", "--out", folder,
    )  # fmt: skip
    return folder


def broken_one(folder: Path, broken: bool = True) -> Path:
    """A record in which a law was broken, or none was."""
    for path in sorted(folder.glob("*.run.jsonl")):
        if ('"event":"violated"' in path.read_text()) == broken:
            return path
    raise AssertionError("there is none")


def page(tmp_path: Path, *sources: Path) -> str:
    out = tmp_path / "page.html"
    write_report(sources, out)
    return out.read_text()


def held(text: str) -> dict[str, list[dict[str, Any]]]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert found is not None
    content: dict[str, list[dict[str, Any]]] = json.loads(found[1])
    return content


def films(text: str) -> list[dict[str, Any]]:
    return held(text)["runs"]


def rewritten(
    record: Path, folder: Path, change: Callable[[dict[str, Any]], None]
) -> Path:
    """A copy of a record with other lines, hashed as if they had always been so."""
    out = folder / record.name
    head, lines = ORIGIN, []
    for line in record.read_text().splitlines():
        content = json.loads(line)
        for key in ("hash", "previous"):
            content.pop(key, None)
        change(content)
        if "format" not in content:
            content["previous"] = head
        body = json.dumps(content, separators=(",", ":"))
        head = line_hash(head, body)
        lines.append(f'{body[:-1]},"hash":"{head}"}}\n')
    out.write_text("".join(lines))
    for model in record.parent.glob("model-*.json"):
        (folder / model.name).write_bytes(model.read_bytes())
    return out


def test_a_run_is_told_with_its_warning_its_trigger_and_its_violation(
    road: Path, tmp_path: Path
) -> None:
    run = read_run(broken_one(road))
    law = next(law for law in run.laws if law.broken)
    time_s, since_s = law.broken[0]
    text = page(tmp_path, run.path)
    assert f"{law.name} was broken at {time_s:g} s" in text
    marks = next(each for each in films(text)[0]["laws"] if each["name"] == law.name)
    assert [min(time_s, run.times_s[-1]), "violated", "broken"] in marks["marks"]
    assert ([since_s, "owed", "trigger"] in marks["marks"]) == (since_s < time_s)
    alarm = first_alarm(law, run)
    assert (alarm is not None) == any(m[1] == "alarm" for m in marks["marks"])
    assert all(
        low <= point <= high
        for low, point, high in zip(
            marks["low"], marks["point"], marks["high"], strict=True
        )
    )
    assert "tiny-road, seed" in text and "<summary>The law: " in text
    assert f"forewarn rules mark {run.path.name} --as miss" in text


def test_pending_obligation_is_shaded(road: Path) -> None:
    for path in sorted(road.glob("*.run.jsonl")):
        run = read_run(path)
        law = next(law for law in run.laws if law.name == "stop_at_red")
        for time_s, since_s in law.broken:
            owed = [
                t
                for t, left in zip(run.times_s, law.left_s, strict=True)
                if left is not None
            ]
            assert any(since_s <= t < time_s for t in owed)
            return
    raise AssertionError("nobody ran the light")


def test_the_page_asks_for_nothing_and_is_the_same_again(
    road: Path, kitchen: Path, tmp_path: Path
) -> None:
    text = page(tmp_path, road, kitchen)
    assert page(tmp_path, road, kitchen) == text
    assert "default-src 'none'" in html.unescape(text)
    without_svg = text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\((?!#)", without_svg)
    assert " style=" not in text and " onclick" not in text


def test_a_campaign_shows_the_runs_with_most_to_see(road: Path, tmp_path: Path) -> None:
    text = page(tmp_path, road)
    told = films(text)
    broken = [any(law["broken"] for law in each["laws"]) for each in told]
    there = sum(
        '"event":"violated"' in path.read_text() for path in road.glob("*.run.jsonl")
    )
    assert there > 0 and broken == [True], "one is large, the others hang on the wall"
    assert "40 episodes, seeds 9000 to 9039." in text
    assert text.count('<a href="#run-') == 1


def test_the_instances_of_violations_are_listed(road: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    (first, *_) = write_report([broken_one(road)], out)["instances"]
    shown = f"<td>{first['law']}</td><td>{first['from_s']:g} s</td>"
    assert shown in re.sub(r"<td [^>]*>", "<td>", out.read_text())


def test_the_wall_holds_misses_false_alarms_and_near_misses(
    road: Path, tmp_path: Path
) -> None:
    (told,) = read_sources([road]).campaigns
    by_kind: dict[str, list[Card]] = {}
    for card in told.cards:
        by_kind.setdefault(card.kind, []).append(card)
    for kind, wanted in (("missed", True), ("false", False), ("near", False)):
        for card in by_kind.get(kind, []):
            assert any(law.broken for law in card.run.laws) == wanted
            alarmed = any(each != "proceed" for each in card.run.decisions)
            assert alarmed == (kind == "false") or kind == "missed"
    hung = {card.run.seed: card.kind for card in told.cards}
    for episode in told.episodes:
        if episode.violations and kind_of(episode) == "missed":
            assert hung[episode.seed] == "missed"
    peaks = [_peak(card.run) for card in by_kind["near"]]
    assert peaks == sorted(peaks, reverse=True) and len(peaks) == SHOWN
    text = page(tmp_path, road)
    cards = held(text)["cards"]
    assert len(cards) == len(told.cards) == text.count('class="card"')
    for card, excerpt in zip(told.cards, cards, strict=True):
        begin, end = card.window
        assert all(begin <= t <= end for t in excerpt["times"])
    assert KINDS["near"] in text and "True predicates: " in text


def _peak(run: RecordedRun) -> float:
    known = [risk.point for law in run.laws for risk in law.risks if risk is not None]
    return max(known)


def test_two_runs_of_a_seed_stand_side_by_side(road: Path, tmp_path: Path) -> None:
    """The one that the guard watched, and the one in which it acted."""
    without = broken_one(road)
    seed = read_run(without).seed
    arguments = ("--threshold", "0.3", "--intervene", "stop", "--out", tmp_path)
    model = ("--model", learned.model("tiny-road"), "--seed", seed)
    forewarn("run", "tiny-road", *model, *arguments)
    (acting,) = tmp_path.glob("*.run.jsonl")
    for paths in ([acting, without], [without, acting]):
        (pair,) = read_sources(paths).parts
        assert isinstance(pair, Show)
        assert [run.path for run in pair.runs] == [without, acting]
        assert pair.sides == ("Without the guard", "With the guard")
    text = page(tmp_path, without, acting)
    (told,) = films(text)
    law = next(law for law in read_run(without).laws if law.broken)
    broken = f"Without the guard, {law.name} was broken at {law.broken[0][0]:g} s."
    assert html.escape(broken) in text and "With the guard, a warning came at " in text
    assert told["ghost"]["scene"] is not None and told["scene"] is not None
    assert told["start"] < told["until"] <= told["times"][-1]
    # The page opens with them, whatever else it shows.
    both = page(tmp_path, road, without, acting)
    assert (
        "Without the guard"
        in both[: both.index("tiny-road: with the guard in shadow mode")]
    )


def test_a_folder_with_both_modes_opens_with_a_run_that_the_guard_saved(
    road: Path, tmp_path: Path
) -> None:
    both = shutil.copytree(road, tmp_path / "both")
    model = ("--model", learned.model("tiny-road"), "--seed", "9000", "--out", both)
    acting = ("--threshold", "0.2", "--intervene", "stop")
    forewarn("run", "tiny-road", *model, "--episodes", "25", *acting)
    pair, *campaigns = read_sources([both]).parts
    assert isinstance(pair, Show) and len(campaigns) == 2
    assert any(law.broken for law in pair.runs[0].laws)
    assert pair.runs[0].seed == pair.last.seed and pair.last.mode == "guarded"


def test_wide_bounds_are_explained_where_they_stand(road: Path, tmp_path: Path) -> None:
    told = 0
    for record in sorted(road.glob("*.run.jsonl")):
        run = read_run(record)
        risks = [law.risks[moment_of(run)] for law in run.laws]
        worst = max((r for r in risks if r is not None), key=lambda r: r.point)
        why = bounds(run)
        assert (why is not None) == (worst.high - worst.low >= WIDE)
        if why is not None:
            told += 1
            assert f"{worst.low:.2f} and {worst.high:.2f}" in why
            assert told > 1 or why in html.unescape(page(tmp_path, record))
    assert told > 0


def test_a_world_that_nobody_draws_shows_its_signals(
    kitchen: Path, tmp_path: Path
) -> None:
    text = page(tmp_path, broken_one(kitchen, broken=False))
    (told,) = films(text)
    assert told["scene"] is None and "No scenes were stored with this run" in text
    names = [signal["name"] for signal in told["signals"]]
    assert {"is_inside(Fork, Microwave)", "is_toggled(Microwave)"} <= set(names)
    assert {strip["name"] for strip in told["strips"]} == {
        "is_inside(Fork, Microwave)",
        "is_toggled(Microwave)",
    }
    assert "The agent wants to" in text


def test_names_from_the_world_stay_text(kitchen: Path, tmp_path: Path) -> None:
    def spoil(line: dict[str, Any]) -> None:
        if "scenario" in line:
            line["scenario"]["text"] = f"title: {EVIL}"
            line["scenario"]["name"] = EVIL
        if "signals" in line:
            line["signals"]["holding"] = EVIL
            line["proposal"] = {"name": EVIL, "arguments": {"object": EVIL}}
            line["decision"]["reason"] = EVIL
            line["decision"]["notes"] = [f"the model no longer {EVIL}"]
        if "end" in line:
            line["ended"] = EVIL
        if line.get("event") == "violated":
            line["law"] = EVIL

    text = page(tmp_path, rewritten(broken_one(kitchen, False), tmp_path, spoil))
    assert EVIL not in text and "<img src=x" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert text.count("<script") == 2 and text.count("</script>") == 2
    assert films(text)[0]["signals"]


def test_drift_is_shown_first(road: Path, tmp_path: Path) -> None:
    note = "the model no longer fits: after 40 transitions the world contradicts it"

    def drift(line: dict[str, Any]) -> None:
        if "decision" in line:
            line["decision"]["notes"] = [note]

    text = page(tmp_path, rewritten(broken_one(road), tmp_path, drift))
    body = text[text.index("<body>") :]
    first = re.search(r"<(p|h1)[^>]*>([^<]*)", body)
    assert first is not None and f"Caution: {note}" in first[2]
    assert "The replay differs from the record:" in text, "not the guard's decisions"


def test_a_cut_record_is_shown_and_said_to_be_cut(road: Path, tmp_path: Path) -> None:
    record = broken_one(road)
    cut = tmp_path / record.name
    cut.write_text("".join(record.read_text().splitlines(True)[:30]))
    text = page(tmp_path, cut)
    assert "The record has no end line after its 30 lines" in text
    assert len(films(text)[0]["times"]) == 29


def test_a_changed_record_is_refused(road: Path, tmp_path: Path) -> None:
    changed = tmp_path / "x.run.jsonl"
    text = broken_one(road).read_text()
    changed.write_text(text.replace('"decision":"proceed"', '"decision":"alert"', 1))
    with pytest.raises(BrokenRecord, match="was changed"):
        page(tmp_path, changed)


def test_a_changed_picture_is_not_shown(road: Path, tmp_path: Path) -> None:
    record = broken_one(road)
    copy = rewritten(record, tmp_path, lambda line: None)
    scene = scene_file(record).read_text()
    scene_file(copy).write_text(scene)
    assert films(page(tmp_path, copy))[0]["scene"] is not None
    scene_file(copy).write_text(scene.replace('"ego",', '"vehicle",', 1))
    text = page(tmp_path, copy)
    assert "The scenes next to the record were modified after the run." in text
    assert films(text)[0]["scene"] is None


def test_without_its_model_a_run_shows_what_was_decided(
    road: Path, tmp_path: Path
) -> None:
    copy = rewritten(broken_one(road), tmp_path, lambda line: None)
    for model in tmp_path.glob("model-*.json"):
        model.unlink()
    text = page(tmp_path, copy)
    assert "so only the recorded decisions are shown" in text
    points = [p for law in films(text)[0]["laws"] for p in law["point"]]
    assert any(p is not None for p in points)


def test_a_long_run_is_thinned_until_it_fits(road: Path) -> None:
    run = read_run(broken_one(road))
    whole = film(run)
    assert whole["stride"] == 1 and len(whole["times"]) == len(run.times_s)
    size = len(json.dumps(whole, separators=(",", ":")))
    thin = film(run, size // 3)
    assert thin["stride"] > 1
    assert len(json.dumps(thin, separators=(",", ":"))) <= size // 3
    assert thin["times"][-1] == whole["times"][-1]


def test_a_measurement_shows_trade_off_and_reliability(tmp_path: Path) -> None:
    folder = tmp_path / "measured"
    said = forewarn(
        "measure", "tiny-road", "--model", learned.model("tiny-road"), "--sweep",
        "--episodes", "40", "--thresholds", "0.1,0.3,0.6", "--baseline", "deadline",
        "--out", folder, "--last-moment",
    )  # fmt: skip
    assert f"`forewarn report {folder}` shows these results" in said
    text = page(tmp_path, folder)
    assert "40 held-out runs, seeds 1000000 to 1000039" in text
    assert "Detection and false-alarm rates: no_collision" in text
    assert "Reliability: stop_at_red" in text
    assert "With the guard intervening, on the same 40 seeds" in text
    assert "deadline" in text
    path = folder / "measurement.json"
    facts = json.loads(path.read_text())
    for law, late in facts["last_moment_s"].items():
        sentence = f"{law}: {late['preventable']} of"
        assert late["violating"] and sentence in said and sentence in text
    facts["laws"][0] |= {"detected": 5, "early": 2}
    facts["guarded"]["driving"]["destination_s"] = {
        "pairs": 2, "of": 40, "arrived": {"unguarded": 30, "guarded": 3},
        "unguarded": 20.0, "guarded": 25.0, "ratio": 1.25,
    }  # fmt: skip
    path.write_text(json.dumps(facts))
    text = page(tmp_path, folder)
    assert "2 of 5 detected violations had an alarm more than" in text
    assert "Time to the destination, if both runs arrived (2 pairs)" in text
    assert "Of 40 runs with the guard" in text


def test_no_two_curves_of_a_chart_have_the_same_marker() -> None:
    row = {"law": "no_collision", "threshold": 0.5, "false_alarm_rate": 0.1}
    rows = {"laws": [{**row, "detection_rate": 0.9}]}
    facts = {**rows, "baselines": {f"other {i}": rows for i in range(9)}}
    chart = trade_off(facts, "no_collision")
    assert chart.startswith(
        "<figure><figcaption>Detection and false-alarm rates: no_coll"
    )
    legend = re.findall(
        r'(?:cx="66.0"|points="\d[^"]*")[^>]*class="(mark [^"]+)"', chart
    )
    assert len(set(legend)) == len(facts["baselines"]) + 1


@pytest.mark.parametrize("content", ["[]", "{}", '{"scenario": "s", "laws": 3}'])
def test_invalid_measurement_is_rejected(tmp_path: Path, content: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match="not a measurement"):
        page(tmp_path, path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no run record, campaign or measurement"):
        page(tmp_path / "x", tmp_path)


def test_the_command_says_where_the_page_is(road: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    told = json.loads(forewarn("report", road, "--out", out, "--json"))
    assert told["report"] == str(out) and out.exists()
    assert (told["runs"], told["campaigns"]) == (1, 1)
    record = broken_one(road)
    told = json.loads(forewarn("report", record, "--json"))
    beside = record.with_name(record.name.removesuffix(".run.jsonl") + ".html")
    assert told["report"] == str(beside)
    beside.unlink()


def test_a_loop_that_others_drive_is_told_too(road: Path, tmp_path: Path) -> None:
    """Its header says less, and only the guard tells what was broken."""

    def strip(line: dict[str, Any]) -> None:
        if "format" in line:
            for key in ("scenario", "seed", "mode", "vocabulary", "period_s"):
                del line[key]
            line["source"], line["provides"] = "agent", None
        if line.get("event") == "violated":
            line["event"] = "nothing"
        if line.get("sequence") == 20 and "decision" in line:
            line["decision"]["violated"] = ["stop_at_red"]

    own = broken_one(road)
    run = read_run(rewritten(own, tmp_path, strip))
    assert (run.name, run.mode, run.seed) == ("agent", "guarded", None)
    assert run.period_s == pytest.approx(0.1)
    assert run.times_s == read_run(own).times_s
    (law,) = (law for law in run.laws if law.name == "stop_at_red")
    assert law.broken == ((2.0, 2.0),)
    assert "The replay differs from the record:" in run.cautions[0]
    text = page(tmp_path, run.path)
    assert "agent, with the guard intervening" in text
    assert any(law["marks"] for law in films(text)[0]["laws"])


def test_a_live_run_speaks_its_models_vocabulary(road: Path, tmp_path: Path) -> None:
    def strip(line: dict[str, Any]) -> None:
        line.pop("scenario", None)
        line.pop("vocabulary", None)

    run = read_run(rewritten(broken_one(road), tmp_path, strip))
    assert run.vocabulary == "driving" and run.cautions == ()


def test_a_live_clock_starts_at_zero() -> None:
    from forewarn.scenarios.report.runs import told_by_the_guard

    decision = {"decision": "stop", "violated": ["law"]}
    lines: list[dict[str, Any]] = [
        {"time_s": 1.7e9, "decision": {}},
        {"time_s": {"$float": "nan"}, "decision": {}},
        {"time_s": 1.7e9 + 0.5, "decision": decision},
        {"end": True},
    ]
    told = list(told_by_the_guard(lines))
    assert [line.get("time_s") for line in told] == [0.0, 0.0, 0.5, 0.5, None]
    assert told[3]["event"] == "violated" and told[3]["law"] == "law"
