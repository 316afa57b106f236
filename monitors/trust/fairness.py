"""Checks whether predicted risks agree with outcomes on held-out traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.foretold import Reliability, reliability, unmet_ahead
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.evidence import letters_by_predicates
from forewarn.monitors.risk.tables import guard_risk


@dataclass(frozen=True, slots=True)
class FairnessReport:
    """The result of the checks; problems lead to warnings, not to errors.

    Args:
        reliability: The comparison of predicted risks with outcomes on held-out traces,
            by law.
    """

    reliability: Mapping[str, Reliability]

    @property
    def fair(self) -> bool:
        """Whether there are no warnings."""
        return not any(each.warns for each in self.reliability.values())

    def warnings(self) -> Iterator[str]:
        """Describes the problems in sentences."""
        for law, each in self.reliability.items():
            if each.warns:
                yield from each.sentences(law)

    def verdict(self) -> str:
        """States in a sentence whether the chain represents the traces."""
        if not self.reliability:
            return (
                "Whether the chain represents the traces was not tested: this needs a "
                f"law and at least {MIN_TRACES} traces."
            )
        if self.fair:
            laws = ", ".join(self.reliability)
            return (
                "The chain represents the traces as far as could be tested: on held-out"
                f" traces, the risk of breaking {laws} agrees with the outcomes."
            )
        found = [
            f"the risk of breaking {law} predicts worse than its base rate"
            if (each.skill or 0.0) < 0.0
            else f"the risk of breaking {law} differs significantly from the outcomes"
            for law, each in self.reliability.items()
            if each.warns
        ]
        return f"The chain does not represent the traces well: {'; '.join(found)}."

    def as_dict(self) -> dict[str, Any]:
        reliability = {law: each.as_dict() for law, each in self.reliability.items()}
        return {
            "reliability": reliability,
            "fair": self.fair,
            "warnings": list(self.warnings()),
        }


Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FOLDS = 5
MIN_TRACES = 2 * FOLDS
HORIZON_S = 5.0
HORIZON_STEPS = 20


def horizon_steps(period_s: float | None) -> int:
    """Returns the horizon at which risks are validated, in steps."""
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
    """Returns the tally of some traces."""
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
    return FairnessReport(validated)
