"""Predicates of a driving stack: written as conditions over its signals."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from forewarn.monitors.rules.libraries.adding import add_file
from forewarn.monitors.rules.predicates import Library


@cache
def driving() -> Library:
    """The predicates of driving."""
    signals = Library("driving", {}, vocabulary="driving")
    return add_file(signals, Path(__file__).with_name("driving.yaml"))
