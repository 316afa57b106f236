"""`forewarn rules lint`: rules that cannot do what their author meant."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.rules.options import FILE, library_of, predicates_options
from forewarn.cli.support import emit, json_option, table


@click.command()
@click.argument("rules_path", metavar="RULES", type=FILE)
@predicates_options
@json_option
def lint(
    rules_path: Path,
    files: tuple[Path, ...],
    modules: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Finds rules that never fire, fire always, repeat or shadow each other.

    Exit status 1 says that it found something.
    """
    from forewarn.monitors.rules.linting import lint as linted
    from forewarn.monitors.rules.predicates import DOMAINS
    from forewarn.monitors.rules.rule import load_rules

    rules = load_rules(rules_path)
    exact = rules.matching == "exact"
    known = {each: library_of(each, files, modules, exact) for each in DOMAINS}
    findings = linted(rules, known)
    payload = {
        "rules": len(rules.rules),
        "findings": [finding.as_dict() for finding in findings],
    }
    rows = [(f.rule, f.problem, f.message) for f in findings]
    lines = table(["rule", "problem", ""], rows) if rows else []
    emit(as_json, payload, [*lines, f"{len(rules.rules)} rules, {len(rows)} findings"])
    if findings:
        raise SystemExit(1)
