"""Runs on file into a tally, and what a model remembers of them."""

from forewarn.monitors.trust.training.encoding import (
    Counted,
    Encoded,
    count,
    encode,
    encode_trace,
    encode_traces,
    tick_times,
)
from forewarn.monitors.trust.training.sequences import holds_traces, read_sequences
from forewarn.monitors.trust.training.training import (
    Training,
    digest_of_runs,
    law_abstraction,
)

__all__ = [
    "Counted",
    "Encoded",
    "Training",
    "count",
    "digest_of_runs",
    "encode",
    "encode_trace",
    "encode_traces",
    "holds_traces",
    "law_abstraction",
    "read_sequences",
    "tick_times",
]
