"""The one law of a name or formula."""

from __future__ import annotations

from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.laws.lawbook import Edition, Law, find_laws, law_book


def load_law(
    name_or_formula: str,
    edition: Edition = "probguard",
    vocabulary: Vocabulary | None = None,
) -> Law:
    (law,) = find_laws(name_or_formula, law_book(edition), vocabulary)
    return law
