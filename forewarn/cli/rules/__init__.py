"""`forewarn rules`: import, score, lint and evolve rules."""

from __future__ import annotations

import click

from forewarn.cli.rules.change import accept, rollback
from forewarn.cli.rules.evolve import evolve
from forewarn.cli.rules.import_ import import_
from forewarn.cli.rules.lint import lint
from forewarn.cli.rules.mark import mark
from forewarn.cli.rules.predicates import predicates
from forewarn.cli.rules.score import score


@click.group()
def rules() -> None:
    """Rules: when something is about to happen and conditions hold, step in.

    Every command takes --json.
    """


for command in (import_, predicates, lint, score, mark, evolve, accept, rollback):
    rules.add_command(command)
