"""The shipped labelled traces, for evolving and testing rules."""

from __future__ import annotations

from pathlib import Path

from forewarn.monitors.rules.labelled import LabelledTrace, read_labelled
from forewarn.monitors.rules.predicates import Domain


def labelled_traces(domain: Domain) -> list[LabelledTrace]:
    """The shipped traces of a domain."""
    return read_labelled(Path(__file__).parent / f"{domain}.jsonl.gz")
