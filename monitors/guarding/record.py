"""Run records: logs of one run, whose lines are chained by hashes.

The format is `forewarn.run/1`, JSON Lines. A line's hash covers the hash before it and
the line's own bytes, which reveals a change, a gap or a reordering. The head hash, if
stored elsewhere, also reveals a missing end. Only a live record names its machine and
time: in simulated time, the same seed gives the same bytes everywhere.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from forewarn.abstractions.errors import InvalidInput, mend_of, said
from forewarn.abstractions.files import format_of, make_folder, other_kind, parse_json
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision, cut_short
from forewarn.monitors.guarding.encoding import (
    SignalText,
    all_plain,
    encodable,
    is_plain,
)
from forewarn.monitors.guarding.listening import Listener

FORMAT = "forewarn.run/1"
SUFFIX = ".run.jsonl"
"""The suffix of run records."""
ORIGIN = "0" * 64
"""The hash before the first line."""

MAX_LINE_BYTES = 16 * 1024 * 1024
MOST_FACT = 200
"""The maximum length of a fact about the machine, in characters."""
HALF = "\\ud"
"""The beginning of a surrogate in JSON, which may be half of a character."""
LONG_LINE = 20_000
"""Longer lines are encoded by the general method, because they may contain large
numbers.
"""

_LINES = frozenset({"decision", "event", "end"})
"""Each line except the first has one of these keys."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


_BEGINNING = b'{"format"'


class BrokenRecord(InvalidInput):
    """A run record that was changed, reordered or truncated."""


class UnfinishedRecord(BrokenRecord):
    """A run record whose end is missing, because it was truncated or never closed."""


class _Whole(NamedTuple):
    """The position up to which a record is written: its last complete line."""

    head: str
    size: int
    lines: int


class RunRecord(Listener):
    """Writes the record of one run as it happens.

    Every line is passed to the operating system immediately, so that a killed process
    loses at most the line it was writing; nothing is forced to the disk. After a line
    that could not be written, no further line is written: the file ends with the last
    complete line.

    Args:
        path: The file to write; there must be no record of that name yet.
        header: The data for replay: scenario, model digest, policy, seed.
        machine: Facts about this machine and the present time; empty in simulated time.
    """

    def __init__(
        self, path: Path, header: Mapping[str, Any], machine: Mapping[str, str] = {}
    ) -> None:
        make_folder(path.parent)
        self.path = path
        # A single value, so that an interrupt sees either all or none of an update.
        self._whole = _Whole(ORIGIN, 0, 0)
        try:
            # A device such as /dev/null exists beforehand.
            mode = "wb" if path.is_char_device() else "xb"
            self._file = path.open(mode, buffering=0)
        except FileExistsError:
            raise InvalidInput(
                "a record with this name already exists",
                source=str(path),
                mend="choose a different file name",
            ) from None
        self._writing, self._failure = False, ""
        self._process = os.getpid()
        self._signals = SignalText(_encode)
        self._write(
            _encode({"format": FORMAT, **header, "machine": dict(machine) or None})
        )

    @property
    def head(self) -> str:
        """The hash of the last complete line."""
        return self._whole.head

    @property
    def closed(self) -> bool:
        """Whether the record accepts no further lines."""
        return self._file.closed

    @property
    def lines(self) -> int:
        """The number of complete lines."""
        return self._whole.lines

    def reviewed(
        self,
        frame: Frame,
        proposal: Action | None,
        decision: Decision,
        readings: tuple[float, ...],
        foreseen: Frame | None = None,
    ) -> None:
        """Writes a review; the guard calls this."""
        self._check_process()
        try:
            self._write(self._review(frame, proposal, decision, readings, foreseen))
        except Exception as error:
            self._fail(error)
            raise

    def failed(self, error: Exception) -> None:
        """Ends the record, because the failed review is missing from it."""
        if os.getpid() == self._process:
            self._fail(error)

    def event(self, name: str, **facts: Any) -> None:
        """Writes an event: an action that was carried out, or an acknowledgement."""
        self._check_process()
        try:
            self._line({"event": name, **facts})
        except Exception as error:
            self._fail(error)
            raise

    def close(self, **facts: Any) -> str:
        """Writes the end line; returns the head hash, to be stored elsewhere."""
        if not self._file.closed and os.getpid() == self._process:
            try:
                self._line({"end": True, "lines": self.lines, **facts})
            except Exception as error:
                self._fail(error)
                raise
            self._file.close()
        return self.head

    def _check_process(self) -> None:
        """Prevents a forked process from writing between the lines of its parent."""
        if os.getpid() != self._process:
            raise OSError(f"{self.path}: another process is writing this record")

    def __enter__(self) -> RunRecord:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif isinstance(error, KeyboardInterrupt | SystemExit):
            self.close(ended="interrupted")
        else:
            self._file.close()

    def _line(self, content: dict[str, Any]) -> None:
        content["previous"] = self.head
        self._write(_encode(content if all_plain(content) else encodable(content)))

    def _review(
        self,
        frame: Frame,
        proposal: Action | None,
        decision: Decision,
        readings: tuple[float, ...],
        foreseen: Frame | None,
    ) -> str:
        rest: dict[str, Any] = {}
        proposal = cut_short(proposal)
        if proposal is not None:
            given: Any = {"name": proposal.name, "arguments": proposal.arguments}
            plain = all_plain(proposal.arguments) and is_plain(proposal.name)
            rest["proposal"] = given if plain else encodable(given)
        if foreseen is not None:
            then: Any = {
                "sequence": foreseen.sequence,
                "time_s": foreseen.time_s,
                "signals": foreseen.values,
            }
            rest["foreseen"] = then if all_plain(foreseen.values) else encodable(then)
        rest["decision"] = decision.as_dict()
        # During a review, simulated time stays at the frame's time.
        if readings.count(frame.time_s) < len(readings):
            rest["clock"] = readings
        rest["previous"] = self.head
        with suppress(AttributeError, TypeError, ValueError):
            signals = self._signals(frame.values)
            body = f'{_began(frame)},"signals":{signals},{_encode(rest)[1:]}'
            if len(body) < LONG_LINE and HALF not in body:
                return body
        for name in ("foreseen", "decision", "clock"):
            if name in rest and (name != "foreseen" or then is rest[name]):
                rest[name] = encodable(rest[name])
        faulty = {
            "sequence": frame.sequence,
            "time_s": frame.time_s,
            "signals": frame.values,
        }
        return _encode({**encodable(faulty), **rest})

    def _write(self, body: str) -> None:
        if self._failure:
            raise OSError(f"an earlier write to the record failed: {self._failure}")
        if self._writing:
            # Writing the last line was interrupted, so its beginning is removed.
            self._cut()
        self._writing = True
        head = line_hash(self.head, body)
        line = f'{body[:-1]},"hash":"{head}"}}\n'.encode()
        if os.fstat(self._file.fileno()).st_nlink == 0:
            raise OSError(f"{self.path}: the record's file has been removed")
        if self._file.write(line) != len(line):
            raise OSError(f"{self.path}: the disk is full")
        _, size, lines = self._whole
        self._whole = _Whole(head, size + len(line), lines + 1)
        self._writing = False

    def _fail(self, error: Exception) -> None:
        """Ends the record at its last complete line, because the next cannot be
        written.

        No line after a missing line could be verified.
        """
        self._failure = self._failure or said(error)
        with suppress(OSError, ValueError):
            self._cut()
        self._file.close()

    def _cut(self) -> None:
        """Removes everything after the last complete line."""
        self._file.truncate(self._whole.size)
        self._file.seek(self._whole.size)


def _began(frame: Frame) -> str:
    """Returns the beginning of a frame's line."""
    sequence, time_s = frame.sequence, frame.time_s
    if type(sequence) is int and type(time_s) is float and math.isfinite(time_s):
        return f'{{"sequence":{sequence},"time_s":{time_s!r}'
    raise TypeError("a faulty frame")


def line_hash(previous: str, body: str) -> str:
    """Returns the hash of a line, computed from the previous hash and the line's own
    bytes.
    """
    return hashlib.sha256(f"{previous}{body}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Line:
    """A verified line: its number, counted from 1, its content and its exact text."""

    number: int
    content: dict[str, Any]
    text: str


def read_record(path: Path) -> Iterator[Line]:
    """Yields the lines of a record, each verified against the hash of the line before.

    Raises:
        BrokenRecord: A line was changed, moved or truncated.
        UnfinishedRecord: The record has no end line.
    """
    head, number, ended = ORIGIN, 0, False
    try:
        with path.open("rb") as file:
            while raw := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                place = f"line {number}"
                if ended:
                    problem = "this line comes after the end of the record"
                    raise BrokenRecord(problem, source=str(path), place=place)
                line = _verified(path, raw, number, head)
                head = line.content["hash"]
                ended = "end" in line.content
                if ended and line.content.get("lines") != number - 1:
                    problem = f"this end line does not match the {number - 1} lines"
                    problem += " before it"
                    raise BrokenRecord(problem, source=str(path), place=place)
                yield line
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        records = sorted(path.glob("*.run.jsonl"))
        mend = f"give a run record in it, such as {records[0]}" if records else ""
        mend = mend or mend_of(error, path)
        raise BrokenRecord(reason, source=str(path), mend=mend) from error
    if not ended:
        raise UnfinishedRecord(
            "the record has no end line: it was not closed, or it is truncated",
            source=str(path),
            place=f"after line {number}",
            mend="all lines up to there are intact and can be replayed",
        )


def _verified(path: Path, raw: bytes, number: int, head: str) -> Line:
    place = f"line {number}"

    def broken(problem: str) -> BrokenRecord:
        return BrokenRecord(problem, source=str(path), place=place)

    if number == 1:
        begins = raw[:200].decode("utf-8", "replace")
        if format_of(begins) not in ("", "forewarn.run"):
            kind = other_kind(begins, "a run record")
            raise broken(f"{kind} (run records are named *.run.jsonl)")
    if len(raw) > MAX_LINE_BYTES:
        raise broken(f"this line is longer than {MAX_LINE_BYTES} bytes")
    if number == 1 and not raw.startswith(_BEGINNING[: len(raw)]):
        raise broken("not a run record (run records are named *.run.jsonl)")
    if not raw.endswith(b"\n"):
        raise UnfinishedRecord(
            "the record is truncated in the middle of this line",
            source=str(path),
            place=place,
        )
    try:
        text = raw[:-1].decode("utf-8")
    except UnicodeDecodeError:
        raise broken("not UTF-8 text") from None
    try:
        content = parse_json(text, str(path), place)
    except InvalidInput as error:
        raise broken(error.problem) from None
    if not isinstance(content, dict) or not isinstance(content.get("hash"), str):
        raise broken("not a line of a run record (run records are named *.run.jsonl)")
    if number == 1 and content.get("format") != FORMAT:
        raise broken(f"not a run record of format {FORMAT}")
    if number > 1 and content.get("previous") != head:
        raise broken("this line does not contain the hash of the line before it")
    if number > 1 and not content.keys() & _LINES:
        raise broken("this line is not a review, an event or the end line")
    written, hashed, behind = text.rpartition(f',"hash":"{content["hash"]}"')
    if not hashed or line_hash(head, f"{written}}}") != content["hash"]:
        raise broken("this line was changed after it was written")
    if behind != "}" and not (number == 1 and _is_old(written, behind, content)):
        raise broken(f"{behind!r:.60} was added to this line after it was written")
    return Line(number, content, text)


def _is_old(written: str, behind: str, first: Mapping[str, Any]) -> bool:
    """Whether a record has the older form, with machine facts after its hash."""
    machine = first.get("machine")
    if not isinstance(machine, dict) or "machine" in parse_json(f"{written}}}", ""):
        return False
    short = all(isinstance(v, str) and len(v) <= MOST_FACT for v in machine.values())
    return short and behind == f',"machine":{_encode(machine)}}}'
