"""Hindsight: the risks that a guard would have computed in held-out runs.

The risk of each law is looked up along runs that were not used to learn the chain, as a
guard would do, and stored with the outcome. To compare methods of finding an
abstraction, the runs are divided into folds. For each fold, the abstraction is found
and the chain is learned from the other folds only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.trace import Kept, Trace
from forewarn.monitors.chains.intervals import model_intervals
from forewarn.monitors.chains.learning import Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.foretold import Floats, Foretold, Ints
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import Monitor
from forewarn.monitors.risk.calibration import (
    Calibration,
    JudgeBy,
    corrected,
    likely_for,
)
from forewarn.monitors.risk.evidence import (
    compile_for,
    letters_by_predicates,
)
from forewarn.monitors.risk.first_visits import visits_for
from forewarn.monitors.risk.tables import short_of_violation, solve_risk
from forewarn.monitors.trust.encoding import Encoded, encode_traces

Run = Trace | Kept


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """An abstraction that was found from runs.

    Args:
        abstraction: The abstraction to use for the model.
        apart: For each run to which `abstraction` was fitted, the abstraction with
            which the run is counted: the same predicates, found without the run.
    """

    abstraction: Abstraction
    apart: Mapping[int, Abstraction] = field(default_factory=dict)

    def counting(self, run: int) -> Abstraction:
        """Returns the abstraction with which a run is counted."""
        return self.apart.get(run, self.abstraction)


Recipe = Callable[[Sequence[int]], Found]
"""Finds an abstraction, using only the runs with these numbers."""


def out_of_fold(
    runs: Sequence[Run],
    recipe: Recipe,
    laws: Sequence[Law],
    horizons_s: Sequence[float],
    fold_of: Sequence[int],
) -> Iterator[dict[str, list[Foretold]]]:
    """Predicts every run under every law with a chain learned from other folds, fold by
    fold.

    Args:
        runs: The runs.
        recipe: Finds the abstraction from the runs outside a fold.
        laws: The laws.
        horizons_s: The horizons, in seconds.
        fold_of: The fold of each run, as returned by `dealt`.
    """
    states = States(runs)
    for number in sorted(set(fold_of)):
        others = [i for i, fold in enumerate(fold_of) if fold != number]
        held_out = [i for i, fold in enumerate(fold_of) if fold == number]
        found_by = recipe(others)
        abstraction = found_by.abstraction
        by = {i: found_by.counting(i) for i in others}
        judge = states.judge(by, abstraction, laws, horizons_s)
        found: dict[str, list[Foretold]] = {law.name: [] for law in laws}
        ticks = states.by(dict.fromkeys(held_out, abstraction))
        for i, of_run in zip(held_out, ticks, strict=True):
            for law, foretold in judge.along(i, of_run):
                found[law].append(foretold)
        yield found


class States:
    """The states of runs under several abstractions, each computed once."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._found: dict[int, tuple[Abstraction, dict[int, Encoded]]] = {}

    def by(self, abstractions: Mapping[int, Abstraction]) -> list[Encoded]:
        """Returns the states of runs, each encoded with its own abstraction."""
        wanted: dict[int, list[int]] = {}
        for run, abstraction in abstractions.items():
            _, found = self._found.setdefault(id(abstraction), (abstraction, {}))
            if run not in found:
                wanted.setdefault(id(abstraction), []).append(run)
        for key, missing in wanted.items():
            abstraction, found = self._found[key]
            among = [self._runs[run] for run in missing]
            found |= zip(missing, encode_traces(among, abstraction), strict=True)
        return [self._found[id(each)][1][run] for run, each in abstractions.items()]

    def judge(
        self,
        by: Mapping[int, Abstraction],
        abstraction: Abstraction,
        laws: Sequence[Law],
        horizons_s: Sequence[float],
    ) -> Judge:
        """Learns a chain from runs, each counted with its own abstraction."""
        first = self._runs[next(iter(by))]
        period_s = abstraction.period_s or first.header.period_s or 0.0
        codes = [each.states for each in self.by(by)]
        starts = np.cumsum([0, *map(len, codes)])[:-1]
        tally = Tally()
        tally.add_codes(np.concatenate(codes), abstraction.state_name, starts)
        return Judge(learn(tally), abstraction, laws, horizons_s, period_s)


def dealt(groups: Sequence[Hashable], folds: int) -> list[int]:
    """Assigns runs to folds so that no group is split; returns the fold of each run.

    Neighbouring groups go to the same fold, because runs of one drive or driver often
    follow each other. If all runs are in one group, they are assigned individually.
    """
    sizes = Counter(groups)
    if len(sizes) == 1:
        return dealt(range(len(groups)), folds) if len(groups) > 1 else [0]
    before, fold_of = 0, dict[Hashable, int]()
    for group, size in sizes.items():
        fold_of[group] = (before + size // 2) * folds // len(groups)
        before += size
    number_of = {fold: i for i, fold in enumerate(dict.fromkeys(fold_of.values()))}
    return [number_of[fold_of[group]] for group in groups]


class Judge:
    """A chain and the risks of its laws, evaluated one whole run at a time."""

    def __init__(
        self,
        model: Model,
        abstraction: Abstraction,
        laws: Sequence[Law],
        horizons_s: Sequence[float],
        period_s: float,
        judge_by: JudgeBy = "point",
        delta: float = 0.05,
        calibration: Mapping[str, Calibration] | None = None,
    ) -> None:
        self._abstraction, self._period_s = abstraction, period_s
        self._size = model.chain.n
        chain, self._known = model.chain, model.known(abstraction)
        self._nearest: dict[int, list[int]] = {}
        intervals = model_intervals(model, delta) if judge_by == "upper" else None
        self._laws: list[tuple[LawPaths, dict[float, Floats]]] = []
        self.reach: dict[str, dict[float, float]] = {}
        for law in laws:
            paths = LawPaths(law, abstraction, period_s)
            automaton = paths.automaton
            letters = letters_by_predicates(chain, automaton, abstraction)
            tables: dict[float, Floats] = {}
            for h in horizons_s:
                asked = repr(law.formula), h, automaton, letters
                kept = likely_for(model.likely, *asked)
                curve = (calibration or {}).get(law.name, Calibration())
                if judge_by == "likely" and kept is not None:
                    curve = kept.calibration
                steps = round(h / period_s)
                first = visits_for(model, *asked) if intervals else None
                risks = solve_risk(
                    chain, letters, automaton, steps, intervals,
                    first=first, delta=delta,
                )  # fmt: skip
                tables[h] = corrected(risks, curve, kept).judged(judge_by, law.name)
            self._laws.append((paths, tables))
            possible = short_of_violation(risks.consistent, automaton)
            possible &= np.isin(np.arange(chain.n), list(self._known.values()))
            self.reach[law.name] = {
                h: float(table[possible].max(initial=0.0))
                for h, table in tables.items()
            }

    @classmethod
    def learn(
        cls,
        runs: Sequence[Run],
        abstraction: Abstraction,
        laws: Sequence[Law],
        horizons_s: Sequence[float],
        apart: Sequence[Abstraction] = (),
    ) -> Judge:
        """Learns the chain from runs.

        Args:
            runs: The runs.
            abstraction: The abstraction that encodes the runs and those to be judged.
            laws: The laws.
            horizons_s: The horizons, in seconds.
            apart: The abstraction with which each run is counted; by default,
                `abstraction`.
        """
        by = dict(enumerate(apart or [abstraction] * len(runs)))
        return States(runs).judge(by, abstraction, laws, horizons_s)

    def look(self, number: int, run: Run) -> Iterator[tuple[str, Foretold]]:
        """Yields the risks that a guard would have computed along a run."""
        (ticks,) = encode_traces([run], self._abstraction)
        yield from self.along(number, ticks)

    def along(self, number: int, ticks: Encoded) -> Iterator[tuple[str, Foretold]]:
        """Yields the risks that a guard would have computed along a run's states."""
        codes, times = ticks.states, ticks.times_s
        distinct, place = np.unique(codes, return_inverse=True)
        states = [self._states_for(bits) for bits in distinct.tolist()]
        unknown = np.array([bits not in self._known for bits in distinct.tolist()])
        known = np.array([of[0] for of in states])
        for law, tables in self._laws:
            path, broken = law.follow(distinct, place, times)
            upto = place[: len(path)]
            yield (
                law.name,
                Foretold(
                    number,
                    times[: len(path)],
                    float(times[-1] - times[0]),
                    {h: _along(tables[h], path, upto, states) for h in tables},
                    np.where(unknown[upto], -1, path * self._size + known[upto]),
                    unknown[upto],
                    ~law.automaton.pending[path],
                    broken,
                ),
            )

    def _states_for(self, bits: int) -> list[int]:
        """Returns the state of the chain; the nearest states if the chain has no such
        state.
        """
        if bits in self._known:
            return [self._known[bits]]
        found = self._nearest.get(bits)
        if found is None:
            apart = {known: (known ^ bits).bit_count() for known in self._known}
            least = min(apart.values())
            found = [self._known[k] for k, d in apart.items() if d == least]
            self._nearest[bits] = found
        return found


def _along(
    table: Floats, path: Ints, place: Ints, states: Sequence[list[int]]
) -> Floats:
    """Returns the risk at every tick; for an unseen state, the worst risk of the
    nearest states.
    """
    first = np.array([of[0] for of in states])
    found: Floats = table[path, first[place]]
    for at, of in enumerate(states):
        if len(of) > 1:
            here = place == at
            found[here] = table[:, of].max(axis=1)[path[here]]
    return found


class LawPaths:
    """A law's monitor on the states of an abstraction, applied to one whole run at a
    time.
    """

    def __init__(self, law: Law, abstraction: Abstraction, period_s: float) -> None:
        automaton = compile_for(law.formula, abstraction, period_s)
        self.name, self.automaton, self._period_s = law.name, automaton, period_s
        self._decide = [abstraction.decides(p) for p in automaton.propositions]
        self._columns = {mask: i for i, mask in enumerate(automaton.letters)}
        self._step: list[list[int]] = automaton.step.tolist()
        self._monitor = Monitor(automaton)

    def follow(
        self, distinct: Ints, place: Ints, times: Floats
    ) -> tuple[Ints, Broken | None]:
        """Returns the monitor's states before the first violation, and the violation,
        if any.

        Args:
            distinct: The distinct states of a run.
            place: The index of each tick's state in `distinct`.
            times: The time of each tick, in seconds.
        """
        masks = [
            sum(decide(bits) << i for i, decide in enumerate(self._decide))
            for bits in distinct.tolist()
        ]
        letters = [self._columns[mask] for mask in masks]
        step, violated = self._step, self.automaton.violated
        state, path = self.automaton.initial, list[int]()
        for at in place.tolist():
            state = step[state][letters[at]]
            if state == violated:
                break
            path.append(state)
        broken = None
        if state == violated or self.automaton.pending[state]:
            broken = self._broken([masks[at] for at in place.tolist()], times)
        return np.array(path, np.int64), broken

    def _broken(self, masks: Sequence[int], times: Floats) -> Broken | None:
        """Returns the first violation of the law; an obligation pending at the end is
        decided by repeating the last state.
        """
        monitor = self._monitor
        monitor.reset()
        over = [masks[-1]] * self.automaton.n
        for number, mask in enumerate([*masks, *over]):
            if number >= len(masks) and not self.automaton.pending[monitor.state]:
                break
            monitor.advance(mask)
            if monitor.violations:
                found = monitor.violations[0]
                late = max(0, found.step - len(times) + 1) * self._period_s
                at = float(times[min(found.step, len(times) - 1)]) + late
                since_s = float(times[min(found.since, len(times) - 1)])
                return Broken(self.name, at, since_s)
        return None


def foretold_by(
    judges: Sequence[Judge], runs: Iterable[tuple[int, Run]]
) -> dict[str, list[Foretold]]:
    """Returns for each law the risks that guards would have computed along numbered
    runs.
    """
    found: dict[str, list[Foretold]] = {}
    for number, run in runs:
        for law, each in (told for judge in judges for told in judge.look(number, run)):
            found.setdefault(law, []).append(each)
    return found
