"""Predicates of agents that run Python, over the parsed program."""

from __future__ import annotations

from functools import cache

from forewarn.monitors.rules.predicates import Library


@cache
def code() -> Library:
    """The predicates of code agents."""
    return Library("code", {}, fields={"action": lambda event, state: event.action})
