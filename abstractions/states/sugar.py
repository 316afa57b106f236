"""Shorthand of abstraction files: `bands(speed, 0.5, 5, 15, 30)`."""

from __future__ import annotations

import re

from forewarn.abstractions.errors import InvalidAbstraction

_BANDS = re.compile(r"\s*bands\s*\((.*)\)\s*", re.DOTALL)


def expand_bands(text: str, source: str, place: str) -> list[str]:
    """The predicates that a line stands for: `x < b` for each end of its bands."""
    match = _BANDS.fullmatch(text)
    if match is None:
        return [text]
    subject, *bounds = (part.strip() for part in match.group(1).split(","))
    if not subject or not bounds:
        raise InvalidAbstraction(
            "bands need a signal and at least one end",
            source=source,
            place=place,
            mend="write bands(speed, 0.5, 5, 15, 30)",
        )
    return [f"{subject} < {bound}" for bound in bounds]
