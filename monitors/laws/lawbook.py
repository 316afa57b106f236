"""The law book: laws by name in two editions, and users' own law files.

A law file is YAML in the format `forewarn.laws/1`. The shipped file, `driving`,
contains the traffic laws that LawBreaker formalised, and "no collision".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import (
    InvalidInput,
    naming,
    near_miss,
)
from forewarn.abstractions.expression.domain import read_by
from forewarn.abstractions.expression.parser import parse_expression
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.expression.tree import And, Expression, signals_of
from forewarn.abstractions.files import read_yaml
from forewarn.abstractions.serial import Strict, validated
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary, named_vocabulary
from forewarn.monitors.laws.automaton import Automaton, compile_law
from forewarn.monitors.laws.formula import Formula, parse_formula

Edition = Literal["probguard", "lawbreaker"]
EDITIONS: tuple[Edition, ...] = ("probguard", "lawbreaker")

_NAME = re.compile(r"\w+")
_MEANT = re.compile(r"[\w.\-]+")
"""Matches a text that is a mistyped law name, such as 51-5, not a formula."""

_NAMED = re.compile(r"(\w+)\s*:=\s*(.*)", re.DOTALL)
_MISNAMED = re.compile(r"(\w+)\s*[=:]\s*(?:always|G|eventually|F)\b")


class InvalidLaw(InvalidInput):
    """A law file that is malformed, or a law that is not in the book."""


@checked
@dataclass(frozen=True, slots=True)
class Law:
    """A law, ready to be compiled.

    Args:
        name: The name in the book, such as `51_5`; for a bare formula, its text.
        formula: The formula; for a law with parts, the conjunction of the parts.
        text: The formula as it was written.
        title: The law in plain words.
        article: The article of the statute.
        statute: The statute.
        edition: The edition from which the text and its times come; empty if there is
            only one.
        clock_s: The shortest period of the law's monitor in seconds, for laws whose
            automaton grows exponentially with shorter periods.
        note: A remark about the law's text.
        severe: Whether a violation is so harmful that --let-pass is rejected.
        vocabulary: The vocabulary of the formula's names; None if any name is accepted.
        parts: The parts of this law, each with its own monitor.
    """

    name: str
    formula: Formula
    text: str
    title: str = ""
    article: str = ""
    statute: str = ""
    edition: str = ""
    clock_s: float | None = None
    note: str = ""
    severe: bool = False
    vocabulary: Vocabulary | None = None
    parts: tuple[Law, ...] = ()

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals that the formula reads."""
        return signals_of(self.formula)

    @property
    def reference(self) -> str:
        """The text by which `find_laws` finds this law in its book."""
        if self.title or self.name == self.text:
            return self.name
        return f"{self.name} := {self.text}"

    @property
    def told(self) -> str:
        """The law as NAME := FORMULA, which `find_laws` can parse without the book."""
        formula = repr(self.formula)
        return formula if self.name == self.text else f"{self.name} := {formula}"

    def period(self, period_s: float | None) -> float | None:
        """Returns the period of the law's monitor for frames with the given period."""
        if self.clock_s is None:
            return period_s
        return max(self.clock_s, period_s or 0.0)

    def compile(self, period_s: float | None = None) -> Automaton:
        """Compiles the law for frames with the given period."""
        return compile_law(
            self.formula, self.period(period_s), vocabulary=self.vocabulary
        )


@dataclass(frozen=True, slots=True)
class LawBook:
    """Laws by name, in one edition."""

    laws: Mapping[str, Law]
    edition: Edition

    def find(self, name: str) -> tuple[Law, ...]:
        """Returns the law with this name, or all laws of an article, such as the five
        laws of article `51`.

        `rule51_5`, `law51_5` and `51_5` mean the same law. For an unknown name, the
        result is empty.
        """
        every = self.every()
        for key in (name, _plain(name)):
            if key in every:
                return (every[key],)
        article = _plain(name) + "_"
        return tuple(law for key, law in self.laws.items() if key.startswith(article))

    def every(self) -> dict[str, Law]:
        """Returns all laws by name, including parts, which can be used alone."""
        parts = {part.name: part for law in self.laws.values() for part in law.parts}
        return {**self.laws, **parts}


def law_book(edition: Edition = "probguard", path: Path | None = None) -> LawBook:
    """Returns the law book that ships, or a user's own law file."""
    return _shipped(edition) if path is None else _load(path, edition)


@checked
def find_laws(
    name_or_formula: str,
    book: LawBook | None = None,
    vocabulary: Vocabulary | None = None,
    definitions: Mapping[str, Expression] | None = None,
) -> tuple[Law, ...]:
    """Finds the laws with a name, or creates a law from a formula.

    Args:
        name_or_formula: A name such as `51_5`, an article such as `51`, or a formula
            such as `always (a -> …)`. A formula may have a name: `careful := always (a
            -> …)`.
        book: The book in which names are looked up; by default, the shipped one.
        vocabulary: The vocabulary of the names in a formula.
        definitions: Expressions by the names that refer to them in a formula.

    Raises:
        InvalidLaw: No law has this name.
        InvalidExpression: The formula is not valid.
    """
    book = book or law_book()
    text = name_or_formula.strip()
    found = book.find(text)
    if found:
        return found
    if text.endswith((".yaml", ".yml")):
        raise InvalidLaw(
            f"{text[:60]!r} is a file, not the name of a law",
            mend=f"with `forewarn monitor`, use --book {text[:60]} and name a law of "
            "the file; elsewhere, write the formula",
        )
    if _MEANT.fullmatch(text):
        raise InvalidLaw(
            f"the law book has no law {text[:60]!r}",
            mend=near_miss(_plain(text[:60]), book.every())
            or (book is not law_book() and f"it has {', '.join(book.every()):.120}")
            or "`forewarn laws` lists all laws; a formula begins with always, as in"
            " 'always (a -> eventually[0, 2 s] b)'",
        )
    if misnamed := _MISNAMED.match(text):
        raise InvalidLaw(
            "a law's name must be followed by :=", mend=f"write {misnamed[1]} := …"
        )
    named = _NAMED.fullmatch(text)
    name, text = named.groups() if named else (text, text)
    formula = parse_formula(text, vocabulary, definitions)
    return (Law(name, formula, text, vocabulary=vocabulary),)


def _plain(name: str) -> str:
    """Converts names such as `rule51_5`, `Law51_5` and `NoCollision` to the book's
    spelling.
    """
    short = re.sub(r"^(rule|law)_?(?=\d)", "", name, flags=re.IGNORECASE)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", short).lower()


# -- law files -----------------------------------------------------------------------

_Text = str | dict[str, str]


class _LawEntry(Strict):
    title: str
    article: str = ""
    formula: _Text | None = None
    editions: dict[Edition, _Text] | None = None
    clock_s: float | None = Field(default=None, gt=0)
    note: str = ""
    severe: bool = False

    @model_validator(mode="after")
    def _has_one_text(self) -> _LawEntry:
        if (self.formula is None) == (self.editions is None):
            raise ValueError("a law needs either 'formula' or 'editions'")
        if self.editions is not None and set(self.editions) != set(EDITIONS):
            raise ValueError(f"'editions' must contain {' and '.join(EDITIONS)}")
        return self

    def text(self, edition: Edition) -> _Text:
        return self.editions[edition] if self.editions else self.formula or ""


class _LawFile(Strict):
    format: Literal["forewarn.laws/1"]
    vocabulary: str | None = None
    statute: str = ""
    definitions: dict[str, str] = {}
    laws: dict[str, _LawEntry]


@cache
def _shipped(edition: Edition) -> LawBook:
    return _load(Path(__file__).with_name("driving.yaml"), edition)


def _load(path: Path, edition: Edition) -> LawBook:
    file = validated(_LawFile, read_yaml(path), str(path), InvalidLaw)
    with naming(path):
        vocabulary = None
        if file.vocabulary is not None:
            vocabulary = named_vocabulary(file.vocabulary, str(path), path.parent)
        definitions = _definitions(file.definitions, vocabulary)
        laws = {
            name: _law(name, file, edition, vocabulary, definitions)
            for name in file.laws
        }
    return LawBook(laws, edition)


def _definitions(
    texts: Mapping[str, str], vocabulary: Vocabulary | None
) -> dict[str, Expression]:
    known: dict[str, Expression] = {}
    for name, text in texts.items():
        place = f"definitions.{name}"
        if not _NAME.fullmatch(name):
            raise InvalidLaw("a definition's name must be a single word", place=place)
        if vocabulary is not None and vocabulary.knows(name):
            raise InvalidLaw("a signal already has this name", place=place)
        with naming("", place):
            known[name] = parse_expression(text, vocabulary, known)
    return known


def _law(
    name: str,
    file: _LawFile,
    edition: Edition,
    vocabulary: Vocabulary | None,
    definitions: Mapping[str, Expression],
) -> Law:
    entry = file.laws[name]
    if not _NAME.fullmatch(name):
        raise InvalidLaw(
            "a law's name must be a single word", place=f"laws.{name[:60]}"
        )
    text = entry.text(edition)
    texts = text if isinstance(text, dict) else {"": text}
    parts = tuple(
        Law(
            name=f"{name}_{part}" if part else name,
            formula=_parsed(name, each, vocabulary, definitions),
            text=" ".join(each.split()),
            title=entry.title,
            article=entry.article,
            statute=file.statute if entry.article else "",
            edition=edition if entry.editions else "",
            clock_s=entry.clock_s,
            note=entry.note,
            severe=entry.severe,
            vocabulary=vocabulary,
        )
        for part, each in texts.items()
    )
    if not isinstance(text, dict):
        return parts[0]
    if len(parts) < 2 or not all(map(_NAME.fullmatch, texts)):
        raise InvalidLaw(
            "a law with parts needs at least two parts, each named by a single word",
            place=f"laws.{name}",
        )
    formula = And(tuple(part.formula for part in parts))
    return replace(
        parts[0], name=name, formula=formula, text=repr(formula), parts=parts
    )


def _parsed(
    name: str,
    text: str,
    vocabulary: Vocabulary | None,
    definitions: Mapping[str, Expression],
) -> Formula:
    with naming("", f"laws.{name}"):
        return parse_formula(" ".join(text.split()), vocabulary, definitions)


SPEED = "speed"


def broken_by_standing(law: Law, period_s: float | None = None) -> bool:
    """Whether a vehicle can come to break the law merely by standing still.

    Args:
        law: The law. Signals other than the speed may have any value.
        period_s: The period of the clock, if the law's times are in seconds.
    """
    if SPEED not in law.signals:
        return False
    automaton = law.compile(period_s)
    columns = _standing(automaton)
    onward = automaton.step[:, columns]
    safe = set(range(automaton.n)) - {automaton.violated}
    while doomed := {s for s in safe if safe.isdisjoint(onward[s].tolist())}:
        safe -= doomed
    seen, todo = {automaton.initial}, [automaton.initial]
    while todo:
        new = set(onward[todo.pop()].tolist()) - seen
        seen |= new
        todo += new
    return not seen - {automaton.violated} <= safe


def _standing(automaton: Automaton) -> list[int]:
    """Returns the columns of the letters that a stationary car can produce."""
    fixed = [
        (bit, compile_test(proposition)({SPEED: 0.0}))
        for bit, proposition in enumerate(automaton.propositions)
        if read_by(proposition) == {SPEED}
    ]
    return [
        column
        for column, letter in enumerate(automaton.letters)
        if all(bool(letter >> bit & 1) == holds for bit, holds in fixed)
    ]
