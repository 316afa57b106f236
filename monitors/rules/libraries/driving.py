"""Predicates of a driving stack."""

from __future__ import annotations

from functools import cache

from forewarn.monitors.rules.predicates import Library


@cache
def driving() -> Library:
    """The predicates of driving."""
    return Library("driving", {}, vocabulary="driving")
