"""`forewarn rules score`: how well rules tell unsafe runs from safe ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.rules.options import (
    domain_option,
    library_of,
    predicates_options,
    rules_option,
    say_unknown,
    traces_option,
)
from forewarn.cli.support import emit, json_option, table

if TYPE_CHECKING:
    from forewarn.monitors.rules.scoring import Score


@click.command()
@rules_option
@traces_option
@domain_option
@predicates_options
@json_option
def score(
    rules_path: Path,
    traces_path: Path,
    domain_name: str | None,
    files: tuple[Path, ...],
    modules: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Scores rules on labelled traces.

    A trace is called unsafe if a rule fires in it, in shadow or not. One whose label
    is null counts in neither precision nor recall.
    """
    from forewarn.monitors.rules.labelled import read_labelled
    from forewarn.monitors.rules.predicates import domain_of
    from forewarn.monitors.rules.rule import load_rules
    from forewarn.monitors.rules.scoring import score as scored

    rules = load_rules(rules_path)
    domain = domain_of(domain_name, "--domain") if domain_name else rules.domain
    exact = rules.matching == "exact"
    library = library_of(domain, files, modules, exact)
    traces = [t for t in read_labelled(traces_path) if t.domain == domain]
    found = scored(rules, traces, library)
    say_unknown(found.unknown)
    emit(as_json, found.as_dict(), _lines(found))


def _lines(found: Score) -> Iterator[str]:
    yield (
        f"{found.traces} traces, {found.unsafe} unsafe and {found.safe} safe;"
        f" {len(found.called)} called unsafe:"
        f" precision {found.precision:.3f}, recall {found.recall:.3f},"
        f" F1 {found.f1:.3f}"
    )
    yield ""
    rows = sorted(found.fired.items(), key=lambda item: -item[1])
    yield from table(["rule", "fires in"], rows)
