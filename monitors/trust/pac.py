"""PAC bounds: how far a learned chain may be off, with probability 1 - delta.

`pac_report` says how many visits each state has, how many it needs, and whether the
guarantee holds. It gives two figures.

- The paper's bound for all of CTL, (11/10 B)^2 with B = l / Cond (`Conditioning`). It
  needs both chains to have the same support, so it says nothing if a transition can
  happen that the support does not allow.
- Ours, which is far smaller (`spread`). If x and y are the probabilities in the true
  and the learned chain, then x - y = (I - Q)^-1 (P - P') x', with Q the learned chain
  on the open states and x' within [0, 1]: the total variation of each row counts as
  often as that row is expected to be used. A row that may lead to a state never seen
  is off by that much more.

A single fixed property needs far fewer runs: see `scenarios.running.sampling`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput, InvalidModel, TooLarge
from forewarn.monitors.chains.absorption import absorbed, row_sums
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.intervals import clopper_pearson, open_rows
from forewarn.monitors.chains.model import Counts, Model
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.evidence import letters_of_states, truth_in_abstraction
from forewarn.monitors.risk.product import consistent_pairs, read_chain

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_DENSE = 300
MAX_TRANSITIONS = 5_000_000
"""The largest product of a chain and a law whose rows are weighed."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A set to be reached in a chain, or in its product with a monitor.

    Args:
        name: What its probability is of: "reaching s3", "a violation".
        matrix: The rows of the chain or product.
        goal: The states that are the target.
        origin: The row of the learned chain that each state moves by.
        asked: The states whose probability is asked for.
        settled: The states from which it cannot be reached, whatever the rows are.
    """

    name: str
    matrix: Floats | csr_array
    goal: Bools
    origin: Ints
    asked: Bools
    settled: Bools | None = None

    def open_states(self, open_rows: Bools | None = None) -> Bools:
        """States outside the target with a path to it, or to a row that is open."""
        seeds = self.goal
        if open_rows is not None:
            seeds = seeds | open_rows[self.origin]
        found = self._reaching(seeds) & ~self.goal
        return found if self.settled is None else found & ~self.settled

    def staying(self, within: Bools) -> Bools:
        """States from which one may come to where these states are never left."""
        leaves = self.matrix @ (~within).astype(np.float64) > 0.0
        return self._reaching(within & ~self._reaching(leaves & within, within), within)

    def _reaching(self, seeds: Bools, through: Bools | None = None) -> Bools:
        """States with a path to the seeds, these included."""
        found = seeds
        while True:
            further = self.matrix @ found.astype(np.float64) > 0.0
            further = found | (further if through is None else further & through)
            if np.array_equal(further, found):
                return found
            found = further


def state_target(chain: Chain, states: Sequence[int], name: str = "") -> Target:
    """The target of reaching any of some states of the chain."""
    goal = np.zeros(chain.n, bool)
    goal[list(states)] = True
    matrix = chain.dense() if chain.n <= _DENSE else chain.sparse()
    named = name or " or ".join(chain.states[i] for i in states)
    return Target(
        f"reaching {named}", matrix, goal, np.arange(chain.n), np.ones(chain.n, bool)
    )


def law_target(
    chain: Chain, letters: Ints, automaton: Automaton, name: str = "a violation"
) -> Target:
    """The target of violating a law, in the product of the chain and its monitor.

    Args:
        chain: The learned chain.
        letters: The column of `automaton.step` that each state is read as.
        automaton: The law's monitor.
        name: What the violation is called.
    """
    from scipy.sparse import csr_array

    reading = read_chain(chain.indptr, chain.indices, chain.end, letters, automaton)
    states, monitor_states = reading.n, automaton.step.shape[0]
    if monitor_states * len(reading.indices) > MAX_TRANSITIONS:
        raise TooLarge(
            f"the product with the law has {monitor_states * len(reading.indices):,} "
            f"transitions; the limit for weighing its rows is {MAX_TRANSITIONS:,}",
            mend="use a coarser clock",
        )
    step = automaton.step[:, reading.letters].astype(np.int64)
    lengths = np.diff(reading.indptr)
    matrix = csr_array(
        (
            np.tile(reading.weights(chain.data), monitor_states),
            (step[:, reading.indices] * states + reading.indices).ravel(),
            np.append(0, np.cumsum(np.tile(lengths, monitor_states))),
        ),
        shape=(monitor_states * states, monitor_states * states),
    )
    goal = np.repeat(np.arange(monitor_states) == automaton.violated, states)
    asked = consistent_pairs(automaton, reading.letters, None)
    if automaton.violated >= 0:
        # A broken law stays broken; that says nothing of the state.
        breaking = step[np.arange(monitor_states) != automaton.violated]
        asked[automaton.violated] = (breaking == automaton.violated).any(axis=0)
    origin = np.arange(states)
    if chain.end is not None:
        origin[reading.ends] = chain.end
    return Target(
        name,
        matrix,
        goal,
        np.tile(origin, monitor_states),
        asked.ravel(),
        np.repeat(automaton.left < 0, states),
    )


@dataclass(frozen=True, slots=True)
class Conditioning:
    """The paper's condition number for one target state.

    Within `steps` (the least number for which this can be said) every open state is
    left with at least `probability`.
    """

    target: str
    steps: int
    probability: float

    @property
    def factor(self) -> float:
        """B = l / Cond."""
        return self.steps / self.probability if self.probability > 0.0 else np.inf


def conditioning(target: Target) -> Conditioning | None:
    """The condition number of a target; None where no other state can reach it."""
    remaining = target.open_states()
    if not remaining.any():
        return None
    left = (~remaining).astype(np.float64)
    least, steps = 0.0, 0
    # The farthest state is as many steps away as there are states, at most; longer
    # searches mean that the probability is too small for a double.
    while least == 0.0 and steps <= len(remaining):
        left = np.where(remaining, target.matrix @ left, 1.0)
        least, steps = float(left[remaining].min()), steps + 1
    return Conditioning(target.name, steps, least)


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """How the rows' errors add up on the way to a target.

    Args:
        steps: T, the greatest expected number of steps while the target is open;
            infinite where it may stay open for ever.
        errors: For each state of the target's chain, the most by which its
            probability is off, given the rows' total variations.
        rows: The rows of the learned chain that matter at all.
    """

    steps: float
    errors: Floats
    rows: Bools


def spread(
    target: Target,
    variation: Floats,
    horizon: int | None = None,
    open_rows: Bools | None = None,
) -> Spread:
    """Weighs the total variation of each row by how often the row is used.

    Args:
        target: What is to be reached.
        variation: For each row of the learned chain, how far it may be off.
        horizon: Reaching it within so many steps; None means ever.
        open_rows: The rows that may lead to where they were never seen to.
    """
    remaining = target.open_states(open_rows)
    rows = np.zeros(len(variation), bool)
    errors = np.zeros(len(remaining))
    if not remaining.any():
        return Spread(0.0, errors, rows)
    rows[target.origin[remaining]] = True
    longest = 0.0
    if horizon is None:
        endless = target.staying(remaining)
        errors[endless], remaining = np.inf, remaining & ~endless
        longest = np.inf if (endless & target.asked).any() else 0.0
    names = np.flatnonzero(remaining)
    inner = target.matrix[names][:, names]
    one_step = np.stack([np.ones(len(names)), variation[target.origin[names]]], axis=1)
    if horizon is None:
        outside = (~remaining).astype(np.float64)
        total = _ever(inner, target.matrix[names] @ outside, one_step)
    else:
        total = np.zeros_like(one_step)
        for _ in range(horizon):
            further: Floats = one_step + inner @ total
            if np.array_equal(further, total):
                break
            total = further
    errors[names] = total[:, 1]
    steps = float(total[target.asked[names], 0].max(initial=longest))
    return Spread(steps, errors, rows)


def _ever(inner: Floats | csr_array, left: Floats, one_step: Floats) -> Floats:
    """The sum of what each step adds, until the states are left."""
    from scipy.sparse import coo_array

    graph = coo_array(inner)
    source, target = (each.astype(np.int64) for each in graph.coords)
    return absorbed(source, target, graph.data, left, one_step)


class Rows:
    """The learned rows as the bounds see them: frequencies, smoothing, sizes.

    Args:
        counts: What was seen.
        alpha: The pseudo-count of each allowed successor.
        open_rows: The states that may have successors that were never seen.
    """

    def __init__(self, counts: Counts, alpha: Fraction, open_rows: Bools) -> None:
        self._alpha = float(alpha)
        self._counts, self._open = counts, open_rows
        sizes, visits = counts.sizes, counts.visits
        self._k, self._n = np.repeat(sizes, sizes), np.repeat(visits, sizes)
        self._source = np.repeat(np.arange(counts.n), sizes)
        # sum_j |n - k n_j|, exactly.
        uneven = np.zeros(counts.n, np.int64)
        np.add.at(uneven, self._source, np.abs(self._n - self._k * counts.seen))
        self._uneven = uneven
        self._moved = [
            alpha * u / (n * (n + k * alpha)) if n else Fraction(0)
            for u, n, k in zip(
                uneven.tolist(), visits.tolist(), sizes.tolist(), strict=True
            )
        ]
        self.moved: Floats = np.array([float(m) for m in self._moved])
        """What smoothing moved of each row: the sum of absolute differences."""

    def margin(self, epsilon: float) -> bool:
        """Whether smoothing stays within the 11/10 of the paper's bound."""
        return max(self._moved) <= Fraction(str(epsilon)) / 10

    def trials(self, epsilon: float, delta: float) -> Floats:
        """H* of each row: the greatest H of its transitions, delta split over states.

        H is taken at the frequency (where there is one) and at the smoothed
        probability, whichever asks for more.
        """
        share = delta / self._counts.n
        whole = self._n + self._k * self._alpha
        made_up = 1.0 / self._k
        smoothed = np.divide(
            self._counts.seen + self._alpha, whole, out=made_up, where=self._n > 0
        )
        frequency = np.divide(
            self._counts.seen, self._n, out=smoothed.copy(), where=self._n > 0
        )
        found = np.zeros(self._counts.n)
        for probability in (frequency, smoothed):
            trials = massart(probability, epsilon, share)
            np.maximum.at(found, self._source, np.where(self._k > 1, trials, 0.0))
        return found

    def variation(self, delta: float) -> Floats:
        """How far each row may be off in total variation, all at once.

        The lesser of what Weissman's bound allows and of what the binomial bounds of
        the single transitions do, which are the better ones for rows that are nearly
        certain; each of the two has half of delta.
        """
        counts = self._counts
        ways = counts.sizes + self._open
        together = weissman_variation(ways, counts.visits, delta / 2)
        names = [str(i) for i in range(counts.n)]
        opened = self._open if self._open.any() else None
        bounds = clopper_pearson(names, counts, delta / 2, opened)
        rows = np.repeat(np.arange(counts.n), np.diff(bounds.indptr))
        visits = np.maximum(counts.visits, 1)
        seen = np.zeros(len(rows))
        seen[np.repeat(counts.sizes > 0, np.diff(bounds.indptr))] = counts.seen
        frequency = seen / visits[rows]
        more = row_sums(rows, np.maximum(bounds.high - frequency, 0.0), counts.n)
        if bounds.unseen is not None:
            more += bounds.unseen
        less = row_sums(rows, np.maximum(frequency - bounds.low, 0.0), counts.n)
        singly = np.where(counts.visits > 0, np.minimum(more, less), 1.0)
        found = np.minimum(together, singly) + self.moved / 2.0
        return np.where(ways > 1, np.minimum(found, 1.0), 0.0)

    def needed(self, epsilon: float, delta: float, steps: float) -> Floats:
        """Visits at which each row's total variation is at most epsilon / steps.

        Weissman's variation is sqrt(c / 2n) for sampling and at most k alpha d / n for
        smoothing, d being the distance of the frequencies from uniform; the sum is
        quadratic in 1 / sqrt(n). Where the visits so far allow less, it falls no
        slower from there.
        """
        sizes, visits = self._counts.sizes, self._counts.visits
        if steps == math.inf:
            return np.where(sizes + self._open > 1, math.inf, 0.0)
        allowed = epsilon / steps if steps else math.inf
        distance = np.where(
            visits > 0,
            self._uneven / np.maximum(2 * visits * sizes, 1),
            1.0 - 1.0 / np.maximum(sizes, 1),
        )
        smoothing = sizes * self._alpha * distance
        sampling = np.sqrt(weissman_weight(sizes + self._open, delta / 2) / 2.0)
        if allowed == math.inf:
            return np.zeros(len(sizes))
        root = sampling + np.sqrt(sampling**2 + 4.0 * smoothing * allowed)
        needed: Floats = (root / (2.0 * allowed)) ** 2
        onward = visits * (self.variation(delta) / allowed) ** 2
        return np.where(visits > 0, np.minimum(needed, onward), needed)


def weissman_weight(sizes: Ints, delta: float) -> Floats:
    """c with P(L1 distance of row and frequencies > e) <= delta/m for n = 2 c / e^2.

    Over the m rows with more than one successor, all bounds hold at once with
    probability 1 - delta. Rows with one successor are certain: c is 0.
    """
    k = np.asarray(sizes, np.float64)
    uncertain = k > 1
    rows = max(int(uncertain.sum()), 1)
    # ln(2^k - 2), which would overflow as written.
    outcomes = k * np.log(2.0) + np.log1p(-(2.0 ** (1.0 - np.maximum(k, 2.0))))
    weight = np.where(uncertain, outcomes + np.log(rows / delta), 0.0)
    return np.asarray(weight, np.float64)


def weissman_variation(sizes: Ints, visits: Ints, delta: float) -> Floats:
    """The total variation that each row stays within, with probability 1 - delta."""
    weight = weissman_weight(sizes, delta)
    radius = np.sqrt(weight / (2.0 * np.maximum(visits, 1)))
    return np.where((np.asarray(visits) == 0) & (weight > 0.0), 1.0, radius)


F = TypeVar("F", float, NDArray[np.float64])


def massart(frequency: F, epsilon: float, delta: float) -> F:
    """H of Chen and Massart: the trials needed at a frequency of hits.

    H = 2/epsilon^2 ln(2/delta) (1/4 - (|1/2 - frequency| - 2 epsilon/3)^2), which is
    small where the frequency is close to 0 or 1.
    """
    off_middle = abs(0.5 - frequency) - 2.0 * epsilon / 3.0
    return 2.0 / epsilon**2 * math.log(2.0 / delta) * (0.25 - off_middle**2)


def check_risks(epsilon: float, delta: float) -> None:
    """Refuses an error or an error probability that is not between 0 and 1."""
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if not 0.0 < value < 1.0:
            raise InvalidInput(f"{name} is {value}; it must lie between 0 and 1")


MAX_TARGETS = 300
"""Up to so many states every state is taken as a target in turn."""


@dataclass(frozen=True, slots=True)
class StateVisits:
    """One state's share in the guarantee; None for what is not known or beyond count.

    Args:
        state: Its name.
        visits: How often a transition out of it was seen.
        needed_ctl: How often the paper's bound for CTL would need it.
        needed: How often the sound bound would need it.
        error: How far the probability to reach the target may be off from here.
    """

    state: str
    visits: int
    needed_ctl: int | None
    needed: int | None
    error: float

    @property
    def missing(self) -> int | None:
        """How many visits are still to come for the sound bound."""
        return None if self.needed is None else max(self.needed - self.visits, 0)


@dataclass(frozen=True, slots=True)
class PacReport:
    """What a learned chain guarantees.

    Args:
        epsilon: The error that is allowed.
        delta: The probability that the error may be larger.
        target: What is to be reached; for `every`, each single state in turn.
        horizon: Within so many steps; None means ever.
        holds: Whether the sound bound is met.
        ctl_holds: Whether the paper's bound is met; None if it was not worked out.
        ctl: The paper's condition number of the worst target state.
        smoothing: The most that smoothing moved a row (sum of absolute differences).
        steps: T, the greatest expected number of steps to the target.
        error: The guaranteed error with the visits there are.
        states: The states' visits, in the chain's order.
        support: How the allowed transitions were chosen, which is assumed.
        supported: Whether each of them has a probability above 0.
        open: Whether what was never seen is allowed for.
        unseen: How probable the target may be all the same from where traces begin,
            where no path that was seen leads to it; else None.
    """

    epsilon: float
    delta: float
    target: str
    horizon: int | None
    holds: bool
    ctl_holds: bool | None
    ctl: Conditioning | None
    smoothing: float
    steps: float
    error: float
    states: tuple[StateVisits, ...]
    support: str
    supported: bool
    open: bool = False
    unseen: float | None = None

    @property
    def smoothing_allowed(self) -> float:
        """What the 11/10 of the paper's bound leaves for smoothing."""
        return self.epsilon / 10.0

    @property
    def short(self) -> dict[str, int | None]:
        """The states that still need visits, and how many (None: beyond count).

        This is what `collect --until pac` goes by.
        """
        if self.holds:
            return {}
        return {s.state: s.missing for s in self.states if s.missing != 0}

    def sentences(self) -> Iterator[str]:
        """The report for people, with what the paper's bound would ask for."""
        yield from self.main_sentences()
        yield from self._ctl_sentences()

    def main_sentences(self) -> Iterator[str]:
        """What holds, what may come though it was never seen, and what is assumed."""
        within = "" if self.horizon is None else f" within {self.horizon} steps"
        aim = f"the probability of {self.target}{within}"
        sure = f"with probability {1 - self.delta:g}"
        if self.holds:
            yield (
                f"The guarantee holds: {sure} {aim} is off by at most {self.error:.3g} "
                f"(asked: {self.epsilon:g}), from every state."
            )
        else:
            left = (
                f"an error of up to {self.error:.3g}" if self.error < 1 else "it open"
            )
            yield (
                f"The guarantee does not hold: {sure} {aim} should be off by at most "
                f"{self.epsilon:g}; the visits so far leave {left}. {_worst(self)}"
            )
        if self.unseen is not None:
            yield (
                f"Nothing that was seen leads to {self.target}; it may yet come with "
                f"a probability of up to {self.unseen:.3g} from where traces begin."
            )
        if self.open:
            yield (
                "It allows for transitions that were never seen, and assumes that a "
                "state tells all that matters of what went before."
            )
        else:
            yield (
                f"It assumes that no transition can happen but those allowed "
                f"({self.support})."
            )

    def _ctl_sentences(self) -> Iterator[str]:
        if self.ctl_holds is None:
            yield (
                f"The bound for all of CTL was not worked out: there are more than "
                f"{MAX_TARGETS} states."
            )
        elif self.ctl is not None and not self.ctl_holds:
            needed = [s.needed_ctl for s in self.states]
            most = max((n for n in needed if n is not None), default=0)
            asked = "more visits than can be counted"
            if None not in needed:
                asked = f"up to {most:,} visits a state"
            yield (
                f"For all of CTL, with B = {self.ctl.factor:.4g} (state "
                f"{self.ctl.target}), the paper's bound asks for {asked} and does not "
                f"hold."
            )
        if self.smoothing > self.smoothing_allowed:
            yield (
                f"Smoothing moved a row by {self.smoothing:.3g}, more than the "
                f"{self.smoothing_allowed:.3g} that the paper's bound allows."
            )

    def as_dict(self) -> dict[str, Any]:
        ctl = self.ctl
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "target": self.target,
            "horizon": self.horizon,
            "holds": self.holds,
            "error": self.error,
            "expected_steps": self.steps if math.isfinite(self.steps) else None,
            "open_support": self.open,
            "unseen": self.unseen,
            "support": self.support,
            "ctl": {
                "holds": self.ctl_holds,
                "target": ctl and ctl.target,
                "l": ctl and ctl.steps,
                "cond": ctl and ctl.probability,
                "B": ctl.factor if ctl and math.isfinite(ctl.factor) else None,
                "smoothing": self.smoothing,
                "smoothing_allowed": self.smoothing_allowed,
            },
            "states": {
                s.state: {
                    "visits": s.visits,
                    "needed": s.needed,
                    "needed_ctl": s.needed_ctl,
                    "error": s.error,
                }
                for s in self.states
            },
            "sentences": list(self.sentences()),
        }


def pac_report(
    model: Model,
    epsilon: float,
    delta: float,
    *,
    target: Target | None = None,
    horizon: int | None = None,
) -> PacReport:
    """How far a learned model is from an (epsilon, delta) guarantee.

    The visits are taken as if their number had been fixed beforehand; whoever samples
    until the report holds should look at it seldom, such as whenever the number of
    traces has doubled.

    Args:
        model: A model with counts.
        epsilon: The error that is allowed, in probabilities.
        delta: The probability that it may be larger.
        target: What is to be reached (`state_target`, `law_target`); without one,
            every single state in turn.
        horizon: Reach it within so many steps; None means ever.
    """
    check_risks(epsilon, delta)
    counts, chain = model.counts, model.chain
    if counts is None:
        raise InvalidModel("the model has no counts, so nothing can be guaranteed")
    every = _every_state(chain) if chain.n <= MAX_TARGETS else []
    targets = [target] if target else every
    if not targets:
        raise InvalidInput(
            f"the model has {chain.n} states; up to {MAX_TARGETS} can each be a target",
            mend="name a target or a law",
        )
    opened = open_rows(model)
    rows = Rows(counts, model.alpha or Fraction(0), opened)
    variation = rows.variation(delta)
    spreads = [spread(each, variation, horizon, opened) for each in targets]
    steps = max(s.steps for s in spreads)
    used = np.any([s.rows for s in spreads], axis=0)
    needed = np.where(used, rows.needed(epsilon, delta, steps), 0.0)
    errors = _by_state(chain.n, targets, spreads)
    conditions = [c for c in map(conditioning, every) if c]
    ctl = max(conditions, key=lambda c: c.factor, default=None)
    needed_ctl = rows.trials(epsilon, delta) * (1.1 * ctl.factor if ctl else 0.0) ** 2
    supported = len(chain.data) == len(counts.indices) + int((counts.sizes == 0).sum())
    met = bool((counts.visits >= needed_ctl).all()) and rows.margin(epsilon)
    return PacReport(
        epsilon=epsilon,
        delta=delta,
        target=target.name if target else "reaching any one state",
        horizon=horizon,
        holds=supported and bool(errors.max() <= epsilon),
        ctl_holds=supported and met if every else None,
        ctl=ctl,
        smoothing=float(rows.moved.max()),
        steps=steps,
        error=float(errors.max()),
        states=tuple(
            StateVisits(
                name,
                int(counts.visits[i]),
                _whole(needed_ctl[i]) if every else None,
                _whole(needed[i]),
                float(errors[i]),
            )
            for i, name in enumerate(chain.states)
        ),
        support=model.support,
        supported=supported,
        open=bool(opened.any()),
        unseen=_unseen(model, target, errors) if target else None,
    )


def _unseen(model: Model, target: Target, errors: Floats) -> float | None:
    """The error from where traces begin, if nothing seen leads to the target."""
    starts = list(model.starts)
    leading = target.origin[(target.open_states() | target.goal) & target.asked]
    seen = np.isin(starts, leading).any()
    return None if seen or not starts else float(errors[starts].max())


def pac_reports(
    model: Model,
    epsilon: float,
    delta: float,
    abstraction: Abstraction | None = None,
    automata: Mapping[str, Automaton] | None = None,
) -> list[PacReport]:
    """A report on the violation of each law, or one on every state if there is none.

    Args:
        model: A model with counts.
        epsilon: The error that is allowed.
        delta: The probability that it may be larger, for each report.
        abstraction: The model's, which decides the laws' propositions.
        automata: The laws' monitors by name.
    """
    if abstraction is None or not automata:
        return [pac_report(model, epsilon, delta)]
    truth = truth_in_abstraction(model.chain, abstraction)
    reports = []
    for name, automaton in automata.items():
        letters = letters_of_states(model.chain, automaton, truth)
        target = law_target(model.chain, letters, automaton, f"a violation of {name}")
        reports.append(pac_report(model, epsilon, delta, target=target))
    return reports


def _every_state(chain: Chain) -> list[Target]:
    whole = state_target(chain, [0])
    goals = np.eye(chain.n, dtype=bool)
    return [
        replace(whole, name=name, goal=goal)
        for name, goal in zip(chain.states, goals, strict=True)
    ]


def _by_state(n: int, targets: list[Target], spreads: list[Spread]) -> Floats:
    """The greatest error of each state, over targets and monitor states."""
    found = np.zeros(n)
    for target, each in zip(targets, spreads, strict=True):
        asked = target.asked
        np.maximum.at(found, target.origin[asked], each.errors[asked])
    return np.minimum(found, 1.0)


def _worst(report: PacReport) -> str:
    if not report.supported:
        return (
            "Some allowed transitions have probability 0, so they cannot be ruled in "
            "or out: learn with an alpha above 0, or with the observed support."
        )
    short = [s for s in report.states if s.missing != 0]
    short.sort(key=lambda s: (s.visits, s.state))
    named = ", ".join(
        f"{s.state} has {s.visits:,} visits of "
        + ("more than can be counted" if s.needed is None else f"{s.needed:,}")
        for s in short[:3]
    )
    more = f" and {len(short) - 3} more" if len(short) > 3 else ""
    return f"{len(short)} of {len(report.states)} states fall short: {named}{more}."


def _whole(value: float) -> int | None:
    return math.ceil(value) if value < 2.0**53 else None
