"""What evolution proposes: the change as text, the traces that flip, what is left."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from forewarn.monitors.rules.evolving.bits.bench import Bench, Standing, mine, nearest
from forewarn.monitors.rules.evolving.bits.matrix import members
from forewarn.monitors.rules.evolving.corpus import Corpus
from forewarn.monitors.rules.evolving.search.caution import Trial
from forewarn.monitors.rules.evolving.search.evolution import Evolution
from forewarn.monitors.rules.evolving.search.step import Way
from forewarn.monitors.rules.rule import RuleSet

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A trace that the rules still call wrongly: a wish for a new predicate.

    Args:
        trace: Its id.
        kind: What is wrong.
        rule: The rule that fires, or that came nearest to it; "" for none.
        lacks: Of a miss: what that rule lacked to fire.
        like: The trace with the other label that is most like it; "" for none.
        apart: The predicates that hold somewhere in one of the two, not in the other.
    """

    trace: str
    kind: Literal["miss", "false alarm"]
    rule: str
    lacks: tuple[str, ...] = ()
    like: str = ""
    apart: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        lacks = {"lacks": list(self.lacks)} if self.lacks else {}
        return {
            "trace": self.trace,
            "kind": self.kind,
            "rule": self.rule,
            **lacks,
            "like": self.like,
            "apart": list(self.apart),
        }

    def said(self) -> str:
        """For people."""
        lacks = ", ".join(self.lacks) or "its moment"
        near = f", nearest is {self.rule}, which lacks {lacks}" if self.rule else ""
        what = f"a false alarm of {self.rule}"
        if self.kind == "miss":
            what = f"missed{near}"
        if not self.like:
            return f"{self.trace}: {what}"
        apart = ", ".join(self.apart[:_SHOWN]) or "no predicate"
        return f"{self.trace}: {what}; {apart} tells it from {self.like}"


@dataclass(frozen=True, slots=True)
class Flip:
    """A trace that is called otherwise than before.

    Args:
        trace: Its id.
        label: What it is, if that is known.
        called: What it is called now.
    """

    trace: str
    label: str | None
    called: Literal["safe", "unsafe"]

    @property
    def righted(self) -> bool | None:
        return None if self.label is None else self.label == self.called

    def as_dict(self) -> dict[str, Any]:
        return {"trace": self.trace, "label": self.label, "called": self.called}


@dataclass(frozen=True, slots=True)
class Holdout:
    """How the rules fare on traces that were held out.

    Args:
        runs: Those traces, as a set.
        before: How the first rules fare.
        after: How the proposed ones do.
    """

    runs: int
    before: Standing
    after: Standing

    def as_dict(self) -> dict[str, Any]:
        return {
            "traces": self.runs.bit_count(),
            "precision": self.after.precision,
            "recall": self.after.recall,
            "f1": self.after.f1,
            "f1_before": self.before.f1,
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of rules, and what speaks for it.

    Args:
        corpus: What it was learned from.
        evolution: How it came about.
        rules: The rules it proposes.
        way: How they were looked for.
        trials: The degrees of caution that were tried.
        holdout: How they fare on traces that were held out, if some were.
    """

    corpus: Corpus
    evolution: Evolution
    rules: RuleSet
    way: Way
    trials: tuple[Trial, ...] = ()
    holdout: Holdout | None = None

    @property
    def learned_from(self) -> int:
        """The labelled traces that were not held out, as a set."""
        held = self.holdout.runs if self.holdout else 0
        return self.corpus.matrix.labelled & ~held

    def as_dict(self) -> dict[str, Any]:
        """What `forewarn rules evolve --json` prints, but for the seconds."""
        return {
            "rules_before": len(self.corpus.rules.rules),
            "rules_after": len(self.rules.rules),
            "f1_before": self.evolution.start.f1,
            "f1_after": self.evolution.standing.f1,
            "holdout": self.holdout.as_dict() if self.holdout else {},
            "iterations": len(self.evolution.steps),
            "unresolved": [each.as_dict() for each in self.unresolved()],
        }

    def diff(self) -> str:
        """The change as text."""
        before, after = self.corpus.rules.text(), self.rules.text()
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=1
        )
        return "\n".join(lines)

    def flips(self) -> Iterator[Flip]:
        """The traces that are called otherwise than before."""
        bench = Bench(self.corpus.matrix)
        before = 0
        for clause in self.corpus.start:
            before |= bench.runs(clause)
        after = bench.called(self.evolution.entries)
        for run in members(before ^ after):
            trace = self.corpus.traces[run]
            called: Literal["safe", "unsafe"] = "unsafe" if after >> run & 1 else "safe"
            yield Flip(trace.id, trace.label, called)

    def unresolved(self) -> Iterator[Unresolved]:
        """The traces learned from that are still called wrongly."""
        entries = self.evolution.entries
        matrix = self.corpus.matrix.only(self.learned_from)
        bench = Bench(matrix)
        found = mine(bench, entries)
        names = [rule.name for rule in self.corpus.of(entries)]
        profiles = matrix.profiles()
        for run in members(found.misses):
            came = nearest(matrix, entries, run)
            rule = names[came.rule] if came else ""
            lacks = came.failed if came else ()
            like = self._like(profiles, run, matrix.safe)
            yield Unresolved(self.corpus.traces[run].id, "miss", rule, lacks, *like)
        for run in members(found.alarms):
            fired = next(
                number
                for number, entry in enumerate(entries)
                if bench.runs(entry.clause) >> run & 1
            )
            trace = self.corpus.traces[run].id
            like = self._like(profiles, run, matrix.unsafe)
            yield Unresolved(trace, "false alarm", names[fired], (), *like)

    def _like(
        self, profiles: Sequence[int], run: int, others: int
    ) -> tuple[str, tuple[str, ...]]:
        """Of other runs the one most like it, and what tells the two apart."""
        differ = [
            ((profiles[run] ^ profiles[o]).bit_count(), o) for o in members(others)
        ]
        if not differ:
            return "", ()
        other = min(differ)[1]
        names = self.corpus.matrix.predicates
        apart = members(profiles[run] ^ profiles[other])
        return self.corpus.traces[other].id, tuple(names[i] for i in apart)
