"""Merges the tallies of many guards into a model; adds each tally exactly once.

Counts are summed, so the order does not matter: if no contributor is rejected, the same
tallies give the same model, whether they are merged together or one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from forewarn.abstractions.errors import InvalidModel, TooLarge, naming
from forewarn.monitors.chains.formats.own import MAX_COUNT
from forewarn.monitors.chains.intervals import binomial_bounds
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.fleet.tallies import (
    Counted,
    FleetTally,
    InvalidTally,
    Stopped,
    Subject,
    outcomes_of,
    runs_of,
)
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.evidence import (
    abstraction_of,
    assess,
    compile_for,
    laws_named,
    needed_abstraction,
)
from forewarn.monitors.risk.tables import RiskTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """The transition counts of all contributors, as a sparse matrix.

    Args:
        tallies: The tally of each contributor.
        states: The names of all states in any tally.
        before: The index of the source state of each transition.
        after: The index of the target state of each transition.
        who: The index of the contributor of each count.
        pair: The index of the transition of each count.
        times: The counts.
    """

    tallies: tuple[FleetTally, ...]
    states: tuple[str, ...]
    before: Ints
    after: Ints
    who: Ints
    pair: Ints
    times: Floats

    @classmethod
    def of(cls, tallies: Sequence[FleetTally]) -> Stack:
        """Combines tallies with the same subject."""
        number: defaultdict[str, int] = defaultdict(count().__next__)
        before, after, times, who = (list[int]() for _ in range(4))
        for index, each in enumerate(tallies):
            states = each.states
            places = {name: number[name] for name in states}
            for name in states:
                row = each.tally.seen[name]
                before += [places[name]] * len(row)
                after += map(places.__getitem__, row)
                times += row.values()
                who += [index] * len(row)
        wide = max(len(number), 1)
        keys, pair = np.unique(
            np.array(before, np.int64) * wide + np.array(after, np.int64),
            return_inverse=True,
        )
        return cls(
            tuple(tallies),
            tuple(number),
            keys // wide,
            keys % wide,
            np.array(who, np.int64),
            pair.astype(np.int64),
            np.array(times, np.float64),
        )

    @property
    def contributors(self) -> int:
        return len(self.tallies)

    def total(self, chosen: Sequence[int]) -> Tally:
        """Returns the sum of the tallies of some contributors."""
        parts = [self.tallies[i] for i in chosen]
        there = set[str]().union(*(each.states for each in parts))
        tally = Tally(seen={name: {} for name in self.states if name in there})
        for each in parts:
            own = ((tally.starts, each.tally.starts), (tally.ends, each.tally.ends))
            for into, counts in own:
                for name, times in counts.items():
                    into[name] = into.get(name, 0) + times
        # Integers below 2⁵³ are exact as floats.
        inside = np.isin(self.who, chosen)
        sums = np.bincount(self.pair[inside], self.times[inside], len(self.before))
        seen = np.flatnonzero(sums)
        columns = (self.before[seen], self.after[seen], sums[seen].astype(np.int64))
        for before, after, times in zip(*(c.tolist() for c in columns), strict=True):
            tally.seen[self.states[before]][self.states[after]] = times
        tally.traces = sum(tally.starts.values())
        tally.frames = tally.traces + int(sums.sum())
        return tally


Bools = NDArray[np.bool_]

FALSE_REJECTION = 1e-6
"""The default for the maximum probability that any contributor is rejected wrongly."""

_AT_ONCE = 100
"""At most one in this many contributors (or one contributor) is rejected in each round,
the worst first. Then the others are compared again.
"""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A contributor whose counts contradict those of the others.

    Args:
        index: The contributor's index.
        state: The state with the greatest contradiction.
        evidence: The evidence against the contributor, as a multiple of the limit for
            rejection.
    """

    index: int
    state: str
    evidence: float


def rejected(
    stack: Stack, delta: float = 0.05, rate: float = FALSE_REJECTION
) -> list[Rejected]:
    """Returns the contributors whose counts contradict those of the others, the worst
    first.

    Args:
        stack: The counts of the contributors. The first tally is that of the model
            itself, which is never rejected.
        delta: The error probability of the bounds that are computed from the other
            contributors' counts.
        rate: The maximum probability that any contributor is rejected wrongly.
    """
    totals = _sums(stack.pair, stack.times, len(stack.before))
    left = np.ones(stack.contributors, bool)
    found: list[Rejected] = []
    while True:
        worst = [
            each for each in _worst(stack, totals, left, delta, rate) if each.index
        ]
        for each in worst[: max(1, int(left.sum()) // _AT_ONCE)]:
            found.append(each)
            left[each.index] = False
            out = stack.who == each.index
            np.subtract.at(totals, stack.pair[out], stack.times[out])
        if not worst:
            return found


def _worst(
    stack: Stack, totals: Floats, left: Bools, delta: float, rate: float
) -> list[Rejected]:
    """Returns the remaining contributors whose counts contradict the others', the worst
    first.
    """
    states = len(stack.states)
    groups = stack.contributors * states
    state_of = np.tile(np.arange(states), stack.contributors)
    entries = left[stack.who]
    pair, times = stack.pair[entries], stack.times[entries]
    # A group contains one contributor's transitions from one state.
    group = stack.who[entries] * states + stack.before[pair]
    others = totals[pair] - times
    known = others > 0
    visits = _sums(stack.before, totals, states)[state_of]
    visits = visits - _sums(group, times, groups)
    outside = _sums(group[~known], times[~known], groups)
    # The successors that the others saw, plus one place for all unseen successors.
    places = _sums(stack.before, totals > 0, states)[state_of] + 1.0
    spread = 1.0 / (places - _sums(group[~known], None, groups))
    group, times, others = group[known], times[known], others[known]
    stakes = (
        _sums(group, _urn(times, spread[group]), groups)
        + np.where(outside > 0, _urn(outside, spread), 0.0)
        - gammaln(_sums(group, times, groups) + outside + 1.0)
    )
    tail = delta / max(int((totals > 0).sum()) + states, 1)
    with np.errstate(divide="ignore"):
        most = np.where(visits > 0, -np.expm1(np.log(tail) / visits), 1.0)
    gained = stakes - outside * np.log(most)
    # The upper bound is at least the frequency, so a group that is below the limit for
    # rejection with the frequency is also below it with the bound.
    odds = np.log(others / visits[group])
    limit = np.log(max(states, 1)) - np.log(rate)
    doubtful = (gained - _sums(group, times * odds, groups) > limit)[group]
    if doubtful.any():
        bounds = binomial_bounds(others[doubtful], visits[group[doubtful]], tail)
        odds[doubtful] = np.log(bounds[1])
    reached = (gained - _sums(group, times * odds, groups)) / limit
    found: dict[int, Rejected] = {}
    for at in np.argsort(-reached)[: int((reached > 1.0).sum())].tolist():
        index, state = at // states, stack.states[at % states]
        found.setdefault(index, Rejected(index, state, float(reached[at])))
    return list(found.values())


def _sums(index: Ints, values: Floats | Bools | None, length: int) -> Floats:
    """Returns the sum of the values for each index; without values, the number of
    occurrences.
    """
    return np.bincount(index, values, length).astype(np.float64)


def _urn(times: Floats, share: Floats) -> Floats:
    """Returns the logarithm of the rising factorial share (share + 1) … (share + times
    - 1).
    """
    return np.asarray(gammaln(times + share) - gammaln(share))


_ROUNDING = 1e-9

Interval = tuple[float, float, float]
"""The lower bound, the estimate and the upper bound of a risk."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A risk whose new estimate is outside its earlier confidence bounds.

    Args:
        law: The name of the law.
        state: The name of the model's state.
        monitor: The state of the law's monitor.
        before: The risk before the merge, with bounds.
        after: The risk after the merge, with bounds.
    """

    law: str
    state: str
    monitor: str
    before: Interval
    after: Interval

    @property
    def by(self) -> float:
        """The absolute difference between the risks."""
        return abs(self.after[1] - self.before[1])


def moved(
    before: Model, after: Model, laws: Sequence[Law], horizon_s: float, delta: float
) -> list[Moved]:
    """Returns the risks that moved out of their confidence bounds, the largest change
    first.

    For each law and state, only the monitor state with the largest change is listed.
    """
    found: list[Moved] = []
    abstraction = abstraction_of(before)
    period_s = before.period_s
    if abstraction is None or not period_s:
        return found
    steps = max(1, round(horizon_s / period_s))
    for law in laws:
        automaton = compile_for(law.formula, abstraction, period_s)
        old = assess(before, automaton, steps, delta=delta)
        new = assess(after, automaton, steps, delta=delta)
        found += _moved(law.name, old, new)
    return sorted(found, key=lambda each: (-each.by, each.law, each.state))


def _moved(law: str, old: RiskTable, new: RiskTable) -> list[Moved]:
    automaton, number = old.automaton, {name: i for i, name in enumerate(new.states)}
    found: list[Moved] = []
    for state, name in enumerate(old.states):
        if state == old.end or name not in number:
            continue
        several: list[Moved] = []
        for monitor, said in enumerate(automaton.names):
            if monitor == automaton.violated or not old.consistent[monitor, state]:
                continue
            was, is_now = _at(old, monitor, state), _at(new, monitor, number[name])
            if not was[0] - _ROUNDING <= is_now[1] <= was[2] + _ROUNDING:
                several.append(Moved(law, name, said, was, is_now))
        if several:
            found.append(max(several, key=lambda each: each.by))
    return found


def _at(table: RiskTable, monitor: int, state: int) -> Interval:
    point = table.lookup(monitor, state)
    low, high = table.bounds(monitor, state) or (point, point)
    return low, point, high


FLEET = "fleet"
"""The key in a model's training facts for the number of transitions of each
contributor.
"""

MAX_CONTRIBUTORS = 1_000_000
"""The maximum number of contributors; with more, the model file would be too large."""


@dataclass(frozen=True, slots=True)
class Merge:
    """The result of merging tallies into a model.

    Args:
        model: The model with all added tallies.
        added: The tallies that were added, by id.
        known: The ids of tallies that had been added before.
        refused: The tallies whose counts contradict those of the others, with the
            evidence.
        beyond: The number of transitions that guards did not count because there were
            too many distinct ones.
        stopped: The tallies that were not added because their guards stopped every run
            at an intervention for a law of this model; transitions after high risks are
            therefore missing.
    """

    model: Model
    added: tuple[FleetTally, ...]
    known: tuple[str, ...]
    refused: tuple[tuple[FleetTally, Rejected], ...]
    beyond: int
    stopped: tuple[FleetTally, ...] = ()

    @property
    def censored(self) -> dict[str, int]:
        """For each law, the number of added runs that an intervention ended early."""
        return runs_of(each.stopped_by for each in self.added)

    @property
    def unweighted(self) -> dict[str, int]:
        """For each law, the number of added runs that an intervention ended early, from
        guards that always enforced the law's interventions.
        """
        return runs_of(each.unweighted for each in self.added)

    @property
    def let_pass(self) -> dict[str, int]:
        """For each law, the number of runs whose intervention was not enforced."""
        return runs_of(each.let_pass for each in self.added)

    @property
    def after_stops(self) -> dict[str, Stopped]:
        """The outcomes of stopped runs, by the risk band in which they were stopped."""
        return outcomes_of(each.after_stops for each in (*self.added, *self.stopped))


def contributors(model: Model) -> dict[str, int]:
    """Returns the number of transitions in a model from each contributor, by id."""
    ledger = model.training.get(FLEET, {})
    if not isinstance(ledger, dict) or set(map(type, ledger.values())) - {int}:
        raise InvalidModel(
            "expected a mapping from contributors' ids to their transition counts",
            place=f"training.{FLEET}",
        )
    return dict(ledger)


def merge(
    model: Model,
    tallies: Iterable[tuple[str, FleetTally]],
    *,
    accept: bool = False,
    source: str = "the model",
) -> Merge:
    """Adds tallies to a model.

    Args:
        model: A model that was learned from traces.
        tallies: The tallies, each with the name of its file for error messages.
        accept: Whether to add even tallies that contradict the others, and tallies of
            guards that stopped every run at high risks of a law of this model.
        source: The name of the model's file, for error messages.

    Raises:
        InvalidTally: A tally was counted with a different model, or differs from a
            tally with the same id.
    """
    subject = Subject.of(model, source)
    abstraction = needed_abstraction(model, source)
    ledger = contributors(model)
    fresh: dict[str, FleetTally] = {}
    known: set[str] = set()
    for file, each in tallies:
        subject.refuse_other(each.subject, file)
        _refuse_strange(each, len(abstraction.predicates), file)
        twin = fresh.get(each.id, each)
        same = twin is each or twin.as_dict() == each.as_dict()
        if not same or ledger.get(each.id, each.transitions) != each.transitions:
            raise InvalidTally(
                f"a different tally has the same id, {each.id}",
                source=file,
                mend=(
                    "merge only one of them; in future, delete a tally's file after "
                    "merging it, so that the guard starts a new tally"
                ),
            )
        if each.id in ledger:
            known.add(each.id)
        else:
            fresh[each.id] = each
    own = {law.name for law in laws_named(model)}
    stopped = [
        key
        for key, each in sorted(fresh.items())
        if not (accept or own.isdisjoint(each.unweighted))
    ]
    cut_off = tuple(fresh.pop(key) for key in stopped)
    given = [fresh[key] for key in sorted(fresh)]
    there = FleetTally.of("", subject, Counted(Tally.of(model)))
    stack = Stack.of([there, *(each.weighted() for each in given)])
    found = [] if accept else rejected(stack)
    out = {each.index for each in found}
    taken = [i for i in range(1, stack.contributors) if i not in out]
    added = tuple(given[i - 1] for i in taken)
    ledger |= {each.id: each.transitions for each in added}
    if len(ledger) > MAX_CONTRIBUTORS:
        raise TooLarge(
            f"the model would have more than {MAX_CONTRIBUTORS:,} contributors",
            source=source,
            mend=(
                "merge all tallies at once into the model as it was before any merge"
            ),
        )
    return Merge(
        _learned(model, stack.total([0, *taken]), ledger, source) if added else model,
        added,
        tuple(sorted(known)),
        tuple((given[each.index - 1], each) for each in found),
        sum(each.beyond for each in added),
        cut_off,
    )


def _refuse_strange(tally: FleetTally, predicates: int, file: str) -> None:
    if any(len(name) != predicates for name in tally.states[:1]):
        raise InvalidTally(
            f"{tally.states[0]!r} is not the name of a state with {predicates} "
            "predicates",
            source=file,
        )


def _learned(
    model: Model, total: Tally, ledger: Mapping[str, int], source: str
) -> Model:
    """Learns the model from the summed counts."""
    facts: dict[str, Any] = {
        **model.training,
        "traces": total.traces,
        "frames": total.frames,
        "transitions": total.frames - total.traces,
        FLEET: dict(sorted(ledger.items())),
    }
    rows = (*total.seen.values(), total.starts, total.ends)
    largest = max(max(row.values(), default=0) for row in rows)
    if largest > MAX_COUNT:
        raise TooLarge(f"a transition count exceeds {MAX_COUNT}", source=source)
    with naming(source):
        return learn(
            total, Support.of(model), model.alpha or Fraction(0), model.end,
            abstraction=model.abstraction, period_s=model.period_s, laws=model.laws,
            training=facts,
        )  # fmt: skip
