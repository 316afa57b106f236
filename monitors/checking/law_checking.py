"""The probability that a chain breaks a law, for each chain state and monitor state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import TooLarge
from forewarn.abstractions.expression import Expression
from forewarn.abstractions.expression.tree import Name
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.reaching import Mask
from forewarn.monitors.laws.automaton import Automaton, compile_law
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.laws.progression import normalise
from forewarn.monitors.risk.evidence import compile_for, letters_of_states
from forewarn.monitors.risk.product import consistent_pairs
from forewarn.monitors.risk.tables import violation_ever, violation_within


@dataclass(frozen=True, slots=True, eq=False)
class LawAnswer:
    """The probability that a law is violated; arrays are indexed by [monitor state,
    chain state].

    Args:
        monitor: The names of the monitor's states.
        values: The probabilities.
        possible: The pairs that can occur once the monitor has read the chain state.
        fresh: For each chain state, the monitor state after reading only that state;
            undefined at END, where no predicate has a value.
    """

    monitor: tuple[str, ...]
    values: NDArray[np.float64]
    possible: Mask
    fresh: NDArray[np.int64]


def laws_on(labelling: Labelling, name_or_formula: str) -> tuple[Law, ...]:
    """Returns the laws with this name, or the formula as a law; a formula may use
    definitions.
    """
    abstraction = labelling.abstraction
    vocabulary = None if abstraction is None else abstraction.vocabulary
    names = {*labelling.definitions, *labelling.chain.labels}
    definitions: dict[str, Expression] = {name: Name(name) for name in names}
    return find_laws(name_or_formula, vocabulary=vocabulary, definitions=definitions)


def check_law(
    law: Law,
    labelling: Labelling,
    *,
    period_s: float | None = None,
    within: int | None = None,
) -> LawAnswer:
    """Returns the probability that the law is violated at any time, or within a number
    of steps.
    """
    chain = labelling.chain
    automaton = compiled_on(labelling, law, period_s)
    letters = letters_of_states(chain, automaton, labelling.proposition)
    fresh = automaton.step[automaton.initial, letters]
    if within is None:
        values = violation_ever(chain, letters, automaton)
    else:
        values = violation_within(chain, letters, automaton, within)
    possible = consistent_pairs(automaton, letters, chain.end)
    if chain.end is not None:
        ends = _at_end(chain, chain.end, automaton, letters, within)
        values[:, chain.end], possible[:, chain.end] = ends
    return LawAnswer(automaton.names, values, possible, fresh)


def _at_end(
    chain: Chain,
    end: int,
    automaton: Automaton,
    letters: NDArray[np.int64],
    within: int | None,
) -> tuple[NDArray[np.float64], Mask]:
    """Returns for each monitor state whether it leads to a violation at END, and
    whether it can occur there.

    At END, the monitor reads the last state repeatedly. If a monitor
    state can follow several last states, the worst of these states counts.
    """
    step = automaton.step
    sources = chain.sources()[chain.indices == end]
    values, possible = np.zeros(automaton.n), np.zeros(automaton.n, dtype=bool)
    for letter in np.unique(letters[sources[sources != end]]).tolist():
        here = np.unique(step[:, letter])
        after = here
        for _ in range(automaton.n if within is None else min(within, automaton.n)):
            after = step[after, letter]
        possible[here] = True
        values[here] = np.maximum(values[here], after == automaton.violated)
    return values, possible


def compiled_on(labelling: Labelling, law: Law, period_s: float | None) -> Automaton:
    """Returns the law's automaton, only for this chain's letters if it is too large."""
    options: dict[str, Any] = {"vocabulary": law.vocabulary}
    abstraction = labelling.abstraction
    try:
        return compile_for(law.formula, abstraction, period_s, **options)
    except TooLarge:
        # The states of this chain may yield far fewer letters than arbitrary frames
        # could.
        propositions = normalise(law.formula, period_s).propositions
        masks = [labelling.proposition(p).astype(np.int64) for p in propositions]
        letters = sum(mask << bit for bit, mask in enumerate(masks))
        seen = np.unique(letters).tolist()
        return compile_law(law.formula, period_s, letters=seen, **options)
