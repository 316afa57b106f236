"""The predicates of each domain that ship, and those that users add."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from forewarn.monitors.rules.labelled import Domain
from forewarn.monitors.rules.libraries.code.library import code
from forewarn.monitors.rules.libraries.driving import driving
from forewarn.monitors.rules.libraries.household.library import household
from forewarn.monitors.rules.predicates import Library

_SHIPPED: Mapping[Domain, Callable[[], Library]] = {
    "household": household,
    "driving": driving,
    "code": code,
}


def library(domain: Domain) -> Library:
    """The predicates of a domain."""
    return _SHIPPED[domain]()
