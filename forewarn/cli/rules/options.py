"""What the commands about rules share: which predicates there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from forewarn.monitors.rules.predicates import Domain, Library

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)

domain_option = click.option(
    "--domain",
    "domain_name",
    help="household, driving or code. By default what the rules say.",
)
rules_option = click.option(
    "--rules", "rules_path", type=FILE, required=True, help="A file of rules."
)
traces_option = click.option(
    "--traces",
    "traces_path",
    type=FILE,
    required=True,
    help="Labelled traces, as JSON Lines.",
)


def predicates_options(command: Command) -> Command:
    """`--module` and `--predicates`, for predicates of the user's own."""
    for option in (
        click.option(
            "--predicates",
            "files",
            type=FILE,
            multiple=True,
            help="Predicates of yours, written in YAML; may be given many times.",
        ),
        click.option(
            "--module",
            "modules",
            type=FILE,
            multiple=True,
            help="A Python file of yours with predicates. It is run.",
        ),
    ):
        command = option(command)
    return command


def library_of(
    domain: Domain,
    files: Sequence[Path],
    modules: Sequence[Path],
    exact: bool = False,
) -> Library:
    """The predicates of a domain, with a user's own that are meant for it."""
    from forewarn.monitors.rules.libraries import add_module, library

    found = library(domain, [path for path in files if _is_of(path, domain)])
    for path in modules:
        found = add_module(found, path, replaces=exact)
    return found


def say_unknown(signals: Sequence[str]) -> None:
    """Says once which signals traces lack that rules or predicates ask for."""
    if signals:
        names = ", ".join(signals)
        click.echo(
            f"not in all traces: {names}; where one is missing, what asks for it is"
            " not known, and no rule fires by it",
            err=True,
        )


def _is_of(path: Path, domain: Domain) -> bool:
    """Whether a file of predicates is for that domain."""
    from forewarn.abstractions.files import read_yaml
    from forewarn.monitors.rules.predicates import domain_of

    content = read_yaml(path)
    named = content.get("domain") if isinstance(content, dict) else None
    return not isinstance(named, str) or domain_of(named, str(path)) == domain
