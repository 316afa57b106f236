"""Checks whether a chain represents the traces that it was learned from.

The checks only warn: they test whether states depend on the past, whether predicted
risks agree with outcomes on held-out traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.serial import to_json
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.foretold import Reliability, reliability, unmet_ahead
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.evidence import letters_by_predicates
from forewarn.monitors.risk.tables import guard_risk
from forewarn.monitors.trust.memory import (
    DwellFinding,
    OrderFinding,
    Sequences,
    benjamini_hochberg,
    dwell_test,
    order_test,
)

NAMED = 3
"""The number of findings of each kind in the warnings."""

Finding = TypeVar("Finding", OrderFinding, DwellFinding)


@dataclass(frozen=True, slots=True)
class FairnessReport:
    """The results of the checks, the worst first.

    Args:
        order: Whether the previous state matters, for each state that can be tested.
        dwell: Whether the time spent in a state matters, for each state that can be
            tested.
        reliability: The comparison of predicted risks with outcomes on held-out traces,
            by law.
        level: The fraction of flagged states that may be due to chance.
    """

    order: tuple[OrderFinding, ...]
    dwell: tuple[DwellFinding, ...]
    reliability: Mapping[str, Reliability]
    level: float

    @property
    def fair(self) -> bool:
        """Whether there are no warnings."""
        remembers = any(f.flagged for f in self.order)
        lingers = any(f.flagged for f in self.dwell)
        misjudges = any(each.warns for each in self.reliability.values())
        return not (remembers or lingers or misjudges)

    def warnings(self) -> Iterator[str]:
        """Describes the worst problems of each kind in sentences."""
        yield from _worst(self.order, "states depend on the previous state")
        yield from _worst(self.dwell, "states are not left at a constant rate")
        for law, each in self.reliability.items():
            if each.warns:
                yield from each.sentences(law)

    def verdict(self, told: Callable[[str], str] = str) -> str:
        """States in a sentence whether the chain represents the traces, and where it
        fits worst.

        Args:
            told: Converts the name of a state to a description.
        """
        order, dwell = len(self.order), len(self.dwell)
        if self.fair:
            validated = "".join(
                f", the risk of breaking {law}" for law in self.reliability
            )
            return (
                "The chain represents the traces as far as could be tested: the "
                f"previous state in {order} states, the time in a state in {dwell}"
                f"{validated}."
            )
        found = [
            f"{flagged} of {len(findings)} states {complaint}, most of all where "
            f"{told(findings[0].state)}"
            for findings, complaint in (
                (self.order, "depend on the previous state"),
                (self.dwell, "are not left at a constant rate"),
            )
            if (flagged := sum(finding.flagged for finding in findings))
        ]
        found += [
            f"the risk of breaking {law} predicts worse than its base rate"
            if (each.skill or 0.0) < 0.0
            else f"the risk of breaking {law} is off by more than chance"
            for law, each in self.reliability.items()
            if each.warns
        ]
        return f"The chain does not represent the traces well: {'; '.join(found)}."

    def as_dict(self) -> dict[str, Any]:
        reliability = {law: each.as_dict() for law, each in self.reliability.items()}
        return {
            **to_json(self),
            "reliability": reliability,
            "fair": self.fair,
            "warnings": list(self.warnings()),
        }


def assess(
    sequences: Sequence[ArrayLike],
    chain: Chain,
    *,
    validated: Mapping[str, Reliability] | None = None,
    level: float = 0.05,
    seed: int = 0,
) -> FairnessReport:
    """Tests the chain's assumptions on the traces that it was learned from.

    Args:
        sequences: The traces as state numbers of the chain.
        chain: The chain; only the names of its states are used.
        validated: The agreement of risks with outcomes on held-out traces, by law.
        level: The fraction of flagged states that may be due to chance.
        seed: The seed for the permutations.
    """
    data = Sequences.of(chain.states, sequences)
    return FairnessReport(
        order=_worst_first(order_test(data, seed, level), level),
        dwell=_worst_first(dwell_test(data), level),
        reliability=validated or {},
        level=level,
    )


def _worst_first(findings: list[Finding], level: float) -> tuple[Finding, ...]:
    stands_out = benjamini_hochberg([f.p_value for f in findings], level)
    judged = [
        replace(finding, flagged=bool(flagged))
        for finding, flagged in zip(findings, stands_out, strict=True)
    ]
    return tuple(sorted(judged, key=lambda f: (not f.flagged, -f.effect, f.p_value)))


def _worst(findings: Sequence[Finding], complaint: str) -> Iterator[str]:
    flagged = [finding for finding in findings if finding.flagged]
    for finding in flagged[:NAMED]:
        yield finding.sentence()
    if len(flagged) > NAMED:
        yield f"In total, {len(flagged)} of {len(findings)} {complaint}."


Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FOLDS = 5
MIN_TRACES = 2 * FOLDS
HORIZON_S = 5.0
HORIZON_STEPS = 20


def horizon_steps(period_s: float | None) -> int:
    """The horizon at which risks are validated, in steps."""
    if period_s is None:
        return HORIZON_STEPS
    return max(int(HORIZON_S / period_s + 1e-9), 1)


def cross_validate(
    traces: Sequence[Ints],
    model: Model,
    abstraction: Abstraction,
    automaton: Automaton,
    steps: int,
) -> Reliability | None:
    """Predicts the risk in every trace with a chain that was learned without
    it.

    The traces, given as state numbers of the model, are divided into five folds. Each
    fold is predicted by a chain that is learned from the other four in the same way as
    the model. A state that does not occur in those four has no risk. Returns None if no
    state of any trace has a risk.
    """
    names = model.chain.states
    columns = letters_by_predicates(model.chain, automaton, abstraction)
    outcomes = unmet_ahead(automaton, [columns[trace] for trace in traces], steps)
    folds = [_tally(traces[fold::FOLDS], names) for fold in range(FOLDS)]
    found: dict[int, tuple[NDArray[np.float64], Bools]] = {}
    for fold in range(FOLDS):
        tally = Tally()
        for other in range(FOLDS):
            if other != fold:
                tally.add(folds[other])
        part = learn(tally, Support.of(model), model.alpha or Fraction(0), model.end)
        letters = letters_by_predicates(part.chain, automaton, abstraction)
        table = guard_risk(part.chain, letters, automaton, steps)
        known = np.column_stack([table, np.full(len(table), np.nan)])
        place = part.chain.number.get
        number = np.array([place(name, -1) for name in names], np.int64)
        for i in range(fold, len(traces), FOLDS):
            monitor, unmet = outcomes[i]
            found[i] = known[monitor, number[traces[i][: len(monitor)]]], unmet
    several = [found[i] for i in range(len(traces))]
    if not any(np.isfinite(risk).any() for risk, _ in several):
        return None
    return reliability([risk for risk, _ in several], [unmet for _, unmet in several])


def _tally(traces: Sequence[Ints], names: Sequence[str]) -> Tally:
    """The tally of some traces."""
    filled = [trace for trace in traces if len(trace)]
    lengths = np.array([len(trace) for trace in filled], np.int64)
    tally = Tally()
    if filled:
        starts = np.cumsum(lengths) - lengths
        tally.add_codes(np.concatenate(filled), names.__getitem__, starts)
    return tally


def assess_training(
    sequences: Sequence[Sequence[str]],
    model: Model,
    *,
    abstraction: Abstraction | None = None,
    automata: Mapping[str, Automaton] | None = None,
) -> FairnessReport:
    """Tests whether a new model represents the traces that it was learned from.

    Args:
        sequences: The traces as state names.
        model: The learned model.
        abstraction: The model's abstraction, which the laws need.
        automata: The monitors of the laws, by name; their risks are validated.
    """
    number = model.chain.number.__getitem__
    traces = [np.fromiter(map(number, row), np.int64, len(row)) for row in sequences]
    steps = horizon_steps(model.period_s)
    validated: dict[str, Reliability] = {}
    for name, automaton in (automata or {}).items():
        if abstraction is None or automaton.violated < 0:
            continue
        if len(sequences) >= MIN_TRACES:
            tried = cross_validate(traces, model, abstraction, automaton, steps)
            if tried is not None:
                validated[name] = tried
    return assess(
        [trace.tolist() for trace in traces],
        model.chain,
        validated=validated,
    )
