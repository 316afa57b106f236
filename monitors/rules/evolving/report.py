"""The reasons for a proposal, as files for people and programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import clean
from forewarn.abstractions.files import atomic_text, write_json
from forewarn.monitors.rules.evolving.proposal import Proposal


def write_report(folder: Path, proposal: Proposal) -> None:
    """Writes `report.md`, `change.diff` and `report.json`; equal input, equal bytes."""
    with atomic_text(folder / "report.md") as out:
        out.writelines(f"{clean(line)}\n" for line in _lines(proposal))
    with atomic_text(folder / "change.diff") as out:
        out.write(proposal.diff() + "\n")
    write_json(folder / "report.json", report(proposal))


def report(proposal: Proposal) -> dict[str, Any]:
    """Everything there is to say of a proposal."""
    evolution, matrix = proposal.evolution, proposal.corpus.matrix
    hypothesis = evolution.hypothesis
    least = None
    if hypothesis is not None:
        least = {
            "groups": [matrix.said(clause) for clause in hypothesis.clauses],
            "errors": hypothesis.cost.errors,
            "size": hypothesis.cost.size,
            "proven": hypothesis.proven,
        }
    return {
        **proposal.as_dict(),
        "stop": evolution.stop,
        "caution": {"worth": proposal.way.worth, "literals": proposal.way.literals},
        "caution_tried": [
            {"worth": t.worth, "literals": t.literals, "f1": t.f1}
            for t in proposal.trials
        ],
        "least_hypothesis": least,
        "steps": [
            {
                "edits": [
                    {"operator": e.operator, "clause": matrix.said(e.clause)}
                    for e in step.edits
                ],
                "f1": step.standing.f1,
                "precision": step.standing.precision,
                "recall": step.standing.recall,
                "candidates": step.candidates,
            }
            for step in evolution.steps
        ],
        "flips": [flip.as_dict() for flip in proposal.flips()],
    }


def _lines(proposal: Proposal) -> Iterator[str]:
    found = report(proposal)
    yield "# A change of rules"
    yield ""
    yield (
        f"F1 on the labelled traces rises from {found['f1_before']:.3f} to"
        f" {found['f1_after']:.3f}, with {found['rules_before']} rules before and"
        f" {found['rules_after']} after."
    )
    held = found["holdout"]
    if held:
        yield (
            f"On {held['traces']} traces of tasks that were held out: precision"
            f" {held['precision']:.3f}, recall {held['recall']:.3f}, F1"
            f" {held['f1']:.3f} (before: {held['f1_before']:.3f})."
        )
    yield ""
    yield "## The change"
    yield ""
    yield "```diff"
    yield from proposal.diff().splitlines()
    yield "```"
    yield ""
    yield "## Step by step"
    yield ""
    for number, step in enumerate(found["steps"], 1):
        edits = "; ".join(f"{e['operator']} `{e['clause']}`" for e in step["edits"])
        yield (
            f"{number}. F1 {step['f1']:.3f}, precision {step['precision']:.3f}, recall"
            f" {step['recall']:.3f}, of {step['candidates']} candidates: {edits}"
        )
    yield f"It ends because: {found['stop']}."
    yield ""
    yield "## Traces that flip"
    yield ""
    for flip in proposal.flips():
        means = {True: "right now", False: "wrong now", None: "not labelled"}
        yield f"- `{flip.trace}` is called {flip.called}: {means[flip.righted]}"
    yield ""
    yield "## What no rule gets right: wishes for new predicates"
    yield ""
    yield from (f"- {each.said()}" for each in proposal.unresolved())
