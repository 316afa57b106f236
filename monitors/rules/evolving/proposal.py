"""The result of evolution: the change, changed verdicts, and unresolved traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import atomic_text, write_json
from forewarn.abstractions.serial import to_json
from forewarn.monitors.rules.evolving.bits import (
    Bench,
    Standing,
    Words,
    count,
    entries_of,
    members,
    nearest,
)
from forewarn.monitors.rules.evolving.corpus import Corpus, corpus
from forewarn.monitors.rules.evolving.groups import and_groups
from forewarn.monitors.rules.evolving.search import (
    LEAST_WORTH,
    MOST_LITERALS,
    Evolution,
    Limits,
    Trial,
    cautious,
    evolve,
    held_out,
)
from forewarn.monitors.rules.labelled import LabelledTrace
from forewarn.monitors.rules.predicates import Library
from forewarn.monitors.rules.rule import RuleSet
from forewarn.monitors.rules.versions import difference

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A trace that the rules still classify wrongly, which may need a new predicate.

    Args:
        rule: The rule that fires, or that came closest to firing; "" for none.
        lacks: For a miss, the literals of the closest rule that were not true.
        like: The most similar trace with the opposite label; "" for none.
        apart: The predicates that are true in only one of the two traces.
    """

    trace: str
    kind: Literal["miss", "false alarm"]
    rule: str
    lacks: tuple[str, ...] = ()
    like: str = ""
    apart: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        content = to_json(self)
        if not self.lacks:
            del content["lacks"]
        return content

    def said(self) -> str:
        """Returns a one-line description."""
        what = f"a false alarm of {self.rule}"
        if self.kind == "miss":
            lacks = ", ".join(self.lacks) or "its moment"
            near = (
                f"; the closest rule is {self.rule}, which lacks {lacks}"
                if self.rule
                else ""
            )
            what = f"missed{near}"
        if not self.like:
            return f"{self.trace}: {what}"
        apart = ", ".join(self.apart[:_SHOWN]) or "no predicate"
        return f"{self.trace}: {what}; distinguished from {self.like} by {apart}"


@dataclass(frozen=True, slots=True)
class Flip:
    """A trace whose verdict changes to `called`."""

    trace: str
    label: str | None
    called: Literal["safe", "unsafe"]


@dataclass(frozen=True, slots=True)
class Holdout:
    """The scores of the initial and the proposed rules on held-out traces."""

    runs: Words
    before: Standing
    after: Standing

    def as_dict(self) -> dict[str, Any]:
        return {
            "traces": count(self.runs),
            "precision": self.after.precision,
            "recall": self.after.recall,
            "f1": self.after.f1,
            "f1_before": self.before.f1,
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed change of rules, with its origin and the evidence for it."""

    corpus: Corpus
    evolution: Evolution
    rules: RuleSet
    way: Limits
    trials: tuple[Trial, ...] = ()
    holdout: Holdout | None = None

    @property
    def learned_from(self) -> Words:
        """The set of labelled traces that were not held out."""
        labelled = self.corpus.matrix.labelled
        return labelled & ~self.holdout.runs if self.holdout else labelled

    def as_dict(self) -> dict[str, Any]:
        """Returns the output of `forewarn rules evolve --json`, except `seconds`."""
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
        """Returns the change as a unified diff."""
        return "\n".join(difference(self.corpus.rules.text(), self.rules.text(), 1))

    def flips(self) -> Iterator[Flip]:
        """Yields the traces whose verdicts change."""
        bench = Bench(self.corpus.matrix)
        before = bench.called(entries_of(self.corpus.start))
        after = bench.called(self.evolution.entries)
        unsafe = set(members(after))
        for run in members(before ^ after):
            trace = self.corpus.traces[run]
            yield Flip(trace.id, trace.label, "unsafe" if run in unsafe else "safe")

    def unresolved(self) -> Iterator[Unresolved]:
        """Yields the training traces that are still classified wrongly."""
        entries = self.evolution.entries
        matrix = self.corpus.matrix.only(self.learned_from)
        bench = Bench(matrix)
        misses, alarms = bench.wrong(entries)
        names = [rule.name for rule in self.corpus.of(entries)]
        profiles = matrix.profiles()
        for run in members(misses):
            number, lacks = nearest(matrix, entries, run) or (None, ())
            rule = "" if number is None else names[number]
            like = self._like(profiles, run, matrix.safe)
            yield Unresolved(self.corpus.traces[run].id, "miss", rule, lacks, *like)
        for run in members(alarms):
            fired = (run in members(bench.runs(entry.clause)) for entry in entries)
            rule = next(name for name, fires in zip(names, fired, strict=True) if fires)
            like = self._like(profiles, run, matrix.unsafe)
            yield Unresolved(self.corpus.traces[run].id, "false alarm", rule, (), *like)

    def _like(
        self, profiles: NDArray[np.bool_], run: int, others: Words
    ) -> tuple[str, tuple[str, ...]]:
        """Returns the most similar run in `others`, and the predicates that differ."""
        listed = members(others)
        if not listed:
            return "", ()
        apart = profiles[:, listed] != profiles[:, [run]]
        nearest = int(apart.sum(axis=0).argmin())
        names = self.corpus.matrix.predicates
        differ = np.flatnonzero(apart[:, nearest])
        return self.corpus.traces[listed[nearest]].id, tuple(names[i] for i in differ)


def propose(
    rules: RuleSet,
    traces: Iterable[LabelledTrace],
    library: Library,
    seed: int = 0,
    holdout: float | None = None,
) -> Proposal:
    """Evolves rules on labelled traces.

    Args:
        traces: The traces; rules are learned only from those with a label.
        seed: The seed of the random split into held-out tasks and folds.
        holdout: The fraction of the tasks to hold out.
    """
    data = corpus(rules, traces, library)
    matrix = data.matrix
    if not matrix.unsafe.any() or not matrix.safe.any():
        raise InvalidInput(
            "learning rules needs both safe and unsafe traces",
            mend="label more traces",
        )
    held = held_out(matrix, holdout or 0.0, seed)
    training = matrix.only(matrix.labelled & ~held)
    if not training.unsafe.any() or not training.safe.any():
        raise InvalidInput(
            "the traces that are not held out are all safe or all unsafe",
            mend="add traces with the other label, or lower --holdout",
        )
    groups = and_groups(training, MOST_LITERALS, LEAST_WORTH)
    chosen, trials = cautious(training, data.start, groups, seed)
    found = evolve(training, data.start, chosen, groups)
    judged = None
    if held.any():
        bench = Bench(matrix.only(held))
        before = bench.standing(entries_of(data.start))
        judged = Holdout(held, before, bench.standing(found.entries))
    return Proposal(data, found, data.written(found.entries), chosen, trials, judged)


def write_report(folder: Path, proposal: Proposal) -> None:
    """Writes `change.diff` and `report.json`; equal input gives equal bytes."""
    with atomic_text(folder / "change.diff") as out:
        out.write(proposal.diff() + "\n")
    write_json(folder / "report.json", report(proposal))


def report(proposal: Proposal) -> dict[str, Any]:
    """Returns all facts about a proposal as JSON."""
    evolution, matrix = proposal.evolution, proposal.corpus.matrix
    return {
        **proposal.as_dict(),
        "stop": evolution.stop,
        "caution": {"worth": proposal.way.worth, "literals": proposal.way.literals},
        "caution_tried": [to_json(trial) for trial in proposal.trials],
        "steps": [
            {
                "edits": [
                    {"operator": e.operator, "clause": matrix.said(e.clause)}
                    for e in step.edits
                ],
                "f1": step.standing.f1,
                "precision": step.standing.precision,
                "recall": step.standing.recall,
                "candidates": step.of,
            }
            for step in evolution.steps
        ],
        "flips": [to_json(flip) for flip in proposal.flips()],
    }
