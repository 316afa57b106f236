"""A model that tells of no risk: for a guard whose rules or programs judge alone."""

from __future__ import annotations

from fractions import Fraction

from forewarn.abstractions.states.abstraction import from_expressions
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.model import Model


def riskless(vocabulary: Vocabulary | None, period_s: float) -> Model:
    """A model of one state, in which everything is, all the time."""
    abstraction = from_expressions(
        ["true"], vocabulary=vocabulary, name="no risk", period_s=period_s
    )
    chain = Chain.from_rows(["1"], {0: {0: Fraction(1)}})
    return Model(chain, abstraction=abstraction.as_dict(), period_s=period_s)


def is_riskless(model: Model) -> bool:
    """Whether nothing is to be told of a risk: it has one state, and no law."""
    return len(model.chain.states) == 1 and not model.laws
