"""The shipped labelled traces, on which rules are evolved and tested."""

from __future__ import annotations

from pathlib import Path

from forewarn.monitors.rules.labelled import LabelledTrace, read_labelled
from forewarn.monitors.rules.predicates import Domain


def labelled_traces(domain: Domain) -> list[LabelledTrace]:
    """Reads the shipped labelled traces of a domain."""
    return read_labelled(Path(__file__).parent / f"{domain}.jsonl.gz")
