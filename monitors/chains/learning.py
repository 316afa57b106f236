"""Learns chains from traces: counts, allowed successors, and smoothed rows.

A chain is learned by counting transitions. A `Tally` holds the counts and can grow at
any time. A `Support` defines which successors a state may have. `learn` creates a model
from both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput, InvalidTrace, near_miss
from forewarn.monitors.chains.chain import END, MAX_TRANSITIONS, check_size, count_pairs
from forewarn.monitors.chains.model import Counts, Model, smoothed_chain


@dataclass(slots=True)
class Tally:
    """Counts of transitions, trace starts and trace ends, by state name."""

    seen: dict[str, dict[str, int]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    traces: int = 0
    frames: int = 0

    def begin(self, state: str) -> None:
        """Counts the start of a trace. Like `step` and `finish`, this takes constant
        time.
        """
        self.traces += 1
        self.frames += 1
        self.starts[state] = self.starts.get(state, 0) + 1
        self.seen.setdefault(state, {})

    def step(self, before: str, after: str, times: int = 1) -> None:
        """Counts one or more occurrences of a transition."""
        self.frames += times
        row = self.seen.setdefault(before, {})
        row[after] = row.get(after, 0) + times
        self.seen.setdefault(after, {})

    def finish(self, state: str) -> None:
        """Counts the end of a trace in this state."""
        self.ends[state] = self.ends.get(state, 0) + 1

    def add_sequence(self, states: Sequence[str]) -> None:
        """Adds a whole trace, given as state names."""
        if states:
            self.begin(states[0])
            pairs = Counter(zip(states, states[1:], strict=False))
            for (before, after), times in pairs.items():
                self.step(before, after, times)
            self.finish(states[-1])

    def add_codes(
        self,
        codes: NDArray[np.integer],
        name: Callable[[int], str],
        starts: ArrayLike = (0,),
        gaps: ArrayLike = (),
    ) -> None:
        """Adds traces that are concatenated in one array of state codes.

        Args:
            codes: The states as integers, such as an abstraction's bit vectors.
            name: Converts a code to the name of its state.
            starts: The index at which each trace begins; the first begins at 0.
            gaps: The indices of states after a gap in the frames; no transition to them
                is counted.
        """
        if not len(codes):
            return
        first = np.asarray(starts, dtype=np.int64)
        last = np.append(first[1:], len(codes)) - 1
        names = {
            int(code): name(int(code)) for code in np.unique(codes[[*first, *last]])
        }
        for code in codes[first].tolist():
            self.begin(names[code])
        apart = np.union1d(first, np.asarray(gaps, dtype=np.int64))
        columns = (column.tolist() for column in count_pairs(codes, apart))
        for before, after, times in zip(*columns, strict=True):
            for code in (before, after):
                if code not in names:
                    names[code] = name(code)
            self.step(names[before], names[after], times)
        for code in codes[last].tolist():
            self.finish(names[code])

    def add(self, other: Tally) -> None:
        """Adds another tally's counts; the order of additions does not matter."""
        for before, row in other.seen.items():
            kept = self.seen.setdefault(before, {})
            for after, times in row.items():
                kept[after] = kept.get(after, 0) + times
        for ours, theirs in ((self.starts, other.starts), (self.ends, other.ends)):
            for state, times in theirs.items():
                ours[state] = ours.get(state, 0) + times
        self.traces += other.traces
        self.frames += other.frames

    @classmethod
    def of(cls, model: Model) -> Tally:
        """Returns the counts from which a model was learned, to which more can be
        added.
        """
        if model.counts is None:
            raise InvalidInput(
                "the model has no transition counts, so no traces can be added to it"
            )
        names, end = model.chain.states, model.chain.end
        tally = cls(
            starts={names[i]: times for i, times in model.starts.items()},
            traces=sum(model.starts.values()),
        )
        tally.frames = tally.traces
        for i, name in enumerate(names):
            if i == end:
                continue
            tally.seen.setdefault(name, {})
            for j, times in model.counts.row(i).items():
                if j == end:
                    tally.ends[name] = times
                elif times:
                    tally.step(name, names[j], times)
        return tally


@dataclass(frozen=True, slots=True)
class Support:
    """The successors that each state may have.

    Args:
        kind: "observed", "valid", "all" or "declared".
        rows: The allowed successors by state, if declared beforehand. A state that is
            not listed is absorbing.
    """

    kind: str
    rows: Mapping[str, Sequence[str]] | None = None

    @classmethod
    def declared(cls, content: object, source: str = "") -> Support:
        """Parses the support from a JSON object `{"state": ["successor", …]}`."""
        if not isinstance(content, dict) or not content:
            raise InvalidInput(
                "a support must be a JSON object that maps states to their successors",
                mend='write {"state": ["allowed successor", …]}',
                source=source,
            )
        check_size(len(content), source=source)
        for state, row in content.items():
            if not isinstance(row, list) or not all(isinstance(s, str) for s in row):
                raise InvalidInput(
                    "the allowed successors must be a list of state names",
                    source=source,
                    place=state,
                )
            if len(set(row)) < len(row):
                twice = next(s for s in row if row.count(s) > 1)
                raise InvalidInput(
                    f"the successor {twice!r} appears twice", source=source, place=state
                )
        check_size(len(content), sum(map(len, content.values())), source)
        return cls("declared", content)

    @classmethod
    def valid(cls, abstraction: Abstraction) -> Support:
        """Allows every transition that is possible under the abstraction."""
        states = abstraction.valid_states(int(MAX_TRANSITIONS**0.5))
        names = [abstraction.state_name(bits) for bits in states]
        texts = abstraction.texts
        lasting = sum(1 << texts.index(repr(p)) for p in abstraction.irreversible)
        after: dict[int, list[str]] = {}
        for kept in {bits & lasting for bits in states}:
            after[kept] = [
                name
                for name, bits in zip(names, states, strict=True)
                if kept & ~bits == 0
            ]
        pairs = zip(names, states, strict=True)
        return cls("valid", {name: after[bits & lasting] for name, bits in pairs})

    @classmethod
    def of(cls, model: Model) -> Support:
        """Returns the support that was used to smooth a learned model."""
        if model.counts is None or model.support in ("observed", "all"):
            return cls(model.support)
        names, end = model.chain.states, model.chain.end
        rows = {
            name: [names[j] for j in model.counts.support(i) if j != end]
            for i, name in enumerate(names)
            if i != end
        }
        return cls(model.support, {name: row for name, row in rows.items() if row})


OBSERVED = Support("observed")


def learn(
    tally: Tally,
    support: Support = OBSERVED,
    alpha: Fraction = Fraction(0),
    end: str = "absorb",
    **facts: Any,
) -> Model:
    """Learns a model from the counts, the support and the pseudo-count.

    Args:
        tally: The observed counts.
        support: The successors over which rows are smoothed.
        alpha: The pseudo-count of each allowed successor.
        end: "absorb" counts the end of a trace as a transition into the absorbing END;
            states where no trace ended get no such transition. "ignore" does not count
            the ends of traces.
        facts: Further fields of the `Model`.
    """
    absorb = end == "absorb"
    declared = support.rows
    if absorb and declared is not None:
        # Only states in which a trace ended may lead to END; declared transitions to
        # END are ignored.
        without = {
            name: [s for s in row if s != END]
            for name, row in declared.items()
            if name != END
        }
        support = replace(support, rows=without)
    allowed = _allowed(tally, support)
    if absorb and END in allowed:
        raise InvalidInput(
            f"a state is named {END}, which is reserved for the end of a trace",
            mend="rename the state, or learn with --end ignore",
        )
    states = sorted(allowed, key=_natural)
    if absorb:
        states.append(END)
    check_size(len(states), sum(map(len, allowed.values())) + len(tally.ends))
    number = {name: i for i, name in enumerate(states)}
    rows: list[dict[int, int]] = []
    for name, successors in allowed.items():
        seen = tally.seen.get(name, {})
        row = {number[s]: seen.get(s, 0) for s in successors}
        # A state with a declared transition to END is not absorbing.
        stays = declared is not None and set(declared.get(name, ())) <= {name}
        if absorb and name in tally.ends and not stays:
            row[number[END]] = tally.ends[name]
        rows.append(row)
    order = np.argsort([number[name] for name in allowed])
    rows = [rows[i] for i in order.tolist()]
    last = number.get(END) if absorb else None
    if last is not None:
        rows.append({last: 0})
    counts = Counts.from_rows(rows)
    first = max(tally.starts, key=lambda s: (tally.starts[s], -number[s]), default=None)
    chain, unvisited = smoothed_chain(
        states,
        counts,
        alpha,
        initial=None if first is None else number[first],
        end=last,
    )
    return Model(
        chain=chain,
        counts=counts,
        unvisited=unvisited,
        starts={number[s]: times for s, times in tally.starts.items()},
        alpha=alpha,
        support=support.kind,
        end=end,
        **facts,
    )


def _allowed(tally: Tally, support: Support) -> dict[str, Collection[str]]:
    """Returns the allowed successors of each state."""
    if support.rows is None:
        if support.kind == "all":
            check_size(len(tally.seen), len(tally.seen) ** 2)
            return {name: tally.seen.keys() for name in tally.seen}
        return {name: row.keys() for name, row in tally.seen.items()}
    allowed: dict[str, Collection[str]] = {s: row for s, row in support.rows.items()}
    for row in support.rows.values():
        for successor in row:
            allowed.setdefault(successor, ())
    for name, seen in tally.seen.items():
        if name not in allowed:
            raise InvalidTrace(
                f"the state {name!r} occurs in a trace, but not in the support",
                mend=near_miss(name, allowed) or "add the state to the support",
            )
        permitted = set(allowed[name]) or {name}
        if strange := next((s for s in seen if s not in permitted), None):
            raise InvalidTrace(
                f"a trace goes from {name!r} to {strange!r}, but the support does "
                "not allow that transition",
                mend=(
                    "add the transition to the support, or smooth over observed "
                    "transitions"
                ),
            )
        if not allowed[name] and seen:
            allowed[name] = (name,)
    return allowed


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Returns a sort key that puts s2 before s10 and sorts bit vectors by value."""
    parts = re.findall(r"\d+|\D+", name, re.ASCII)
    numbers = (part.lstrip("0") for part in parts)
    return [
        (len(digits), digits) if part[0] in "0123456789" else (-1, part)
        for part, digits in zip(parts, numbers, strict=True)
    ], name


MAX_PAIRS = 20_000
"""The maximum number of distinct transitions in a live tally; shipped models have about
3,000.
"""


class LiveTally:
    """Counts the transitions of one episode as they happen.

    Frames after an intervention do not show how the unguarded world behaves, so nothing
    is counted between `stop` and `begin`.

    Attributes:
        stopped: Whether an intervention has happened.
        beyond: The number of transitions not counted because there were too many
            distinct ones.
    """

    __slots__ = ("_before", "_began", "_first", "_steps", "beyond", "stopped")

    def __init__(self) -> None:
        self._steps: dict[tuple[int, int], int] = {}
        self._first: int | None = None
        self.beyond = 0
        self.begin()

    def begin(self) -> None:
        """Starts a new episode."""
        self._before: int | None = None
        self._began = self.stopped = False

    def observe(self, bits: int) -> None:
        """Records the state after a tick."""
        if self.stopped:
            return
        before, self._before = self._before, bits
        if before is None:
            if not self._began:
                self._began, self._first = True, bits
            return
        steps, pair = self._steps, (before, bits)
        seen = steps.get(pair)
        if seen is not None:
            steps[pair] = seen + 1
        elif len(steps) < MAX_PAIRS:
            steps[pair] = 1
        else:
            self.beyond += 1

    def skip(self) -> None:
        """Records a gap in the frames; no transition is counted across the gap."""
        self._before = None

    def stop(self) -> None:
        """Records an intervention; has no effect before the episode's first state."""
        self.stopped = self.stopped or self._began

    def go_on(self, other: LiveTally) -> None:
        """Stops counting here, and continues in another tally from the same state."""
        other.begin()
        if self._before is not None:
            other.observe(self._before)
        self.stop()

    def take(self, name: Callable[[int], str], ended: bool) -> Tally:
        """Returns the counts since the last call, and resets them.

        Args:
            name: Converts a state to its name.
            ended: Whether the episode is over and ended naturally.
        """
        tally = Tally()
        if self._first is not None:
            tally.begin(name(self._first))
        for (before, after), times in self._steps.items():
            tally.step(name(before), name(after), times)
        if ended and not self.stopped and self._before is not None:
            tally.finish(name(self._before))
            # The episode is over, so nothing may be counted twice.
            self.stopped = True
        self._steps, self._first = {}, None
        return tally
