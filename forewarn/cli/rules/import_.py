"""`forewarn rules import`: AgentSpec's rules, as people write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.rules.options import FILE, library_of, predicates_options
from forewarn.cli.support import emit, json_option, table

if TYPE_CHECKING:
    from forewarn.monitors.rules.agentspec import Imported


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=FILE)
@click.option("--out", type=FILE, required=True, help="Where the rules are written.")
@click.option(
    "--domain",
    "domain_name",
    help="household, driving or code, of all rules. By default what each rule's"
    " trigger tells.",
)
@click.option(
    "--upstream-exact",
    "exact",
    is_flag=True,
    help="Match as AgentSpec's own runtime does: by case, by what an action's text"
    " begins with, the first rule first, `!!p` as `!p`, and names in --module before"
    " ours.",
)
@predicates_options
@json_option
def import_(
    paths: tuple[Path, ...],
    out: Path,
    domain_name: str | None,
    exact: bool,
    files: tuple[Path, ...],
    modules: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Reads AgentSpec's rules from PATHS, files or folders, and writes them as ours.

    A rule whose predicate nobody knows is written too, but off, and listed: give the
    predicate with --module or --predicates and import again. What could not be read is
    listed too, with its line.

    \b
    Example:
      forewarn rules import rules/ --out rules.yaml --module my_predicates.py
    """
    from forewarn.monitors.rules.agentspec import import_rules, rule_files
    from forewarn.monitors.rules.predicates import DOMAINS, domain_of
    from forewarn.monitors.rules.rule import save_rules

    domain = domain_of(domain_name, "--domain") if domain_name else None
    known = {each: library_of(each, files, modules, exact) for each in DOMAINS}
    found = import_rules(rule_files(paths), known, domain, exact)
    save_rules(out, found.rules)
    emit(as_json, found.as_dict(), _lines(found, out))


def _lines(found: Imported, out: Path) -> Iterator[str]:
    total = len(found.rules.rules)
    yield (
        f"{found.files} files, {total} rules read, {found.runnable} runnable,"
        f" {total - found.runnable} need a predicate; written to {out}"
    )
    if found.needs:
        yield ""
        yield from table(["rule", "needs"], found.needs)
    for file, line, problem in found.unread:
        yield f"{file}: line {line}: {problem}"
