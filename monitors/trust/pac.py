"""What a learned chain guarantees: right within epsilon, with probability 1 - delta.

`pac_report` says of a learned chain how many visits each state has, how many it needs,
and whether the guarantee holds. It gives two figures: the paper's bound for all of CTL,
with (11/10 B)^2, as the paper states it; and one that is sound and far smaller, from
the expected number of steps (see `perturbation`). The paper's says nothing unless the
support of the chain, the transitions that are allowed, holds every transition that can
happen; ours leaves room for what was never seen, where the support was not declared.

One fixed property needs far less: see `sequential`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput, InvalidModel
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.intervals import open_rows
from forewarn.monitors.chains.model import Model
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.evidence import letters_of_states, truth_in_abstraction
from forewarn.monitors.trust.perturbation import (
    Conditioning,
    Spread,
    Target,
    conditioning,
    law_target,
    spread,
    state_target,
)
from forewarn.monitors.trust.row_bounds import Rows
from forewarn.monitors.trust.sequential import check_risks

Floats = NDArray[np.float64]

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
