"""Run records: changes show, a cut is said, and every decision comes out again."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput, InvalidModel
from forewarn.abstractions.frame import Frame
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.record import (
    BrokenRecord,
    RunRecord,
    line_hash,
    read_record,
)
from forewarn.monitors.guarding.replay import model_file, replay
from forewarn.monitors.guarding.watch import load_watch
from tests.fuzz import seeds

FRAMES = seeds.frames()[:6]


def recorded(folder: Path, *frames: Frame, **header: Any) -> Path:
    """A record of the frames, with its model beside it."""
    path = seeds.write_record(folder)
    first = next(iter(read_record(path))).content
    kept = {k: v for k, v in first.items() if k not in ("hash", "machine", "format")}
    model = load_model(model_file(path, first["model"]["sha256"]))
    watch = load_watch(model, horizon_s=3.0, laws=(seeds.LAW,))
    with RunRecord(path, kept | header, {"host": "here"}) as record:
        guard = Guard(watch, Policy(), clock=lambda: 0.0, observers=[record])
        for frame in frames:
            guard.review(frame, Action("open", {"name": "Door"}))
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [line.content for line in read_record(path)]


def resealed(path: Path, number: int, **changes: Any) -> None:
    """Changes a line of a record and mends all hashes."""
    head, out = "0" * 64, []
    for i, text in enumerate(path.read_text().splitlines()):
        content = json.loads(text)
        for key in ("hash", "machine"):
            content.pop(key, None)
        if i == number:
            content = {k: v for k, v in (content | changes).items() if v is not ...}
        if i:
            content["previous"] = head
        body = json.dumps(content, separators=(",", ":"))
        head = line_hash(head, body)
        out.append(f'{body[:-1]},"hash":"{head}"}}\n')
    path.write_text("".join(out))


def test_a_record_holds_what_was_reviewed(tmp_path: Path) -> None:
    header, *reviews, end = lines_of(recorded(tmp_path, *FRAMES))
    assert header["machine"] == {"host": "here"}
    assert [line["sequence"] for line in reviews] == [0, 1, 2, 3, 4, 5]
    assert reviews[0]["signals"] == FRAMES[0].values
    assert reviews[0]["proposal"] == {"name": "open", "arguments": {"name": "Door"}}
    assert end["lines"] == 7


def test_the_same_run_gives_the_same_chain_on_every_machine(tmp_path: Path) -> None:
    heads = []
    for host in ("here", "there"):
        with RunRecord(tmp_path / host, {"seed": 1}, {"host": host}) as record:
            record.event("executed", action="stop")
        heads.append(record.head)
    assert heads[0] == heads[1]


def short(folder: Path) -> Path:
    """A record with a line of every kind, and few bytes."""
    path = folder / "short.jsonl"
    with RunRecord(path, {"seed": 1}, {"host": "here"}) as record:
        frame = Frame(0.5, 3, {"speed": 1.5, "note": "é"})
        record.reviewed(frame, None, Decision("stop", 3, 0.5), (0.1, 0.2))
        record.event("done", at=1)
    return path


def test_a_record_cut_at_any_byte_is_readable_up_to_there(tmp_path: Path) -> None:
    path = short(tmp_path)
    whole, known = path.read_bytes(), lines_of(path)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        read: list[dict[str, Any]] = []
        with pytest.raises(BrokenRecord, match="cut"):
            read.extend(line.content for line in read_record(path))
        assert read == known[: len(read)]
        assert len(read) >= whole[:length].count(b"\n") - 1


def test_a_changed_byte_shows_in_its_line(tmp_path: Path) -> None:
    path = short(tmp_path)
    whole = path.read_bytes()
    machine = whole.index(b',"machine"'), whole.index(b"\n")
    for at in range(len(whole)):
        if machine[0] <= at <= machine[1]:
            continue
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 2]) + whole[at + 1 :])
        place = f"line {whole.count(10, 0, at) + 1}"
        with pytest.raises(InvalidInput, match=place):
            lines_of(path)


@pytest.mark.parametrize(
    "order", [(0, 2, 1, 3), (0, 2, 3), (0, 1, 1, 2, 3), (1, 2, 3), (0, 1, 3, 2)]
)
def test_lines_out_of_place_show(order: tuple[int, ...], tmp_path: Path) -> None:
    path = recorded(tmp_path, *FRAMES[:2])
    text = path.read_text().splitlines(keepends=True)
    path.write_text("".join(text[i] for i in order))
    with pytest.raises(BrokenRecord, match="does not follow|not a run record"):
        lines_of(path)


@pytest.mark.parametrize("number", [0, 1])
def test_what_is_added_behind_the_hash_shows(number: int, tmp_path: Path) -> None:
    path = recorded(tmp_path, *FRAMES[:2])
    text = path.read_text().splitlines()
    text[number] = text[number][:-1] + ',"clock":[1.0]}'
    path.write_text("\n".join(text) + "\n")
    with pytest.raises(BrokenRecord, match=f"line {number + 1}: .*added after"):
        lines_of(path)


def test_every_decision_comes_out_again(tmp_path: Path) -> None:
    assert replay(recorded(tmp_path, *FRAMES)) == (6, None)
    assert replay(seeds.write_record(tmp_path / "clocked")) == (6, None)


FAULTY = [
    Frame(0.6, 6, dict(FRAMES[0].values, speed=math.nan)),
    Frame(math.inf, 7, {}),
    Frame(0.8, 8, {"speed": object()}),
    Frame(10**400, 9, {}),
    Frame(None, [9], None),  # type: ignore[arg-type]
]


def test_a_line_is_what_an_encoder_makes_of_it(tmp_path: Path) -> None:
    changed = dict(FRAMES[0].values, speed=-0.0, lead_distance=None, note="é")
    path = recorded(tmp_path, *FRAMES, Frame(0.6, 6, changed), *FAULTY)
    for text, line in zip(
        path.read_text().splitlines()[1:], lines_of(path)[1:], strict=True
    ):
        assert text == json.dumps(line, separators=(",", ":"))


def test_faulty_frames_are_recorded_and_come_out_again(tmp_path: Path) -> None:
    path = recorded(tmp_path, *FRAMES, *FAULTY)
    assert replay(path) == (11, None)
    reasons = [line["decision"]["reason"] for line in lines_of(path)[7:-1]]
    assert all("cannot judge this frame" in reason for reason in reasons)


def test_the_first_decision_that_differs_is_named(tmp_path: Path) -> None:
    path = recorded(tmp_path, *FRAMES)
    decision = lines_of(path)[3]["decision"]
    resealed(path, 3, decision=decision | {"law": "another"})
    alike, divergence = replay(path)
    assert alike == 2 and divergence is not None
    assert (divergence.line, divergence.sequence, divergence.field) == (4, 2, "law")
    assert "law was 'another' and is now" in str(divergence)


@pytest.mark.parametrize(
    ("number", "changes", "said"),
    [
        (0, {"model": {}}, "run.jsonl: line 1: model.sha256"),
        (0, {"model": {"sha256": "../../etc/passwd"}}, "run.jsonl: line 1: model.sha"),
        (0, {"policy": {}}, "run.jsonl: policy: format"),
        (0, {"laws": ["always ("]}, "run.jsonl: line 1"),
        (0, {"provides": ["speed"]}, "run.jsonl: line 1: the source does not provide"),
        (0, {"provides": ...}, "run.jsonl: line 1: provides: this key is missing"),
        (2, {"time_s": ...}, "run.jsonl: line 3: not a review"),
        (2, {"sequence": ...}, "run.jsonl: line 3: not a review"),
        (2, {"signals": {"speed": {"$float": []}}}, "run.jsonl: line 3: not a review"),
        (2, {"proposal": {"verb": "open"}}, "run.jsonl: line 3: not a review"),
        (2, {"clock": 7}, "run.jsonl: line 3: not a review"),
        (2, {"decision": "stop"}, "run.jsonl: line 3: not a review"),
    ],
)
def test_a_record_that_cannot_be_replayed_says_where(
    number: int, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = recorded(tmp_path, *FRAMES)
    resealed(path, number, **changes)
    with pytest.raises(InvalidInput) as refused:
        replay(path)
    assert said in str(refused.value)


def test_another_model_is_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path, *FRAMES)
    digest = lines_of(path)[0]["model"]["sha256"]
    other = tmp_path / "other.json"
    other.write_bytes(model_file(path, digest).read_bytes() + b" ")
    with pytest.raises(InvalidModel, match=rf"other.json: not the model.*{digest}"):
        replay(path, other)
    assert hashlib.sha256(other.read_bytes()).hexdigest() != digest


def test_a_full_disk_is_heard_of(tmp_path: Path) -> None:
    path = seeds.write_record(tmp_path)
    digest = lines_of(path)[0]["model"]["sha256"]
    watch = load_watch(load_model(model_file(path, digest)), horizon_s=3.0)
    record = RunRecord(tmp_path / "full.jsonl", {})
    record._file.close()

    def clock() -> Iterator[float]:
        yield from (0.0, 0.0)

    readings = clock()
    guard = Guard(watch, Policy(), clock=lambda: next(readings), observers=[record])
    decision = guard.review(FRAMES[0])
    assert decision.kind == "stop"
    assert "not recorded" in decision.reason
