"""Replays a run record: recomputes every decision from the recorded frames."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from forewarn.abstractions.errors import InvalidExpression, InvalidInput, InvalidModel
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.chains.model import load_models
from forewarn.monitors.guarding.certificate import digest_of
from forewarn.monitors.guarding.chain import WIDENED
from forewarn.monitors.guarding.decision import Action, Judge
from forewarn.monitors.guarding.encoding import decoded, encodable
from forewarn.monitors.guarding.guard import BROKEN_OFF, FAILED, UNTOLD, Guard
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.record import BrokenRecord, Line, read_record
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.records import ANEW, model_file


def _program(content: Mapping[str, Any]) -> Judge:
    from forewarn.plugins.programs.judging import judge_of

    return judge_of(content)


def _rules(content: Mapping[str, Any]) -> Judge:
    from forewarn.plugins.programs.rules import judge_of

    return judge_of(content)


MAKERS: dict[str, Callable[[Mapping[str, Any]], Judge]] = {
    "forewarn.guard-program/1": _program,
    "forewarn.rules/1": _rules,
}
"""Makes a judge from its content, by format. Judges are rare, so their code is imported
when it is needed.
"""

_BY_BITS = re.compile("state ([01]+) was never seen in training: widened.*")
_TO_NEAREST = re.compile("widened to its nearest$")


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first decision that differs from the recorded one.

    Args:
        line: The line number in the record, starting at 1.
        sequence: The sequence number of the frame.
        field: The name of the first field that differs.
        recorded: The value of the field in the record.
        replayed: The recomputed value of the field.
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
    """The fields of a record's header that are needed for replay."""

    model: _Model
    policy: dict[str, Any]
    laws: list[str]
    provides: list[str] | None
    judges: list[dict[str, Any]] = []
    revoked: str = ""


class _Recorded(Listener):
    """Reproduces the clock readings and listener failures of the recorded run."""

    def before(
        self, guard: Guard, readings: list[float], otherwise: float, reason: str
    ) -> None:
        """Sets the clock readings and the failure for the next review.

        The argument `otherwise` is the time to return when no readings are left. The
        `reason` of the recorded decision names the failure, if any.
        """
        self._readings, self._otherwise = readings, otherwise
        self._failure = reason.removeprefix(UNTOLD) if reason.startswith(UNTOLD) else ""
        if reason == BROKEN_OFF or reason.startswith(FAILED):
            guard.break_off(reason)

    def clock(self) -> float:
        """Returns the next recorded reading of the guard's clock in seconds."""
        return self._readings.pop(0) if self._readings else self._otherwise

    def reviewed(self, *heard: object) -> None:
        """Raises an error if a listener failed at this point in the recorded run."""
        if self._failure:
            kind, _, said = self._failure.partition(": ")
            raise type(kind, (Exception,), {})(said)


def make_judge(content: Mapping[str, Any]) -> Judge:
    """Rebuilds rules or a guard program from a record's header.

    Raises:
        InvalidInput: The header contains a judge of an unknown format.
    """
    make = MAKERS.get(str(content.get("format")))
    if make is None:
        raise InvalidInput(
            f"the record contains a judge of an unknown format: "
            f"{content.get('format')!r:.60}",
            mend=f"the known formats are {', '.join(MAKERS)}",
        )
    return make(content)


def replay(
    record: Path,
    model: Path | None = None,
    heard: Callable[[int, Watch], None] = lambda line, watch: None,
) -> tuple[int, Divergence | None]:
    """Recomputes every decision of a record, and compares it with the recorded one.

    Args:
        record: The run record.
        model: The model file; by default the copy next to the record.
        heard: Called after each review with the line number and the guard's watch.

    Returns:
        The number of identical decisions, and the first decision that differs, if any.

    Raises:
        BrokenRecord: The record is invalid or was changed.
        InvalidModel: The model differs from that of the recorded run.
    """
    lines = read_record(record)
    header = next(lines).content
    try:
        recorded = _Recorded()
        guard = _guard(header, record, model, recorded)
    except InvalidInput as error:
        raise error if error.source else error.within(str(record), "line 1") from error
    alike = 0
    try:
        for line in lines:
            if line.content.get("event") == ANEW:
                guard.revoke(str(line.content.get("revoked", "")))
                guard.reset()
            if "decision" not in line.content:
                continue
            divergence = _review(guard, recorded, line, record)
            heard(line.number, guard.watch)
            if divergence is not None:
                return alike, divergence
            alike += 1
    except BrokenRecord as error:
        before = f"the {alike} decisions before this line are identical"
        raise BrokenRecord(
            error.problem, source=error.source, place=error.place, mend=before
        ) from error
    return alike, None


def _guard(
    header: Mapping[str, Any], record: Path, model: Path | None, recorded: _Recorded
) -> Guard:
    said = validated(_Header, header, f"{record}: line 1", BrokenRecord)
    digest, provides = said.model.sha256, said.provides
    policy = Policy.from_dict(said.policy, f"{record}: policy")
    path = model or model_file(record, digest)
    if digest_of(path) != digest:
        raise InvalidModel(
            "the record was made with a different model",
            source=str(path),
            mend=f"the SHA-256 of the model must be {digest}",
        )
    guarding = Guarding(
        load_models(path),
        policy,
        str(path),
        laws=said.laws,
        judges=lambda: [make_judge(content) for content in said.judges],
    )
    try:
        guard = guarding.guard(provides, recorded.clock, [recorded])
        guard.revoke(said.revoked)
        return guard
    except InvalidModel as error:
        if isinstance(error.__cause__, InvalidExpression):
            raise error.__cause__ from None  # the laws are those of the record
        raise


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
        outside.before(guard, readings, frame.time_s, str(recorded["reason"]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        place = f"line {line.number}"
        raise BrokenRecord(
            f"the line is not a valid review: {error}", source=str(record), place=place
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
    """Rewords a note about an unseen state in an older record."""
    if named := _BY_BITS.fullmatch(note):
        for part in watch.parts:
            if len(named[1]) == len(part.abstraction.predicates):
                return part.unseen(part.abstraction.bits(named[1]))
    return _TO_NEAREST.sub(WIDENED, note)


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for key in dict.fromkeys([*one, *other]):
        if one.get(key) != other.get(key):
            yield key
