"""`forewarn rules accept` and `rollback`: a change in shadow, enforced, undone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.rules.options import FILE
from forewarn.cli.support import Count, emit, json_option

if TYPE_CHECKING:
    from forewarn.monitors.rules.versions import Step


@click.command()
@click.argument("rules_path", metavar="RULES", type=FILE)
@click.argument("proposed", required=False, type=FILE)
@click.option("--enforce", "enforced", is_flag=True, help="Enforce what is in shadow.")
@json_option
def accept(
    rules_path: Path, proposed: Path | None, enforced: bool, as_json: bool
) -> None:
    """Takes a change into RULES: first in shadow, then enforced.

    PROPOSED is a file of rules such as `forewarn rules evolve` writes. Its new and
    changed rules are put beside those in force, and only say what they would do. Once
    they have shown themselves, --enforce puts them in force. Every version is kept.

    \b
    Example:
      forewarn rules accept rules.yaml proposed.yaml
      forewarn rules accept rules.yaml --enforce
      forewarn rules rollback rules.yaml
    """
    from forewarn.monitors.rules.versions import enforce, take_in_shadow

    if enforced == (proposed is not None):
        raise click.UsageError("give either a PROPOSED file or --enforce")
    step = (
        enforce(rules_path)
        if proposed is None
        else take_in_shadow(rules_path, proposed)
    )
    _say(step, rules_path, as_json)


@click.command()
@click.argument("rules_path", metavar="RULES", type=FILE)
@click.option("--to", "version", type=Count(min=1), help="Which version.")
@json_option
def rollback(rules_path: Path, version: int | None, as_json: bool) -> None:
    """Puts an earlier version of RULES back, by default the one before."""
    from forewarn.monitors.rules.versions import roll_back

    _say(roll_back(rules_path, version), rules_path, as_json)


def _say(step: Step, path: Path, as_json: bool) -> None:
    payload = {
        "rules": str(path),
        "stage": step.stage,
        "version": step.version,
        "before": step.before,
        "difference": list(step.difference),
    }
    said = f"{path}: version {step.version}, {step.stage}; it was {step.before}"
    emit(as_json, payload, [*step.difference, said])
