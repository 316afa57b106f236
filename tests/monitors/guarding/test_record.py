"""Run records: changes show, a cut is said, and every decision comes out again."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput, InvalidModel
from forewarn.abstractions.frame import Frame
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.guarding import record as module
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.monitors.guarding.encoding import decoded, encodable
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.record import (
    MAX_LINE_BYTES,
    BrokenRecord,
    RunRecord,
    line_hash,
    read_record,
)
from forewarn.monitors.guarding.watch import load_watch
from forewarn.plugins.loop.records import model_file
from forewarn.plugins.loop.replay import replay
from tests.fuzz import seeds

FRAMES = seeds.frames()[:6]


def recorded(folder: Path, *frames: Frame, **header: Any) -> Path:
    """A record of the frames, with its model beside it."""
    path = seeds.write_record(folder)
    first = next(iter(read_record(path))).content
    kept = {k: v for k, v in first.items() if k not in ("hash", "machine", "format")}
    model = load_model(model_file(path, first["model"]["sha256"]))
    watch = load_watch(model, horizon_s=3.0, laws=(seeds.LAW,))
    path.unlink()
    with RunRecord(path, kept | header, {"host": "here"}) as record:
        guard = Guard(watch, Policy(), clock=lambda: 0.0, listeners=[record])
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
        content.pop("hash", None)
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


def test_a_review_that_the_record_never_heard_of_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deaf(RunRecord):
        def reviewed(self, frame: Frame, *rest: Any) -> None:
            if frame is FRAMES[2]:
                raise MemoryError
            super().reviewed(frame, *rest)

    monkeypatch.setattr(sys.modules[__name__], "RunRecord", Deaf)
    lines = read_record(recorded(tmp_path, *FRAMES))
    assert len(list(itertools.islice(lines, 3))) == 3
    with pytest.raises(
        BrokenRecord,
        match=("the record has no end line: it was not closed, or it is truncated"),
    ):
        next(lines)


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
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 2]) + whole[at + 1 :])
        place = f"line {whole.count(10, 0, at) + 1}"
        with pytest.raises(InvalidInput, match=place):
            lines_of(path)


def raw(path: Path) -> list[dict[str, Any]]:
    """The lines without their hashes, verified."""
    hashes = ("hash", "previous", "machine")
    return [
        {k: v for k, v in line.items() if k not in hashes} for line in lines_of(path)
    ]


def test_record_is_written_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "run.jsonl"
    record = RunRecord(path, {"seed": 1})
    assert (record.path, record.lines) == (path, 1)
    assert path.read_text().count("\n") == 1  # handed on at once
    record.event("done", at=math.nan)
    head = record.head
    assert json.loads(path.read_text().splitlines()[-1])["hash"] == head
    assert (last := record.close(ended="so")) == record.head != head
    assert record.close(ended="again") == last
    assert raw(path) == [
        {"format": "forewarn.run/1", "seed": 1},
        {"event": "done", "at": {"$float": "nan"}},
        {"end": True, "lines": 2, "ended": "so"},
    ]
    # What is constant is part of the format.
    first = next(iter(read_record(path)))
    body = first.text[: first.text.index(',"hash"')] + "}"
    assert (
        first.content["hash"] == hashlib.sha256(("0" * 64 + body).encode()).hexdigest()
    )
    assert (first.number, first.content["machine"]) == (1, None)


def test_an_error_leaves_the_record_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    record = RunRecord(path, {})
    with pytest.raises(KeyError), record as entered:
        assert entered is record
        raise KeyError
    assert record._file.closed
    with pytest.raises(BrokenRecord) as cut:
        lines_of(path)
    assert str(cut.value) == (
        f"{path}: after line 1: the record has no end line: it was not closed, or "
        "it is truncated (all lines up to there are intact and can be replayed)"
    )


def test_a_review_is_recorded_with_what_it_needs_and_no_more(tmp_path: Path) -> None:
    frame, ahead = Frame(0.5, 3, {"speed": 1.5}), Frame(0.6, 3, {"speed": 2.5})
    decision = Decision("stop", 3, 0.5)
    path = tmp_path / "run.jsonl"
    with RunRecord(path, {}) as record:
        record.reviewed(frame, None, decision, (0.5, 0.5))
        record.reviewed(frame, None, decision, ())
        record.reviewed(frame, Action("go", {"x": 1}), decision, (0.5, 0.7), ahead)
    plain = {
        "sequence": 3, "time_s": 0.5, "signals": {"speed": 1.5},
        "decision": decision.as_dict(),
    }  # fmt: skip
    more = {
        "proposal": {"name": "go", "arguments": {"x": 1}},
        "foreseen": {"sequence": 3, "time_s": 0.6, "signals": {"speed": 2.5}},
        "clock": [0.5, 0.7],
    }
    assert raw(path)[1:4] == [plain, plain, plain | more]


def test_a_valid_frame_is_written_without_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "encodable", None)
    with RunRecord(tmp_path / "run.jsonl", {}) as record:
        record.reviewed(FRAMES[0], None, Decision("stop", 0, 0.0), (0.1,))
    assert raw(record.path)[1]["signals"] == FRAMES[0].values


class Long:
    def __repr__(self) -> str:
        return "x" * 999


@pytest.mark.parametrize(
    ("value", "said", "again"),
    [
        (-math.inf, {"$float": "-inf"}, "-inf"),
        ({1: (2.5, [None])}, {"$pairs": [[1, [2.5, [None]]]]}, "{1: [2.5, [None]]}"),
        (Long(), {"$repr": "x" * 200}, "x" * 200),
        ({"a": math.nan, "b": {"c": object}},
         {"a": {"$float": "nan"}, "b": {"c": {"$repr": repr(object)}}},
         f"{{'a': nan, 'b': {{'c': {object!r}}}}}"),
    ],
)  # fmt: skip
def test_values_that_json_lacks_are_written_and_read_back(
    value: object, said: object, again: str
) -> None:
    assert encodable(value) == said
    assert repr(decoded(json.loads(json.dumps(encodable(value))))) == again


@pytest.mark.parametrize("odd", [Frame(1, 0, {}), Frame(0.5, True, {})])
def test_a_frame_whose_numbers_are_of_another_type_is_recorded(
    odd: Frame, tmp_path: Path
) -> None:
    with RunRecord(tmp_path / "run.jsonl", {}) as record:
        record.reviewed(odd, None, Decision("stop", 0, 1.0), ())
    line = raw(record.path)[1]
    assert (type(line["sequence"]), type(line["time_s"])) == (
        type(odd.sequence), type(odd.time_s),
    )  # fmt: skip


def test_a_line_may_be_so_long_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = short(tmp_path)
    longest = max(map(len, path.read_bytes().splitlines(keepends=True)))
    monkeypatch.setattr(module, "MAX_LINE_BYTES", longest)
    assert len(lines_of(path)) == 4
    monkeypatch.setattr(module, "MAX_LINE_BYTES", longest - 1)
    with pytest.raises(
        BrokenRecord, match=f"line 2: this line is longer than {longest - 1} bytes"
    ):
        lines_of(path)


def test_lines_of_sixteen_mebibytes_are_allowed() -> None:
    assert MAX_LINE_BYTES == 16 * 1024 * 1024


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\n", "line 1: not a run record ("),
        (b"{\n", "line 1: not a run record ("),
        (b"[]\n", "line 1: not a run record ("),
        (b'{"hash": 7}\n', "line 1: not a run record ("),
        (b'{"format": "forewarn.run/1"}\n', "line 1: not a line of a run record"),
        (
            b'{"format": "x", "hash": "0"}\n',
            "not a run record of format forewarn.run/1",
        ),
        (
            b'{"format": "forewarn.run/1", "hash": "0"}\n',
            "line 1: this line was changed after",
        ),
        (b'{"format"', "line 1: the record is truncated in the middle of this line"),
        (
            b"",
            "after line 0: the record has no end line: it was not closed, or it is "
            "truncated",
        ),
    ],
)
def test_invalid_record_gives_the_reason(
    content: bytes, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    with pytest.raises(BrokenRecord) as refused:
        lines_of(path)
    assert said in str(refused.value)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "no", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(BrokenRecord, match=f": {why}"):
            lines_of(path)


def test_a_disk_that_takes_half_a_line_is_full(tmp_path: Path) -> None:
    record, whole = half_written(tmp_path / "run.jsonl")
    with pytest.raises(OSError, match="the disk is full"):
        record.event("done")
    assert record.path.read_bytes() == whole


class Half:
    """A disk with room for half a line more; what it is full with can be taken off."""

    def __init__(self, file: Any) -> None:
        self._file, self.full = file, True

    def write(self, line: bytes) -> int:
        written: int = self._file.write(line[: len(line) // 2] if self.full else line)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def half_written(path: Path) -> tuple[RunRecord, bytes]:
    """A record of two lines on such a disk, and what stands in it."""
    record = RunRecord(path, {})
    record.event("begun")
    record._file = Half(record._file)  # type: ignore[assignment]
    return record, path.read_bytes()


def test_once_a_line_could_not_be_written_none_is(tmp_path: Path) -> None:
    record, whole = half_written(tmp_path / "run.jsonl")
    disk: Any = record._file
    with pytest.raises(OSError, match="the disk is full"):
        record.event("done")
    disk.full = False
    for _ in range(3):
        with pytest.raises(OSError, match="record failed: OSError: .*the disk"):
            record.event("done")
    record.close()
    assert record.path.read_bytes() == whole
    with pytest.raises(
        BrokenRecord,
        match=("after line 2: the record has no end line: it was not closed, or it"),
    ):
        lines_of(record.path)


def test_once_it_could_not_be_recorded_no_frame_passes(tmp_path: Path) -> None:
    path = recorded(tmp_path, *FRAMES[:1])
    watch = load_watch(
        load_model(model_file(path, lines_of(path)[0]["model"]["sha256"])),
        horizon_s=3.0,
        laws=(seeds.LAW,),
    )
    record, _ = half_written(tmp_path / "full.jsonl")
    disk: Any = record._file
    calm = Policy(rules={"*": (Step("alert", 1.0),)}, hold_s=0.0)
    guard = Guard(watch, calm, clock=lambda: 0.0, listeners=[record])
    for i, frame in enumerate(FRAMES):
        disk.full = i == 0
        assert guard.review(frame).kind == "stop", i
    with pytest.raises(
        BrokenRecord,
        match=("after line 2: the record has no end line: it was not closed, or it"),
    ):
        lines_of(record.path)


def test_a_line_that_was_broken_off_never_was(tmp_path: Path) -> None:
    class Interrupted(Half):
        def write(self, line: bytes) -> int:
            super().write(line)
            raise KeyboardInterrupt

    record = RunRecord(tmp_path / "run.jsonl", {})
    whole, record._file = record._file, Interrupted(record._file)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        record.event("broken off")
    record._file = whole
    record.close()
    assert len(lines_of(record.path)) == 2


class _AtInstruction:
    """Interrupts the k-th instruction that the record's own module executes."""

    def __init__(self, k: int) -> None:
        self.left, self.where = k, ""

    def __call__(self, at: FrameType, event: str, arg: object) -> Any:
        if at.f_globals.get("__name__") != module.__name__ or self.where:
            return None
        at.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left < 0:
                self.where = f"{at.f_code.co_name}:{at.f_lineno}"
                raise KeyboardInterrupt
        return self


def test_an_interrupt_at_any_instruction_leaves_a_record_that_verifies(
    tmp_path: Path,
) -> None:
    for k in itertools.count():
        record = RunRecord(tmp_path / f"{k}.jsonl", {})
        at = _AtInstruction(k)
        sys.settrace(at)
        try:
            record.event("broken off")
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        record.event("after it")
        record.close()
        said = [line.get("event") for line in lines_of(record.path)]
        assert said in ([None, "broken off", "after it", None],
                        [None, "after it", None]), at.where  # fmt: skip
        if not at.where:
            break
    assert k > 100


def test_an_interrupt_ends_a_record_in_order(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        RunRecord(tmp_path / "run.jsonl", {}) as record,
    ):
        raise KeyboardInterrupt
    assert lines_of(record.path)[-1]["ended"] == "interrupted"


def test_no_record_is_written_over_another(tmp_path: Path) -> None:
    path = recorded(tmp_path, *FRAMES[:1])
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="a record with this name already exists"):
        RunRecord(path, {})
    assert path.read_bytes() == before


def test_a_record_that_is_removed_meanwhile_is_missed(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "runs" / "run.jsonl", {})
    shutil.rmtree(tmp_path / "runs")
    with pytest.raises(OSError, match=": the record's file has been removed"):
        record.event("done")


@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("added", [" ", "\r", "\t"])
def test_a_blank_at_the_end_of_a_line_shows(
    number: int, added: str, tmp_path: Path
) -> None:
    path = recorded(tmp_path, *FRAMES[:2])
    text = path.read_bytes().split(b"\n")[:-1]
    text[number] += added.encode()
    path.write_bytes(b"\n".join(text) + b"\n")
    with pytest.raises(
        BrokenRecord, match="was added to this line after it was written"
    ):
        lines_of(path)


def test_lines_after_the_end_of_a_record_are_rejected(tmp_path: Path) -> None:
    path = recorded(tmp_path, *FRAMES[:2])
    path.write_text(path.read_text() + "{}\n")
    resealed(path, 0)
    with pytest.raises(
        BrokenRecord, match=("line 5: this line comes after the end of the record")
    ):
        lines_of(path)


def test_an_end_that_miscounts_shows(tmp_path: Path) -> None:
    path = recorded(tmp_path, *FRAMES[:2])
    resealed(path, 3, lines=7)
    with pytest.raises(
        BrokenRecord, match="line 4: this end line does not match the 3 lines before"
    ):
        lines_of(path)


def test_a_failing_observer_comes_out_again(tmp_path: Path) -> None:
    class Failing(Listener):
        def reviewed(self, frame: Frame, *_: object) -> None:
            if frame.sequence == 2:
                raise OSError("the line is dead")

    path = seeds.write_record(tmp_path)
    first = lines_of(path)[0]
    kept = {k: v for k, v in first.items() if k not in ("hash", "machine", "format")}
    model = load_model(model_file(path, first["model"]["sha256"]))
    watch = load_watch(model, horizon_s=3.0, laws=(seeds.LAW,))
    path.unlink()
    with RunRecord(path, kept) as record:
        guard = Guard(watch, Policy(hold_s=0.2), clock=lambda: 0.0)
        guard.reset([Failing(), record])
        for frame in FRAMES[:4]:
            guard.review(frame)
        guard.break_off()
        guard.review(FRAMES[4])
    reasons = [line["decision"]["reason"] for line in lines_of(path)[1:-1]]
    assert reasons[2].endswith("a listener failed: OSError: the line is dead")
    assert reasons[4].endswith("an earlier review was broken off")
    assert replay(path) == (5, None)


@pytest.mark.parametrize(
    "order", [(0, 2, 1, 3), (0, 2, 3), (0, 1, 1, 2, 3), (1, 2, 3), (0, 1, 3, 2)]
)
def test_lines_out_of_place_show(order: tuple[int, ...], tmp_path: Path) -> None:
    path = recorded(tmp_path, *FRAMES[:2])
    text = path.read_text().splitlines(keepends=True)
    path.write_text("".join(text[i] for i in order))
    with pytest.raises(
        BrokenRecord, match="does not contain the hash|not a run record"
    ):
        lines_of(path)


@pytest.mark.parametrize(
    ("number", "added"),
    [(0, '"clock":[1.0]'), (1, '"clock":[1.0]'), (1, '"machine":{}')],
)
def test_text_added_after_the_hash_is_detected(
    number: int, added: str, tmp_path: Path
) -> None:
    path = recorded(tmp_path, *FRAMES[:2])
    text = path.read_text().splitlines()
    text[number] = f"{text[number][:-1]},{added}}}"
    path.write_text("\n".join(text) + "\n")
    with pytest.raises(
        BrokenRecord, match=f"line {number + 1}: .*added to this line after"
    ):
        lines_of(path)


def test_every_decision_comes_out_again(tmp_path: Path) -> None:
    assert replay(recorded(tmp_path, *FRAMES)) == (6, None)
    assert replay(seeds.write_record(tmp_path / "clocked")) == (6, None)


def test_a_run_whose_actions_were_judged_before_comes_out_again(
    tmp_path: Path,
) -> None:
    # Simulated time: the guard's clock is the frame's own, and is not recorded.
    policy = Policy(when="before")
    path = recorded(tmp_path, policy=policy.as_dict())
    header = lines_of(path)[0]
    kept = {k: v for k, v in header.items() if k not in ("hash", "machine", "format")}
    watch = load_watch(
        load_model(model_file(path, header["model"]["sha256"])),
        horizon_s=policy.horizon_s, laws=(seeds.LAW,),
    )  # fmt: skip
    now = [0.0]
    heard: list[tuple[int, int]] = []
    path.unlink()
    with RunRecord(path, kept) as record:
        guard = Guard(watch, policy, clock=lambda: now[0], listeners=[record])
        for frame, ahead in itertools.pairwise(FRAMES):
            now[0] = frame.time_s
            guard.review(frame, Action("open"), ahead)
    reviews = lines_of(path)[1:-1]
    assert all("foreseen" in line and "clock" not in line for line in reviews)
    assert any(line["decision"]["law"] for line in reviews)
    assert replay(path, heard=lambda line, seen: heard.append((line, seen.ticks))) == (
        5, None,
    )  # fmt: skip
    assert heard == [(line, line - 1) for line in range(2, 7)]


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


def test_a_record_that_names_an_unseen_state_by_its_bits_comes_out_again(
    tmp_path: Path,
) -> None:
    unseen = Frame(0.0, 0, dict(FRAMES[1].values, speed=0.0))
    path = recorded(tmp_path, unseen)
    decision = lines_of(path)[1]["decision"]
    (note,) = decision["notes"]
    assert note == (
        "a state never seen in training (speed < 1 km/h, traffic_light == red):"
        " widened to the nearest known states"
    )
    for bits, alike in (("0110", 1), ("0101", 0)):
        older = f"state {bits} was never seen in training: widened to its nearest"
        resealed(path, 1, decision=decision | {"notes": [older]})
        assert replay(path)[0] == alike
    older = note.replace("the nearest known states", "its nearest")
    resealed(path, 1, decision=decision | {"notes": [older]})
    assert replay(path) == (1, None)
    resealed(path, 1, decision=decision | {"notes": [note, "another"]})
    _, divergence = replay(path)
    assert divergence is not None and divergence.recorded == [note, "another"]


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
        (2, {"time_s": ...}, "run.jsonl: line 3: the line is not a valid review"),
        (2, {"sequence": ...}, "run.jsonl: line 3: the line is not a valid review"),
        (
            2,
            {"signals": {"speed": {"$float": []}}},
            "run.jsonl: line 3: the line is not a valid review",
        ),
        (
            2,
            {"proposal": {"verb": "open"}},
            "run.jsonl: line 3: the line is not a valid review",
        ),
        (2, {"clock": 7}, "run.jsonl: line 3: the line is not a valid review"),
        (2, {"decision": "stop"}, "run.jsonl: line 3: the line is not a valid review"),
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
    with pytest.raises(
        InvalidModel,
        match=rf"other.json: the record was made with a different model.*{digest}",
    ):
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
    guard = Guard(watch, Policy(), clock=lambda: next(readings), listeners=[record])
    decision = guard.review(FRAMES[0])
    assert decision.kind == "stop"
    assert "closed file" in decision.reason
