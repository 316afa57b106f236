"""ProbGuard's `model.json`: state names and rows of fractions."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, InvalidModel, near_miss
from forewarn.abstractions.schema import Strict, validated
from forewarn.monitors.chains.chain import Chain, check_size
from forewarn.monitors.chains.formats.rows import probability


class _File(Strict):
    states: list[str] = Field(min_length=1)
    state_index: dict[str, int]
    transition_probs: dict[str, dict[str, str]]
    # Its bits are misaligned with the states in published files, so it is not used.
    state_interpret: dict[str, Any] = {}
    predicates: list[Any] = []


def recognises(data: object) -> bool:
    return isinstance(data, dict) and "transition_probs" in data


def parse_probguard(data: object, source: str = "") -> Chain:
    """The chain that ProbGuard learned."""
    file = validated(_File, data, source, InvalidModel)
    check_size(len(file.states), sum(map(len, file.transition_probs.values())), source)
    number = {name: i for i, name in enumerate(file.states)}
    if file.state_index != number:
        wrong = next(
            (s for s in file.state_index if number.get(s) != file.state_index[s]),
            file.states[0],
        )
        raise InvalidModel(
            f"state_index and states disagree about {wrong!r}", source=source
        )

    # Some versions write the rows by number instead of by name.
    numerals = {str(i): i for i in range(len(file.states))}
    lookup = numerals if file.transition_probs.keys() <= numerals.keys() else number
    if file.transition_probs.keys() <= number.keys():
        lookup = number

    def numbered(name: str, place: str) -> int:
        if name not in lookup:
            raise InvalidModel(
                f"unknown state {name!r}",
                source=source,
                place=place,
                mend=near_miss(name, lookup),
            )
        return lookup[name]

    rows = {
        numbered(state, "transition_probs"): {
            numbered(target, state): probability(text, source, f"{state} to {target}")
            for target, text in row.items()
        }
        for state, row in file.transition_probs.items()
    }
    try:
        return Chain.from_rows(file.states, rows)
    except InvalidInput as error:
        raise error.within(source) from None
