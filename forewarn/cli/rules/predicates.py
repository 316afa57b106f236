"""`forewarn rules predicates`: what rules may ask."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.cli.rules.options import library_of, predicates_options
from forewarn.cli.support import emit, json_option, table


@click.command()
@click.argument("domain_name", metavar="DOMAIN")
@predicates_options
@json_option
def predicates(
    domain_name: str,
    files: tuple[Path, ...],
    modules: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Lists what rules of a DOMAIN may ask: household, driving or code.

    Conditions also compare the domain's signals, as in `speed > 30 km/h`, and the
    fields of an event, as in `object == Mug`.
    """
    from forewarn.monitors.rules.predicates import domain_of

    domain = domain_of(domain_name, "DOMAIN")
    library = library_of(domain, files, modules)
    found = {name: library.predicates[name].doc for name in library.names}
    payload = {
        "domain": domain,
        "predicates": found,
        "fields": list(library.fields),
        "vocabulary": library.vocabulary,
    }
    fields = ", ".join(library.fields) or "none"
    lines = table(["predicate", "holds when"], found.items())
    emit(as_json, payload, [*lines, "", f"Fields of an event: {fields}"])
