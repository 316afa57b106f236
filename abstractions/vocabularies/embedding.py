"""A vocabulary as the content of a file, to stand inside what was made with it."""

from __future__ import annotations

from typing import Any

from forewarn.abstractions.vocabularies.vocabulary import (
    SHIPPED,
    Signal,
    Vocabulary,
    load_vocabulary,
)


def vocabulary_reference(vocabulary: Vocabulary) -> str | dict[str, Any]:
    """The name of a vocabulary that ships, or all that predicates need of another.

    What is embedded gives names their meaning; aliases and inputs, which only matter
    where traces are recorded, are left out.
    """
    name = vocabulary.name
    if name in SHIPPED and load_vocabulary(name) == vocabulary:
        return name
    return embedded(vocabulary)


def embedded(vocabulary: Vocabulary) -> dict[str, Any]:
    """All that predicates need of a vocabulary, as a file has it."""
    content: dict[str, Any] = {
        "format": "forewarn.vocabulary/1",
        "name": vocabulary.name,
        "signals": {s.name: _signal(s) for s in vocabulary.signals.values()},
    }
    if vocabulary.predicates:
        content["predicates"] = {
            predicate.name: {"arities": list(predicate.arities)}
            for predicate in vocabulary.predicates.values()
        }
    return content


def _signal(signal: Signal) -> dict[str, Any]:
    found: dict[str, Any] = {"type": signal.type}
    if signal.unit is not None:
        found["unit"] = signal.unit
    if (signal.low, signal.high) != (None, None):
        found["range"] = [signal.low, signal.high]
    if signal.values:
        found["values"] = list(signal.values)
    if signal.may_be_none:
        found["none"] = signal.none_means
    return found
