"""`forewarn rules evolve`: rules that follow what was labelled."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.rules.options import (
    FILE,
    domain_option,
    library_of,
    predicates_options,
    say_unknown,
    traces_option,
)
from forewarn.cli.support import Number, emit, json_option, seed_option

if TYPE_CHECKING:
    from forewarn.monitors.rules.evolving.proposal import Proposal
    from forewarn.monitors.rules.predicates import Domain
    from forewarn.monitors.rules.rule import RuleSet

_SHOWN = 10


@click.command()
@click.option(
    "--rules",
    "rules_path",
    type=FILE,
    help="The rules to begin with; by default those that ship for the domain.",
)
@traces_option
@domain_option
@click.option(
    "--holdout",
    type=Number(0, 0.9),
    default=0.0,
    show_default=True,
    help="The share of the tasks to learn nothing from and to judge the rules by.",
)
@click.option("--out", type=FILE, help="Where the proposed rules go.")
@click.option(
    "--report",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the reasons go: the change as text, the traces that flip, what is"
    " left unresolved.",
)
@predicates_options
@seed_option
@json_option
def evolve(
    rules_path: Path | None,
    traces_path: Path,
    domain_name: str | None,
    holdout: float,
    out: Path | None,
    folder: Path | None,
    files: tuple[Path, ...],
    modules: tuple[Path, ...],
    seed: int,
    as_json: bool,
) -> None:
    """Change rules until they fit labelled traces, and no further.

    Rules are narrowed by conjuncts and exceptions, widened by leaving conditions out,
    added and given up, as long as F1 on the labelled traces rises. How much an edit
    must be worth is what holds up on tasks that are left out in turn. The same rules,
    traces and seed give the same bytes.

    \b
    Example:
      forewarn rules evolve --traces labelled.jsonl --domain household \\
        --holdout 0.3 --out rules.yaml --report why
    """
    from forewarn.abstractions.errors import InvalidTrace
    from forewarn.monitors.rules.evolving.proposal import propose, write_report
    from forewarn.monitors.rules.labelled import read_labelled
    from forewarn.monitors.rules.rule import save_rules
    from forewarn.scenarios.report.proposals.page import write_proposal

    began = time.perf_counter()
    rules, domain = _begin(rules_path, domain_name)
    predicates = library_of(domain, files, modules)
    traces = [t for t in read_labelled(traces_path) if t.domain == domain]
    if not traces:
        raise InvalidTrace(f"no trace is of {domain}", source=str(traces_path))
    found = propose(rules, traces, predicates, seed, holdout)
    if out is not None:
        save_rules(out, found.rules)
    if folder is not None:
        write_report(folder, found)
        write_proposal(folder / "report.html", found)
    say_unknown(found.corpus.unknown)
    payload = found.as_dict()
    payload["seconds"] = round(time.perf_counter() - began, 3)
    emit(as_json, payload, _lines(found, payload))


def _begin(path: Path | None, name: str | None) -> tuple[RuleSet, Domain]:
    from forewarn.monitors.rules.predicates import domain_of
    from forewarn.monitors.rules.rule import expert_rules, load_rules

    if path is not None:
        rules = load_rules(path)
        return rules, domain_of(name, "--domain") if name else rules.domain
    if name is None:
        raise click.UsageError("say --rules or --domain")
    domain = domain_of(name, "--domain")
    return expert_rules(domain), domain


def _lines(found: Proposal, payload: dict[str, Any]) -> Iterator[str]:
    yield (
        f"F1 {payload['f1_before']:.3f} -> {payload['f1_after']:.3f} with"
        f" {payload['rules_after']} rules, {payload['iterations']} changes,"
        f" {payload['seconds']:.1f} s"
    )
    if found.holdout is not None:
        held = payload["holdout"]
        yield (
            f"held out, {held['traces']} traces: precision {held['precision']:.3f},"
            f" recall {held['recall']:.3f}, F1 {held['f1_before']:.3f} ->"
            f" {held['f1']:.3f}"
        )
    yield ""
    yield found.diff() or "no change is worth it"
    unresolved = list(found.unresolved())
    if unresolved:
        yield ""
        yield f"{len(unresolved)} traces are still called wrongly:"
        yield from (f"  {each.said()}" for each in unresolved[:_SHOWN])
