"""Replaying a run record: every decision derived again from the recorded frames."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, InvalidModel
from forewarn.abstractions.files import read_bytes
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.chains.model import load_models
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.guard import BROKEN_OFF, FAILED, UNTOLD, Guard
from forewarn.monitors.guarding.judges import Judge
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.record import (
    BrokenRecord,
    Line,
    decoded,
    encodable,
    read_record,
)
from forewarn.monitors.guarding.watch import Watch, load_watch

_BY_BITS = re.compile("state ([01]+) was never seen in training: widened.*")


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first decision that came out differently.

    Args:
        line: Its line in the record, from 1.
        sequence: The frame.
        field: The first field of the decision that differs.
        recorded: What the record says.
        replayed: What came out now.
    """

    line: int
    sequence: int
    field: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        return (
            f"line {self.line}, frame {self.sequence}: {self.field} was"
            f" {self.recorded!r} and is now {self.replayed!r}"
        )


class _Model(Strict, extra="ignore"):
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class _Header(Strict, extra="ignore"):
    """What replaying takes of a header; it says more."""

    model: _Model
    policy: dict[str, Any]
    laws: list[str]
    provides: list[str] | None
    judges: list[dict[str, Any]] = []


class _Recorded:
    """What befell the guard from outside when the record was written.

    Before each review it is told the readings of the guard's clock, the time to give
    where there are none, and the reason of the decision, which says what failed.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        guard.clock = self._clock
        guard.observers.append(self)

    def before(self, readings: list[float], otherwise: float, reason: str) -> None:
        """The next review."""
        self._readings, self._otherwise = readings, otherwise
        self._failure = reason.removeprefix(UNTOLD) if reason.startswith(UNTOLD) else ""
        if reason == BROKEN_OFF or reason.startswith(FAILED):
            self._guard.break_off(reason)

    def _clock(self) -> float:
        return self._readings.pop(0) if self._readings else self._otherwise

    def reviewed(self, *heard: object) -> None:
        """Fails as an observer did then; most did not."""
        if self._failure:
            kind, _, said = self._failure.partition(": ")
            raise type(kind, (Exception,), {})(said)


MakeJudge = Callable[[Mapping[str, Any]], Judge]
"""Makes a judge again of what its record keeps of it."""


def _no_judge(content: Mapping[str, Any]) -> Judge:
    raise InvalidInput("its guard had rules or programs, and nobody makes them again")


def model_file(record: Path, digest: str) -> Path:
    """Where a record's model is kept: beside it, by its digest."""
    return record.parent / f"model-{digest[:16]}.json"


def replay(
    record: Path,
    model: Path | None = None,
    heard: Callable[[int, Watch], None] = lambda line, watch: None,
    make_judge: MakeJudge = _no_judge,
) -> tuple[int, Divergence | None]:
    """Derives every decision again.

    Args:
        record: The run record.
        model: The model it was made with; by default the copy kept beside it.
        heard: Told after each review of its line, and of the watch as it is then.
        make_judge: Makes the guard's rules and programs again.

    Returns:
        How many reviews were replayed alike, and the first that was not.

    Raises:
        BrokenRecord: When the record itself does not verify.
        InvalidModel: When the model is not the one that the record was made with.
    """
    lines = read_record(record)
    header = next(lines).content
    try:
        guard = _guard(header, record, model, make_judge)
        recorded = _Recorded(guard)
    except InvalidInput as error:
        raise error if error.source else error.within(str(record), "line 1") from error
    alike = 0
    try:
        for line in lines:
            if "decision" not in line.content:
                continue
            divergence = _review(guard, recorded, line, record)
            heard(line.number, guard.watch)
            if divergence is not None:
                return alike, divergence
            alike += 1
    except BrokenRecord as error:
        before = f"the {alike} decisions before it come out as recorded"
        raise BrokenRecord(
            error.problem, source=error.source, place=error.place, mend=before
        ) from error
    return alike, None


def _guard(
    header: Mapping[str, Any], record: Path, model: Path | None, make_judge: MakeJudge
) -> Guard:
    said = validated(_Header, header, f"{record}: line 1", BrokenRecord)
    digest, laws, provides = said.model.sha256, said.laws, said.provides
    policy = Policy.from_dict(said.policy, f"{record}: policy")
    path = model or model_file(record, digest)
    if hashlib.sha256(read_bytes(path)).hexdigest() != digest:
        raise InvalidModel(
            "not the model that the record was made with",
            source=str(path),
            mend=f"its SHA-256 must be {digest}",
        )
    watch = load_watch(
        load_models(path),
        horizon_s=policy.horizon_s,
        delta=policy.delta,
        laws=laws,
        provides=provides,
        source=str(path),
    )
    judges = [make_judge(content) for content in said.judges]
    return Guard(watch, policy, provides=provides, judges=judges)


def _review(
    guard: Guard, outside: _Recorded, line: Line, record: Path
) -> Divergence | None:
    content = line.content
    try:
        recorded = dict(content["decision"])
        if notes := recorded.get("notes"):
            recorded["notes"] = [_in_words(note, guard.watch) for note in notes]
        frame = _frame(content)
        proposal = foreseen = None
        if "proposal" in content:
            proposal = Action(**decoded(content["proposal"]))
        if "foreseen" in content:
            foreseen = _frame(content["foreseen"])
        readings = [decoded(reading) for reading in content.get("clock", ())]
        outside.before(readings, frame.time_s, str(recorded["reason"]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        place = f"line {line.number}"
        raise BrokenRecord(
            f"not a review: {error}", source=str(record), place=place
        ) from error
    decision = guard.review(frame, proposal, foreseen)
    replayed: dict[str, Any] = encodable(decision.as_dict())
    if json.dumps(replayed) == json.dumps(recorded):
        return None
    field = next(_differing(recorded, replayed), "decision")
    return Divergence(
        line.number, frame.sequence, field, recorded.get(field), replayed.get(field)
    )


def _frame(content: Mapping[str, Any]) -> Frame:
    return Frame(
        *(decoded(content[name]) for name in ("time_s", "sequence", "signals"))
    )


def _in_words(note: str, watch: Watch) -> str:
    """A note as it is put now: older records name unseen states by their bits."""
    if named := _BY_BITS.fullmatch(note):
        for part in watch.parts:
            if len(named[1]) == len(part.abstraction.predicates):
                return part.unseen(part.abstraction.bits(named[1]))
    return note


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys([*one, *other]):
        if one.get(key) != other.get(key):
            yield key
