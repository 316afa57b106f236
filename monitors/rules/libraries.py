"""The predicates of each domain: those that ship, and those that users add.

A file in the format `forewarn.predicates/1` names its domain and defines each predicate
by a condition over existing ones. A package registers its predicates in its metadata,

    [project.entry-points."forewarn.predicates"]
    "household.mine" = "my_package.predicates:PREDICATES"

where the name begins with the domain, and the value refers to a list of `Predicate`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from forewarn.abstractions.errors import ForewarnError, InvalidInput, naming
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


class BrokenPackage(ForewarnError):
    """An entry point of an installed package cannot be loaded."""

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
            later = [
                each
                for each in file.predicates
                if each not in library.predicates
                and re.search(rf"\b{re.escape(each)}\b", entry.when)
            ]
            if later:
                raise InvalidPredicate(
                    f"the condition uses {later[0]}, which is not yet defined",
                    source=source,
                    place=f"predicates.{name}",
                    mend="a predicate may use only predicates above it",
                ) from None
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
        if not isinstance(predicate, Predicate):
            raise InvalidPredicate(f"{predicate!r:.60} is not a Predicate")
        name = predicate.name
        if not _NAME.fullmatch(name):
            raise InvalidPredicate(
                f"{name!r:.60} cannot be the name of a predicate (use letters, digits "
                "and underscores)"
            )
        if name in known or name in library.fields:
            raise InvalidPredicate(
                f"the name {name} is already in use", mend="choose another name"
            )
        known[name] = predicate
    return replace(library, predicates=known)


@cache
def offered(group: str) -> Mapping[str, tuple[Any, ...]]:
    """Returns the objects that installed packages register in an entry-point group."""
    found: dict[str, tuple[Any, ...]] = {}
    for point in sorted(entry_points(group=group), key=lambda each: each.name):
        try:
            found[point.name] = tuple(point.load())
        except Exception as error:
            raise BrokenPackage(
                f"the entry point {point.name} ({point.value}) of {group} could not be "
                f"loaded: {type(error).__name__}: {error}"
            ) from error
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
    # If several predicates separate the same runs, learners take the first of them, so
    # hazards come before the facts that define them.
    hazards = {n: p for n, p in found.predicates.items() if n not in plain.predicates}
    return replace(found, predicates={**hazards, **plain.predicates})


def library(domain: Domain, files: Sequence[Path] = ()) -> Library:
    """Returns the predicates of a domain, including those of packages and files."""
    found = _shipped(domain)
    for name, predicates in offered(GROUP).items():
        with naming(f"the entry point {name}"):
            if domain_of(name.split(".")[0]) == domain:
                found = add(found, predicates)
    for path in files:
        found = add_file(found, path)
    return found
