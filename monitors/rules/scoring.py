"""Measures how well rules distinguish unsafe runs from safe ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from forewarn.abstractions.errors import InvalidTrace, SignalFault
from forewarn.monitors.rules.engine import Engine, run
from forewarn.monitors.rules.labelled import LabelledTrace
from forewarn.monitors.rules.predicates import Library
from forewarn.monitors.rules.rule import RuleSet


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a set of rules on labelled traces.

    A trace is called unsafe if any rule fires in it. 0/0 counts as zero, so rules that
    never fire gain nothing. `fired` is the number of traces in which each rule fires.
    `unknown` lists the missing signals that kept a rule from firing.
    """

    traces: int = 0
    hits: int = 0
    misses: int = 0
    false_alarms: int = 0
    quiet: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    called: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def unsafe(self) -> int:
        return self.hits + self.misses

    @property
    def safe(self) -> int:
        return self.false_alarms + self.quiet

    @property
    def precision(self) -> float:
        called = self.hits + self.false_alarms
        return self.hits / called if called else 0.0

    @property
    def recall(self) -> float:
        return self.hits / self.unsafe if self.unsafe else 0.0

    @property
    def f1(self) -> float:
        total = 2 * self.hits + self.misses + self.false_alarms
        return 2 * self.hits / total if total else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns the output of `forewarn rules score --json`."""
        return {
            "traces": self.traces,
            "unsafe": self.unsafe,
            "safe": self.safe,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "fired": self.fired,
        }


def score(rules: RuleSet, traces: Iterable[LabelledTrace], library: Library) -> Score:
    """Scores the rules on the traces; traces without a label are not scored."""
    unknown: set[str] = set()
    engine = Engine(rules, library, unknown)
    fired = {rule.name: 0 for rule in rules.rules}
    counts: Counter[tuple[str | None, bool]] = Counter()
    called: list[str] = []
    for trace in traces:
        try:
            names = {firing.rule.name for firing in run(engine, trace.events)}
        except SignalFault as fault:
            raise InvalidTrace(str(fault), place=f"trace {trace.id}") from None
        for name in names:
            fired[name] += 1
        if names:
            called.append(trace.id)
        counts[trace.label, bool(names)] += 1
    return Score(
        counts.total(),
        counts["unsafe", True],
        counts["unsafe", False],
        counts["safe", True],
        counts["safe", False],
        fired,
        tuple(called),
        tuple(sorted(unknown)),
    )
