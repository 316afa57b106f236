"""The predicates of each domain: what ships, and what users add."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from forewarn.monitors.rules.labelled import Domain
from forewarn.monitors.rules.libraries.adding import add_file, add_offered
from forewarn.monitors.rules.libraries.code.library import code
from forewarn.monitors.rules.libraries.driving import driving
from forewarn.monitors.rules.libraries.household.library import household
from forewarn.monitors.rules.predicates import Library

_SHIPPED: Mapping[Domain, Callable[[], Library]] = {
    "household": household,
    "driving": driving,
    "code": code,
}


def library(domain: Domain, files: Sequence[Path] = ()) -> Library:
    """The predicates of a domain, with those of installed packages and of files."""
    found = add_offered(_SHIPPED[domain]())
    for path in files:
        found = add_file(found, path)
    return found
