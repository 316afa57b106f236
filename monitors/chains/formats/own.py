"""The JSON format `forewarn.model/1`, with counts or rows of probabilities.

Probabilities are derived from counts when a model is loaded. `forewarn.models/1` is a
list of models for one guard, each for its own laws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import Field

from forewarn.abstractions.errors import (
    InvalidInput,
    InvalidModel,
    TooLarge,
    near_miss,
)
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.chains.chain import Chain, check_size, repeated
from forewarn.monitors.chains.formats.rows import probability, rational
from forewarn.monitors.chains.model import Counts, Model, smoothed_chain

FORMAT = "forewarn.model/1"
SEVERAL = "forewarn.models/1"


MAX_COUNT = 10**12
"""The maximum count, so that sums of counts cannot overflow."""

_Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
_Value = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class _File(Strict):
    format: Literal["forewarn.model/1"]
    states: list[str] = Field(min_length=1)
    counts: dict[str, dict[str, _Count]] | None = None
    rows: dict[str, dict[str, str | float]] | None = None
    initial: str | None = None
    starts: dict[str, _Count] = {}
    labels: dict[str, list[str]] = {}
    variables: dict[str, list[_Value]] = {}
    alpha: str | None = None
    support: Literal["observed", "valid", "all", "declared"] = "observed"
    end: Literal["absorb", "ignore"] = "ignore"
    end_state: str | None = None
    abstraction: dict[str, Any] | None = None
    period_s: float | None = Field(default=None, gt=0)
    laws: list[str] = []
    training: dict[str, Any] = {}
    likely: dict[str, dict[str, Any]] = {}
    first_visits: dict[str, dict[str, Any]] = {}


class _Several(Strict):
    format: Literal["forewarn.models/1"]
    models: list[dict[str, Any]] = Field(min_length=1, max_length=100)


def recognises(data: object) -> bool:
    return isinstance(data, dict) and str(data.get("format")).startswith("forewarn.")


def parse_models(data: object, source: str = "") -> tuple[Model, ...]:
    """Parses a JSON object that contains one model or several."""
    if not isinstance(data, dict) or data.get("format") != SEVERAL:
        return (parse_model(data, source),)
    found = validated(_Several, data, source, InvalidModel).models
    models = tuple(
        parse_model(each, f"{source}: models.{i}") for i, each in enumerate(found)
    )
    laws = [law for model in models for law in model.laws]
    twice = next((law for law in laws if laws.count(law) > 1), None)
    if twice is not None:
        raise InvalidModel(
            f"the file has two models for the law {twice!r}", source=source
        )
    return models


def models_as_dict(models: Sequence[Model]) -> dict[str, Any]:
    """Returns the JSON object from which `parse_models` recreates the same models."""
    if len(models) == 1:
        return model_as_dict(models[0])
    return {"format": SEVERAL, "models": [model_as_dict(each) for each in models]}


def parse_model(data: object, source: str = "") -> Model:
    """Parses a JSON object that contains one model."""
    file = validated(_File, data, source, InvalidModel)
    if (file.counts is None) == (file.rows is None):
        raise InvalidModel("a model needs either 'counts' or 'rows'", source=source)
    try:
        return _learned(file) if file.counts is not None else _published(file)
    except (InvalidModel, TooLarge) as error:
        raise error.within(source) from None
    except InvalidInput as error:
        raise InvalidModel(error.problem, source=source, place=error.place) from None


class _Numbers:
    """Converts state names to numbers; the error for an unknown name states its
    position.
    """

    def __init__(self, states: list[str]) -> None:
        check_size(len(states))
        self.states = states
        self.of = {name: i for i, name in enumerate(states)}
        if len(self.of) < len(states):
            raise InvalidModel(f"the state {repeated(states)!r} appears twice")

    def __call__(self, name: str, place: str) -> int:
        found = self.of.get(name)
        if found is None:
            mend = near_miss(name, self.states)
            raise InvalidModel(f"unknown state {name!r}", place=place, mend=mend)
        return found


_Entry = TypeVar("_Entry")


def _rows(
    rows: Mapping[str, Mapping[str, _Entry]], number: _Numbers, key: str
) -> dict[int, dict[int, _Entry]]:
    check_size(len(number.states), sum(map(len, rows.values())))
    return {
        number(state, key): {
            number(target, f"{key}.{state}"): entry for target, entry in row.items()
        }
        for state, row in rows.items()
    }


def _facts(file: _File, number: _Numbers) -> dict[str, Any]:
    return {
        "initial": None if file.initial is None else number(file.initial, "initial"),
        "end": None if file.end_state is None else number(file.end_state, "end_state"),
        "labels": {
            label: frozenset(number(s, f"labels.{label}") for s in members)
            for label, members in file.labels.items()
        },
        "variables": {
            name: np.array(values, dtype=np.int64)
            for name, values in file.variables.items()
        },
    }


def _learned(file: _File) -> Model:
    number = _Numbers(file.states)
    rows = _rows(file.counts or {}, number, "counts")
    if file.end_state is not None:
        end = number(file.end_state, "end_state")
        rows[end] = {end: 0}
    counts = Counts.from_rows([rows.get(i, {}) for i in range(len(file.states))])
    if file.alpha is None:
        raise InvalidModel(
            "a model with 'counts' also needs 'alpha'", mend='add "alpha": "0"'
        )
    alpha = rational(file.alpha)
    chain, unvisited = smoothed_chain(
        file.states, counts, alpha, **_facts(file, number)
    )
    return Model(
        chain=chain,
        counts=counts,
        unvisited=unvisited,
        starts={number(s, "starts"): n for s, n in file.starts.items()},
        alpha=alpha,
        **_common(file),
    )


def _published(file: _File) -> Model:
    number = _Numbers(file.states)
    for key in ("alpha", "starts"):
        if getattr(file, key):
            raise InvalidModel(
                f"{key!r} is only allowed together with 'counts'", place=key
            )
    rows: dict[int, dict[int, float | Fraction]] = {
        state: {
            j: probability(p, "", f"rows.{file.states[state]}.{file.states[j]}")
            if isinstance(p, str)
            else p
            for j, p in row.items()
        }
        for state, row in _rows(file.rows or {}, number, "rows").items()
    }
    chain = Chain.from_rows(file.states, rows, **_facts(file, number))
    return Model(chain=chain, **_common(file))


def _common(file: _File) -> dict[str, Any]:
    return {
        "abstraction": file.abstraction,
        "support": file.support,
        "end": file.end,
        "period_s": file.period_s,
        "laws": tuple(file.laws),
        "training": file.training,
        "likely": file.likely,
        "first_visits": file.first_visits,
    }


def model_as_dict(model: Model) -> dict[str, Any]:
    """Returns the JSON object from which `parse_model` recreates the same model."""
    chain, states = model.chain, model.chain.states
    found: dict[str, Any] = {"format": FORMAT, "states": list(states)}
    if model.counts is not None:
        found["counts"] = named_counts(model)
        found["alpha"] = str(model.alpha)
    else:
        skipped = set(chain.deadlocks)
        found["rows"] = {
            name: {
                states[j]: str(p) if chain.exact else float(p)
                for j, p in chain.exact_row(i).items()
            }
            for i, name in enumerate(states)
            if i not in skipped
        }
    optional: dict[str, Any] = {
        "initial": None if chain.initial is None else states[chain.initial],
        "end_state": None if chain.end is None else states[chain.end],
        "starts": {states[i]: n for i, n in sorted(model.starts.items())},
        "labels": {
            label: [states[i] for i in sorted(members)]
            for label, members in chain.labels.items()
        },
        "variables": {name: v.tolist() for name, v in chain.variables.items()},
        "support": model.support,
        "end": model.end,
        "abstraction": model.abstraction and dict(model.abstraction),
        "period_s": model.period_s,
        "laws": list(model.laws),
        "training": dict(model.training),
        "likely": dict(model.likely),
        "first_visits": dict(model.first_visits),
    }
    return found | {k: v for k, v in optional.items() if v not in (None, {}, [])}


def named_counts(model: Model) -> dict[str, dict[str, int]]:
    """Returns the counts by state name, including allowed successors that were never
    seen.
    """
    states, counts = model.chain.states, model.counts
    if counts is None:
        return {}
    return {
        name: {states[j]: seen for j, seen in counts.row(i).items()}
        for i, name in enumerate(states)
        if counts.sizes[i] and i != model.chain.end
    }


class _ProbGuardFile(Strict):
    states: list[str] = Field(min_length=1)
    state_index: dict[str, int]
    transition_probs: dict[str, dict[str, str]]
    # In published files, the bits of this field do not match the states, so the field
    # is ignored.
    state_interpret: dict[str, Any] = {}
    predicates: list[Any] = []


def is_probguard(data: object) -> bool:
    return isinstance(data, dict) and "transition_probs" in data


def parse_probguard(data: object, source: str = "") -> Chain:
    """Parses the chain in a ProbGuard model file."""
    file = validated(_ProbGuardFile, data, source, InvalidModel)
    try:
        return _probguard(file)
    except (InvalidModel, TooLarge) as error:
        raise error.within(source) from None


def _probguard(file: _ProbGuardFile) -> Chain:
    states, written = file.states, file.transition_probs
    number = _Numbers(states)
    if file.state_index != number.of:
        wrong = next(
            (s for s in file.state_index if number.of.get(s) != file.state_index[s]),
            states[0],
        )
        raise InvalidModel(f"'state_index' and 'states' disagree on {wrong!r}")
    # Some versions write the rows by number instead of by name.
    numerals = [str(i) for i in range(len(states))]
    if not written.keys() <= number.of.keys() and written.keys() <= set(numerals):
        number = _Numbers(numerals)
    rows = {
        i: {
            j: probability(text, "", f"{states[i]} to {states[j]}")
            for j, text in row.items()
        }
        for i, row in _rows(written, number, "transition_probs").items()
    }
    return Chain.from_rows(states, rows)
