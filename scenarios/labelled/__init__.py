"""Labelled traces that ship: to evolve rules from, and to try them on."""

from __future__ import annotations

from pathlib import Path

from forewarn.monitors.rules.labelled import LabelledTrace, read_labelled
from forewarn.monitors.rules.predicates import Domain


def labelled_traces(domain: Domain) -> list[LabelledTrace]:
    """The traces of a domain that ship."""
    return read_labelled(Path(__file__).parent / f"{domain}.jsonl.gz")
