"""What the commands about rules share: which predicates there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from forewarn.monitors.rules.labelled import Domain
    from forewarn.monitors.rules.predicates import Library

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


def libraries(
    domain: Domain | None,
    files: Sequence[Path],
    modules: Sequence[Path],
    exact: bool = False,
) -> dict[Domain, Library]:
    """The predicates of each domain; a user's own are of `domain`, or of all."""
    from forewarn.monitors.rules.agentspec.modules import add_module
    from forewarn.monitors.rules.labelled import DOMAINS
    from forewarn.monitors.rules.libraries import library

    found: dict[Domain, Library] = {}
    for each in DOMAINS:
        own = files if domain in (None, each) else ()
        found[each] = library(each, [path for path in own if _is_of(path, each)])
        for path in modules:
            found[each] = add_module(found[each], path, replaces=exact)
    return found


def _is_of(path: Path, domain: Domain) -> bool:
    """Whether a file of predicates is for that domain."""
    from forewarn.abstractions.files import read_yaml
    from forewarn.monitors.rules.labelled import domain_of

    content = read_yaml(path)
    named = content.get("domain") if isinstance(content, dict) else None
    return not isinstance(named, str) or domain_of(named, str(path)) == domain
