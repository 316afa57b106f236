"""The predicates of each domain: those that ship, and those that users add.

A file in the format `forewarn.predicates/1` names its domain and defines each predicate
by a condition over existing ones. A package registers its predicates in its metadata,

    [project.entry-points."forewarn.predicates"]
    "household.mine" = "my_package.predicates:PREDICATES"

where the first word is the domain, and the target is a list of `Predicate`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal

from forewarn.abstractions.errors import ForewarnError, InvalidInput
from forewarn.abstractions.files import read_yaml
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.rules.code import code
from forewarn.monitors.rules.condition import Condition, parse_condition, predicates_of
from forewarn.monitors.rules.household import household
from forewarn.monitors.rules.predicates import (
    Domain,
    Library,
    Predicate,
    domain_of,
)

GROUP = "forewarn.predicates"

_NAME = re.compile(r"[A-Za-z_]\w*")


class InvalidPredicate(InvalidInput):
    """A user's predicate is invalid."""


class BrokenPredicates(ForewarnError):
    """The predicates of an installed package cannot be loaded."""

    exit_status = 3


class _PredicateFile(Strict):
    doc: str
    when: str


class _PredicatesFile(Strict):
    format: Literal["forewarn.predicates/1"]
    domain: str
    predicates: dict[str, _PredicateFile]


def add_file(library: Library, path: Path) -> Library:
    """Returns the library with the predicates of a file."""
    return add_written(library, read_yaml(path), str(path))


def add_written(library: Library, content: object, source: str) -> Library:
    """Returns the library with the predicates that the content of a file defines."""
    file = validated(_PredicatesFile, content, source, InvalidPredicate)
    if domain_of(file.domain, source) != library.domain:
        raise InvalidPredicate(
            f"the predicates in the file are for {file.domain}, not for "
            f"{library.domain}",
            source=source,
        )
    for name, entry in file.predicates.items():
        try:
            library = add(library, [_written(library, name, entry)])
        except InvalidInput as error:
            raise error.within(source, f"predicates.{name}") from None
    return library


def _written(library: Library, name: str, entry: _PredicateFile) -> Predicate:
    formula = parse_condition(" ".join(entry.when.split()), library)

    once = Condition(formula, library)

    def begin() -> Condition:
        return Condition(formula, library) if once.remembers else once

    asks = predicates_of(formula, library)
    return Predicate(name, entry.doc, written=begin, asks=asks)


def add(library: Library, predicates: Iterable[Predicate]) -> Library:
    """Returns the library with more predicates, whose names must be new."""
    known: dict[str, Predicate] = dict(library.predicates)
    for predicate in predicates:
        name = predicate.name
        if not _NAME.fullmatch(name):
            raise InvalidPredicate(f"{name!r:.60} cannot be the name of a predicate")
        if name in known or name in library.fields:
            raise InvalidPredicate(
                f"the name {name} is already in use", mend="choose another name"
            )
        known[name] = predicate
    return replace(library, predicates=known)


def add_offered(library: Library) -> Library:
    """Returns the library with the predicates of installed packages for its domain."""
    for name, found in _offered().get(library.domain, {}).items():
        try:
            library = add(library, found)
        except InvalidInput as error:
            raise error.within(f"the entry point {name}") from None
    return library


@cache
def _offered() -> Mapping[Domain, Mapping[str, tuple[Predicate, ...]]]:
    found: dict[Domain, dict[str, tuple[Predicate, ...]]] = {}
    for point in entry_points(group=GROUP):
        domain = domain_of(point.name.split(".")[0], f"the entry point {point.name}")
        try:
            offered = tuple(point.load())
        except Exception as error:
            raise BrokenPredicates(
                f"the predicates {point.name} could not be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not all(isinstance(each, Predicate) for each in offered):
            raise BrokenPredicates(
                f"{point.name} offers something that is not a Predicate"
            )
        found.setdefault(domain, {})[point.name] = offered
    return found


_PLAIN: Mapping[Domain, Callable[[], Library]] = {
    "household": household,
    "driving": lambda: Library("driving", {}, vocabulary="driving"),
    "code": code,
}


@cache
def _shipped(domain: Domain) -> Library:
    """Returns the predicates in Python, and those defined by conditions over them."""
    plain = _PLAIN[domain]()
    found = add_file(plain, Path(__file__).with_name(f"{domain}.yaml"))
    if domain != "household":
        return found
    # Of predicates that separate the same runs, learners take the first, so hazards
    # come before the facts that define them.
    hazards = {n: p for n, p in found.predicates.items() if n not in plain.predicates}
    return replace(found, predicates={**hazards, **plain.predicates})


def library(domain: Domain, files: Sequence[Path] = ()) -> Library:
    """Returns the predicates of a domain, including those of packages and files."""
    found = add_offered(_shipped(domain))
    for path in files:
        found = add_file(found, path)
    return found
