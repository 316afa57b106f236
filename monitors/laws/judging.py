"""Evaluates laws on recorded traces: verdicts, violations, and laws without a
meaningful verdict.

A law is not applicable if the trace lacks some of its signals. A law that could not
have been broken, because its trigger never occurred or its signals never changed, is
vacuous. Neither vacuous nor inapplicable laws are ever reported as ok.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.encoding import ColumnReader, past_of
from forewarn.abstractions.errors import (
    InvalidTrace,
    SignalFault,
    near_miss,
)
from forewarn.abstractions.expression.tree import (
    And,
    Compare,
    Expression,
    Implies,
    Not,
    Or,
    signals_of,
)
from forewarn.abstractions.expression.vector import evaluate
from forewarn.abstractions.trace import Kept, Trace
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.laws.automaton import (
    Automaton,
    compile_law,
    possible_letters,
)
from forewarn.monitors.laws.clocking import Ticks, law_latches, regular_period, ticks_of
from forewarn.monitors.laws.formula import (
    Always,
    Eventually,
    Formula,
    Interval,
    Next,
    Once,
    Temporal,
    is_temporal,
)
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import Monitor, Scan, prefix_statuses, scan
from forewarn.monitors.laws.progression import Normal, normalise

Columns = dict[str, NDArray[Any]]
Judged = Literal["ok", "pending", "violated", "not applicable", "vacuous"]


@dataclass(frozen=True, slots=True)
class Breach:
    """A violation of an obligation that had been pending since `since_s`; it became
    certain at a frame and a time.
    """

    frame: int
    time_s: float
    since_s: float


AGAIN_S = 1.0
"""Violations at most this many seconds apart belong to the same instance."""


def instances(times_s: Iterable[float]) -> list[tuple[float, float]]:
    """Groups the ordered times of violations into intervals in which the law was
    broken.
    """
    found: list[tuple[float, float]] = []
    for time_s in times_s:
        if found and time_s - found[-1][1] <= AGAIN_S:
            found[-1] = found[-1][0], time_s
        else:
            found.append((time_s, time_s))
    return found


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a law for one trace.

    Args:
        law: The law's name.
        verdict: `violated` after the first violation; otherwise the verdict at the end
            of the trace.
        violations: All violations; the monitor restarts after each.
        frames: The verdict on every prefix of the trace, if requested.
        left_s: The time left to meet the obligation if the trace ends pending: in
            seconds, or in steps if the law has no clock.
        reason: Why a law is not applicable or vacuous.
    """

    law: str
    verdict: Judged
    violations: tuple[Breach, ...] = ()
    frames: tuple[str, ...] = ()
    left_s: float | None = None
    reason: str = ""


def judge(
    law: Law, trace: Trace | Kept, period_s: float | None = None, *, every: bool = False
) -> Judgement:
    """Evaluates a law on a whole trace.

    Args:
        law: The law.
        trace: The frames, or the columns of the law's signals.
        period_s: The period of the monitor's clock in seconds; by default, that of the
            trace.
        every: Whether to return the verdict on every prefix, too.

    Raises:
        InvalidTrace: A signal that the trace provides is missing from a frame.
        InvalidExpression: The law needs a clock, but the trace has none.
    """
    if not len(trace):
        raise InvalidTrace("the trace has no frames")
    seen = _seen(trace)
    missing = [name for name in law.signals if name not in seen]
    if missing:
        hint = near_miss(missing[0], seen) if len(missing) == 1 else ""
        with_unit = (name for name in seen if name.startswith(f"{missing[0]} "))
        if not hint and (close := next(with_unit, "")):
            hint = f"did you mean {close}?"
        reason = f"not in this trace: {', '.join(missing)}"
        reason += f" ({hint})" if hint else ""
        frames = ("not applicable",) * len(trace) if every else ()
        return Judgement(law.name, "not applicable", frames=frames, reason=reason)
    columns = _columns(law, trace)
    if past := past_of([law.formula]):
        columns = ColumnReader(past).told(columns, trace.times())
    judgement = _judged(law, trace, columns, period_s, every)
    if judgement.verdict == "ok":
        reason = why_vacuous(law.formula, columns, len(trace))
        if reason:
            return replace(judgement, verdict="vacuous", reason=reason)
    return judgement


def _seen(trace: Trace | Kept) -> set[str]:
    """Returns the signals that occur in any frame."""
    if isinstance(trace, Kept):
        return set(trace.signals)
    return set().union(*(frame.values for frame in trace.frames))


def _columns(law: Law, trace: Trace | Kept) -> Columns:
    if isinstance(trace, Kept):
        return trace.columns(law.signals)
    vocabulary = law.vocabulary
    known = trace.vocabulary.name if trace.vocabulary else None
    if vocabulary is not None and vocabulary.name != known:
        trace = _typed(law.signals, trace, vocabulary)
    return trace.columns(law.signals)


def _typed(signals: tuple[str, ...], trace: Trace, vocabulary: Vocabulary) -> Trace:
    """Returns the trace, with values converted to the law's vocabulary."""
    frames = []
    for index, frame in enumerate(trace.frames):
        row = {k: v for k, v in frame.values.items() if k in signals}
        try:
            frames.append(replace(frame, values=vocabulary.translate(row)))
        except SignalFault as fault:
            raise InvalidTrace(str(fault), place=f"frame {index}") from fault
    return replace(trace, frames=tuple(frames), vocabulary=vocabulary)


def _judged(
    law: Law, trace: Trace | Kept, columns: Columns, period_s: float | None, every: bool
) -> Judgement:
    times = trace.times()
    normal, clock = _clocked(law, trace, times, period_s)
    letters = np.zeros(len(trace), np.int64)
    for bit, proposition in enumerate(normal.propositions):
        letters |= evaluate(proposition, columns).astype(np.int64) << bit
    latches = law_latches(law.formula, normal.propositions)
    ticks = ticks_of(letters, times, clock, latches)
    # A tick that combines frames may show a letter that no single frame shows.
    shown = np.unique(ticks.letters).tolist()
    possible = {*possible_letters(normal.propositions, law.vocabulary), *shown}
    automaton = _compiled(law.formula, clock, frozenset(possible))
    found = scan(automaton, ticks.letters)
    too_early = _ends_too_early(automaton, ticks, found)
    if too_early:
        kept = found.violations[:-1]
        found = Scan(kept, "violated") if kept else Scan((), "pending", 1)
    frames: tuple[str, ...] = ()
    if every:
        prefixes = prefix_statuses(automaton, ticks.letters.tolist())
        if too_early and not found.violations:
            prefixes[-1] = "pending"
        done = np.searchsorted(ticks.frames, np.arange(len(times)), side="right")
        frames = tuple(prefixes[k - 1] for k in done.tolist())
    left_s = None
    if found.left is not None:
        left_s = found.left * (clock or 1.0)
    return Judgement(
        law.name,
        found.status,
        tuple(
            Breach(
                int(ticks.frames[v.step]),
                float(ticks.times_s[v.step]),
                float(ticks.times_s[v.since]),
            )
            for v in found.violations
        ),
        frames,
        left_s,
    )


@lru_cache(maxsize=64)
def _compiled(
    formula: Formula, clock_s: float | None, letters: frozenset[int]
) -> Automaton:
    """Compiles the automaton; cached, because most runs have the same letters."""
    return compile_law(formula, clock_s, letters=letters)


def _ends_too_early(automaton: Automaton, ticks: Ticks, found: Scan) -> bool:
    """Whether a violation is uncertain because the last tick is not over."""
    final = len(ticks.letters) - 1
    if not ticks.open or not found.violations or found.violations[-1].step != final:
        return False
    monitor = Monitor(automaton)
    for letter in ticks.letters[:-1].tolist():
        monitor.advance(letter)
    after = automaton.step[monitor.state]
    return any(
        letter in ticks.open and after[column] != automaton.violated
        for column, letter in enumerate(automaton.letters)
    )


def _clocked(
    law: Law, trace: Trace | Kept, times: NDArray[np.float64], period_s: float | None
) -> tuple[Normal, float | None]:
    """Returns the law in steps of its clock, and the clock's period; without a clock,
    each frame is a step.
    """
    given = period_s or trace.header.period_s
    units = _units(law.formula)
    clock: float | None = None
    if units - {"steps"}:
        clock = law.period(given or regular_period(times))
        if clock is None:
            gap = float(np.median(np.diff(times))) if times.size > 1 else 1.0
            raise InvalidTrace(
                "the times are irregular, and the trace does not state its period",
                mend=f"set the monitor's clock, for example --period {gap:.2g}",
            )
    elif units:
        clock = given
    return normalise(law.formula, clock), clock


def _units(formula: Formula) -> set[str]:
    """Returns the units of the formula's times; an invariant has none and needs no
    clock.
    """
    units = {"steps" for node in formula.walk() if isinstance(node, Next)}
    for node in formula.walk():
        interval = getattr(node, "interval", Interval())
        if interval != Interval():
            units.add(interval.unit)
    return units


# -- vacuous laws ----------------------------------------------------------


def why_vacuous(formula: Formula, columns: Mapping[str, NDArray[Any]], n: int) -> str:
    """Returns why the law could not have been broken in this trace; empty if it could.

    A part of a law is vacuous if its trigger is never true, or if its obligation
    compares only signals that are always none. A part without a trigger is also vacuous
    if none of its signals ever changes. Parts with only Boolean signals are an
    exception, because Boolean signals are often constant when a law is kept.
    """
    reasons = [_part_reason(part, columns, n) for part in _parts(formula)]
    return "; ".join(dict.fromkeys(reasons)) if all(reasons) else ""


def _parts(formula: Formula) -> list[Formula]:
    match formula:
        case And(parts=parts):
            return [inner for part in parts for inner in _parts(part)]
        case Always(operand=operand, interval=interval) if interval == Interval():
            return _parts(operand)
    return [formula]


def _part_reason(part: Formula, columns: Mapping[str, NDArray[Any]], n: int) -> str:
    triggers: list[Formula] = []
    while isinstance(part, Implies):
        triggers.append(part.left)
        part = part.right
    if triggers:
        if not _all(triggers, columns, n).any():
            return f"{' and '.join(map(repr, triggers))} is never true"
    names = signals_of(part)
    gone = [name for name in names if _is_none_throughout(columns[name])]
    comparisons = [node for node in part.walk() if isinstance(node, Compare)]
    if comparisons and all(set(signals_of(c)) & set(gone) for c in comparisons):
        return f"{' and '.join(gone)} is none in every frame"
    if not triggers and n > 1 and names:
        if not all(_is_truth(columns[name]) for name in names):
            if all(_is_constant(columns[name]) for name in names):
                return f"{' and '.join(names)} never changes"
    return ""


def _could(
    node: Expression, columns: Mapping[str, NDArray[Any]], n: int
) -> NDArray[np.bool_]:
    """Returns the frames in which a condition may be true; most temporal operators are
    not analysed.
    """
    if not is_temporal(node):
        return np.broadcast_to(evaluate(node, columns), n)
    match node:
        case And(parts=parts):
            return _all(parts, columns, n)
        case Or(parts=parts):
            could = np.zeros(n, bool)
            for part in parts:
                could |= _could(part, columns, n)
            return could
        case Eventually() | Once() | Next():
            return np.full(n, _could(node.operand, columns, n).any())
        case Not() | Implies() | Temporal():
            return np.ones(n, bool)
    raise TypeError(f"{node!r} is not a formula")


def _all(
    nodes: Iterable[Expression], columns: Mapping[str, NDArray[Any]], n: int
) -> NDArray[np.bool_]:
    could = np.ones(n, bool)
    for node in nodes:
        could &= _could(node, columns, n)
    return could


def _is_none_throughout(column: NDArray[Any]) -> bool:
    if column.dtype == object:
        return all(value is None for value in column)
    return column.dtype != bool and bool(np.isnan(column).all())


def _is_truth(column: NDArray[Any]) -> bool:
    """Whether a column is Boolean; a CSV file may use 0 and 1."""
    if column.dtype == object:
        return all(value is None or isinstance(value, bool) for value in column)
    return column.dtype == bool or bool(np.isin(column, (0, 1)).all())


def _is_constant(column: NDArray[Any]) -> bool:
    first = column[0]
    if column.dtype == object:
        return all(value == first for value in column)
    return bool((column == first).all() or np.isnan(column).all())
