"""The page about a proposed rule change, with the runs whose verdicts change and those
that remain unresolved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from forewarn import __version__
from forewarn.abstractions.files import atomic_text
from forewarn.monitors.rules.evolving.proposal import Proposal, report
from forewarn.scenarios.report.drawing import Markup, joined, tag
from forewarn.scenarios.report.page import asset, document
from forewarn.scenarios.report.tables import table

_RIGHTED = {True: "now correct", False: "now wrong", None: "not labelled"}


def write_proposal(path: Path, proposal: Proposal) -> None:
    """Writes the page; equal input gives equal bytes."""
    with atomic_text(path) as out:
        out.write(render(proposal))


def render(proposal: Proposal) -> str:
    """Returns the HTML of the page."""
    facts = report(proposal)
    rules = proposal.corpus.rules
    title = f"Proposed rule change: {rules.name}, {rules.domain}"
    sections: tuple[tuple[str, Iterator[Markup]], ...] = (
        ("The change", _change(proposal)),
        ("Runs whose verdict changes", _flips(proposal)),
        ("Unresolved runs", _unresolved(proposal)),
        ("How the change was found", _steps(facts)),
    )
    if proposal.diff():
        sections += (("Next steps", _next()),)
    body = (
        tag("header", tag("h1", title), *_lead(facts)),
        tag(
            "main",
            *(tag("section", tag("h2", name), *parts) for name, parts in sections),
        ),
        tag("footer", tag("p", f"Made by forewarn {__version__}.")),
    )
    text, _ = document(title, joined(*body), styles=[asset("page.css")], scripts=[])
    return text


def _lead(facts: Mapping[str, Any]) -> Iterator[Markup]:
    yield tag(
        "p",
        f"F1 on the labelled runs: {facts['f1_before']:.3f} before,"
        f" {facts['f1_after']:.3f} after, with {facts['rules_before']} rules before and"
        f" {facts['rules_after']} after.",
        class_="lead",
    )
    held = facts["holdout"]
    if not held:
        yield tag(
            "p", "No runs were held out, so the quality on other runs is unknown."
        )
        return
    yield tag(
        "p",
        f"On {held['traces']} runs of held-out tasks: precision "
        f"{held['precision']:.3f}, recall {held['recall']:.3f}, F1 "
        f"{held['f1_before']:.3f} before and {held['f1']:.3f} after.",
        class_="lead",
    )


def _change(proposal: Proposal) -> Iterator[Markup]:
    lines = proposal.diff().splitlines()
    if not lines:
        yield tag("p", "No change improves the rules.")
        return
    kinds = {"+": "plus", "-": "minus", "@": "at"}
    shown = (tag("span", f"{line}\n", class_=kinds.get(line[:1])) for line in lines)
    yield tag("pre", *shown, class_="diff")


def _flips(proposal: Proposal) -> Iterator[Markup]:
    rows = [
        (flip.trace, flip.label or "-", flip.called, _RIGHTED[flip.righted])
        for flip in proposal.flips()
    ]
    yield _table(("run", "label", "now classified as", "result"), rows)


def _unresolved(proposal: Proposal) -> Iterator[Markup]:
    unresolved = list(proposal.unresolved())
    if not unresolved:
        yield tag("p", "None.")
        return
    yield tag(
        "p",
        "Ideas for new predicates: each run with the rule that raises the false "
        "alarm, or with the rule that comes closest to catching the missed run "
        "and the predicates that do not hold; then the most similar run with the "
        "opposite label, and the predicates that tell the two runs apart.",
        class_="sub",
    )
    for each in unresolved:
        lacks = f", which lacks {', '.join(each.lacks)}" if each.lacks else ""
        told = f"{each.kind} of {each.rule}{lacks}" if each.rule else each.kind
        apart = ", ".join(each.apart) or "no existing predicate"
        like = f" Distinguished from {each.like} by {apart}." if each.like else ""
        yield tag("p", tag("b", each.trace), f": {told}.{like}", class_="wish")


def _steps(facts: Mapping[str, Any]) -> Iterator[Markup]:
    rows = [
        (
            number,
            "; ".join(f"{edit['operator']} {edit['clause']}" for edit in step["edits"]),
            f"{step['f1']:.3f}",
            f"{step['precision']:.3f}",
            f"{step['recall']:.3f}",
            step["candidates"],
        )
        for number, step in enumerate(facts["steps"], 1)
    ]
    yield _table(("step", "edits", "F1", "precision", "recall", "tried"), rows)
    yield tag("p", f"The search ended because: {facts['stop']}.")


def _next() -> Iterator[Markup]:
    for said, command in (
        ("Try it in shadow mode: ", "forewarn rules accept RULES PROPOSED"),
        ("Enforce it: ", "forewarn rules accept RULES --enforce"),
        ("Undo it: ", "forewarn rules rollback RULES"),
    ):
        yield tag("p", said, tag("code", command))


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Markup:
    return table(head, rows) if rows else tag("p", "None.")
