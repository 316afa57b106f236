"""The chain to export from a model: labelled, or as a product with a law's monitor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.model import Model
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.law_checking import compiled_on, laws_on
from forewarn.monitors.checking.properties import define
from forewarn.monitors.risk.evidence import (
    abstraction_of,
    in_words_of,
    letters_of_states,
)
from forewarn.monitors.risk.product import product_chain


def exported(model: Model, law: str | None, definitions: Sequence[str]) -> Chain:
    """Returns the model's chain with the definitions as labels, or its product with a
    law's monitor.
    """
    if law is None and not definitions:
        return model.chain
    labelling = Labelling(model.chain, abstraction_of(model))
    for definition in definitions:
        define(labelling, definition)
    defined = {
        name: frozenset(np.flatnonzero(states).tolist())
        for name, states in labelling.definitions.items()
    }
    chain = replace(model.chain, labels={**model.chain.labels, **defined})
    if law is None:
        return chain
    found = laws_on(labelling, in_words_of(model, law))
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise InvalidInput(f"several laws have the name {law}: choose one of {names}")
    automaton = compiled_on(labelling, found[0], model.period_s)
    letters = letters_of_states(chain, automaton, labelling.proposition)
    product = product_chain(chain, letters, automaton)
    variables = _pair_variables(product, chain, automaton.names)
    return replace(product, variables=variables)


def _pair_variables(
    product: Chain, chain: Chain, monitor: Sequence[str]
) -> dict[str, NDArray[np.int64]]:
    """The variables of the product: the chain's variables, or else the number of its
    state, and the number of the monitor's state.

    Copies of END with different pending obligations are numbered after the other
    states.
    """
    pairs = [name.rpartition("|") for name in product.states]
    numbers = dict(chain.number)
    for name, _, _ in pairs:
        numbers.setdefault(name, len(numbers))
    states = np.array([numbers[name] for name, _, _ in pairs])
    variables = {"s": states}
    if chain.variables:
        variables = {name: v[states] for name, v in chain.variables.items()}
    rows = {name: i for i, name in enumerate(monitor)}
    own = "q" if "q" not in variables else "monitor_state"
    return {**variables, own: np.array([rows[name] for _, _, name in pairs])}
