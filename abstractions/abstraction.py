"""Abstractions: predicates that map frames to abstract states, and their YAML files."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.encoding import (
    ArrayEncoder,
    ColumnReader,
    Encode,
    Reader,
    Score,
    compile_states,
    past_of,
)
from forewarn.abstractions.errors import (
    InvalidAbstraction,
    InvalidInput,
    naming,
    near_miss,
)
from forewarn.abstractions.expression import (
    Expression,
    parse_expression,
    parse_score,
)
from forewarn.abstractions.expression.scalar import compile_quantity, compile_test
from forewarn.abstractions.expression.tree import (
    Compare,
    Conditional,
    Curve,
    LookBack,
    Name,
    signals_of,
    summands,
    unit_of,
)
from forewarn.abstractions.files import read_yaml
from forewarn.abstractions.serial import Strict, validated
from forewarn.abstractions.validity import Validity
from forewarn.abstractions.vocabularies.signals import PLAIN
from forewarn.abstractions.vocabularies.vocabulary import (
    YAML,
    Vocabulary,
    named_vocabulary,
    vocabulary_from,
    vocabulary_reference,
)

FORMAT = "forewarn.abstraction/1"

Latch = Literal["any", "all", "last"]

Lag = Annotated[float, Field(ge=0, le=60)]


class _PredicateFile(Strict):
    when: str
    latch: Latch = "last"
    lag_s: Lag | Annotated[list[Lag], Field(min_length=1)] = 0.0

    @property
    def lags_s(self) -> list[float]:
        """The lags in s, one for each predicate that this entry describes."""
        return self.lag_s if isinstance(self.lag_s, list) else [self.lag_s]

    @model_validator(mode="before")
    @classmethod
    def _may_be_text_alone(cls, data: object) -> object:
        if isinstance(data, str):
            return {"when": data}
        if isinstance(data, dict):
            key, text = next(iter(data.items()), ("", None))
            named = isinstance(text, str) and len(data) == 1
            if named and not near_miss(str(key), cls.model_fields):
                raise ValueError(
                    f"predicates have no names: write `- {text:.80}`, without `{key}:`"
                )
            return data
        raise ValueError(
            "a predicate must be a condition, or a mapping with the keys when, "
            "latch and lag_s"
        )


class AbstractionFile(Strict):
    format: Literal["forewarn.abstraction/1"]
    name: str
    vocabulary: str | dict[str, Any] | None = None
    period_s: float | None = Field(default=None, gt=0)
    scores: dict[str, str] = {}
    predicates: list[_PredicateFile] = Field(min_length=1)
    constraints: list[str] = []
    irreversible: list[str] = []


@dataclass(frozen=True, slots=True)
class _Ladder:
    """The predicates (`edges`) that divide a score into bands, and the bands' names."""

    edges: tuple[int, ...]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Term:
    """One signal's contribution to a score: its value, and how much it adds."""

    name: str
    unit: str
    added: Callable[[Mapping[str, Any]], float | None]
    value: Callable[[Mapping[str, Any]], float | None]


def _term(node: Expression) -> _Term | None:
    """Converts a summand of a score to a term for display."""
    if isinstance(node, Conditional):
        test = compile_test(node.condition)
        name = repr(node.condition)
        added = compile_quantity(node, PLAIN)
        return _Term(name, "", added, lambda values: test(values) or None)
    if not isinstance(node, Curve):
        return None
    operand = node.operand
    signal = operand.operand if isinstance(operand, LookBack) else operand
    if not isinstance(signal, Name):
        return None
    unit = f" {signal.unit}" if signal.unit else ""
    return _Term(
        signal.name.replace("_", " "),
        unit,
        compile_quantity(node, PLAIN),
        compile_quantity(operand, unit_of(operand) or PLAIN),
    )


_BANDS = re.compile(r"\s*bands\s*\((.*)\)\s*", re.DOTALL)


def expand_bands(text: str, source: str, place: str) -> list[str]:
    """Expands `bands(x, a, b)` to `x < a` and `x < b`; other texts are returned
    unchanged.
    """
    match = _BANDS.fullmatch(text)
    if match is None:
        return [text]
    subject, *bounds = (part.strip() for part in match.group(1).split(","))
    if not subject or not bounds:
        raise InvalidAbstraction(
            "'bands' needs a signal and at least one boundary",
            source=source,
            place=place,
            mend="write bands(speed, 0.5, 5, 15, 30)",
        )
    return [f"{subject} < {bound}" for bound in bounds]


MAX_PREDICATES = 62
"""The maximum number of predicates, so that a state fits a signed 64-bit integer."""

_MOST_WORDS = 3
"""The maximum number of predicates in a state's short description."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A Boolean expression, evaluated now or with a lag.

    Args:
        latch: The frames of a tick in which the expression must be true: any, all, or
            the last.
        lag_s: The time before the current tick at which the expression is evaluated, in
            seconds. In the first `lag_s` seconds, it is evaluated at the first tick.
    """

    expression: Expression
    latch: Latch = "last"
    lag_s: float = 0.0

    def __repr__(self) -> str:
        text = repr(self.expression)
        return f"({text}) {self.lag_s:g} s ago" if self.lag_s else text


@checked
class Abstraction:
    """A set of predicates; their truth values at a frame form the abstract state.

    Args:
        predicates: 1 to 62 predicates; predicate i determines bit i of a state.
        name: A name to display.
        vocabulary: The types and ranges of the signals; None if they are not declared.
        constraints: Expressions that are true in every frame; states that contradict
            them are invalid.
        irreversible: Predicates that stay true once they become true; transitions that
            make them false are invalid.
        period_s: The time between two ticks, in s; None if every frame is a tick.
        scores: Named numeric expressions that predicates may compare with constants.
    """

    def __init__(
        self,
        predicates: Sequence[Predicate],
        *,
        name: str = "",
        vocabulary: Vocabulary | None = None,
        constraints: Sequence[Expression] = (),
        irreversible: Sequence[Expression] = (),
        period_s: float | None = None,
        scores: Sequence[Score] = (),
    ) -> None:
        if not 1 <= len(predicates) <= MAX_PREDICATES:
            raise InvalidAbstraction(
                f"an abstraction must have 1 to {MAX_PREDICATES} predicates, not "
                f"{len(predicates)}"
            )
        texts = [repr(predicate) for predicate in predicates]
        for text in texts:
            if texts.count(text) > 1:
                raise InvalidAbstraction(f"the predicate {text!r} appears twice")
        for node in irreversible:
            if repr(node) not in texts:
                raise InvalidAbstraction(
                    f"{node!r} is declared irreversible but is not a predicate",
                    mend="add it to the predicates",
                )
        names = [score.name for score in scores]
        for each in names:
            if names.count(each) > 1:
                raise InvalidAbstraction(f"the score {each!r} appears twice")
        self.predicates = tuple(predicates)
        self.name = name
        self.vocabulary = vocabulary
        self.constraints = tuple(constraints)
        self.irreversible = tuple(irreversible)
        self.period_s = period_s
        self.scores = tuple(scores)
        self.past: tuple[LookBack, ...] = past_of(self._expressions)
        self._check_lags()
        self._lasting = sum(1 << texts.index(repr(node)) for node in irreversible)

    def _check_lags(self) -> None:
        for lag_s in filter(None, self.lags_s):
            if self.period_s is None:
                raise InvalidAbstraction(
                    "a predicate with 'lag_s' needs a sampling period",
                    mend="set period_s",
                )
            steps = lag_s / self.period_s
            if abs(steps - round(steps)) > 1e-6:
                below = math.floor(steps) * self.period_s
                raise InvalidAbstraction(
                    f"'lag_s' is {lag_s:g}, which is not a multiple of the period "
                    f"of {self.period_s:g} s",
                    mend=f"write {below:g} or {below + self.period_s:g}",
                )

    @property
    def _expressions(self) -> list[Expression]:
        scores = [score.expression for score in self.scores]
        return scores + [predicate.expression for predicate in self.predicates]

    # -- content ------------------------------------------------------------------

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The text of each predicate."""
        return tuple(map(repr, self.predicates))

    @cached_property
    def signals(self) -> tuple[str, ...]:
        """The signals that a frame must contain."""
        own = {score.name for score in self.scores}
        names = (name for node in self._expressions for name in signals_of(node))
        return tuple(dict.fromkeys(name for name in names if name not in own))

    def as_dict(self) -> dict[str, Any]:
        """Returns the abstraction as the content of a YAML file."""
        predicates: list[Any] = []
        for (when, latch), several in itertools.groupby(
            self.predicates, lambda p: (repr(p.expression), p.latch)
        ):
            lags_s = [p.lag_s for p in several]
            entry: dict[str, Any] = {"when": when}
            if latch != "last":
                entry["latch"] = latch
            if any(lags_s):
                entry["lag_s"] = lags_s if len(lags_s) > 1 else lags_s[0]
            predicates.append(entry if len(entry) > 1 else when)
        content: dict[str, Any] = {"format": FORMAT, "name": self.name}
        if self.vocabulary is not None:
            content["vocabulary"] = vocabulary_reference(self.vocabulary)
        if self.period_s is not None:
            content["period_s"] = self.period_s
        if self.scores:
            content["scores"] = {s.name: repr(s.expression) for s in self.scores}
        content["predicates"] = predicates
        content["constraints"] = [repr(node) for node in self.constraints]
        content["irreversible"] = [repr(node) for node in self.irreversible]
        return content

    def fingerprint(self) -> str:
        """Returns the SHA-256 digest of everything that defines the meaning of the
        states.
        """
        content = self.as_dict()
        del content["name"]
        nodes = (node for whole in self._expressions for node in whole.walk())
        content["units"] = {n.name: n.unit for n in nodes if isinstance(n, Name)}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def latches(self) -> list[Latch]:
        """The latch of each predicate: how it combines the frames of a tick."""
        return [p.latch for p in self.predicates]

    @property
    def lags_s(self) -> list[float]:
        """The lag of each predicate, in s."""
        return [p.lag_s for p in self.predicates]

    # -- frames to states ---------------------------------------------------------

    @cached_property
    def encode(self) -> Encode:
        """A function that encodes one frame's values as a state, or raises
        `SignalFault` if a value is unusable.

        Predicates with a lag are evaluated on this frame; a `Latcher` then delays the
        result. The values must include the expressions over time and the scores, which
        a `Reader` computes.
        """
        return compile_states([p.expression for p in self.predicates])

    def reader(self) -> Reader:
        """Returns a new encoder for the frames of one run."""
        return Reader(self.encode, self.past, self.scores)

    @cached_property
    def _arrays(self) -> ArrayEncoder:
        return ArrayEncoder([p.expression for p in self.predicates])

    @cached_property
    def _columns(self) -> ColumnReader:
        return ColumnReader(self.past, self.scores)

    @checked
    def encode_arrays(
        self,
        columns: Mapping[str, NDArray[Any]],
        length: int,
        times_s: NDArray[np.float64] | None = None,
    ) -> NDArray[np.int64]:
        """Encodes many frames at once; `expression.vector` describes the columns.

        Args:
            columns: One array per signal.
            length: The number of frames.
            times_s: The times of the frames; required if the predicates use expressions
                over time.
        """
        if self.past or self.scores:
            times_s = np.zeros(length) if times_s is None else times_s
            columns = self._columns.told(columns, times_s)
        return self._arrays.encode(columns, length)

    # -- states -------------------------------------------------------------------

    @checked
    def state_name(self, bits: int) -> str:
        """Returns the name of a state: one character per predicate, in order."""
        return format(bits, f"0{len(self.predicates)}b")[::-1]

    def bits(self, name: str) -> int:
        """Returns the bits of the state with the given name."""
        if len(name) != len(self.predicates) or set(name) - {"0", "1"}:
            count = len(self.predicates)
            raise InvalidAbstraction(
                f"{name!r:.80} is not the name of a state with {count} "
                f"predicate{'s' * (count != 1)}",
                mend="write a 0 or 1 for each predicate",
            )
        return int(name[::-1], 2)

    def holding(self, bits: int) -> tuple[str, ...]:
        """Returns the texts of the predicates that are true in a state; each score is
        given as one band.
        """
        found: list[str] = []
        for i, text in enumerate(self.texts):
            ladder = self._ladders.get(i)
            if ladder is None:
                if bits >> i & 1:
                    found.append(text)
            elif ladder.edges[0] == i:
                found.append(
                    ladder.words[sum(bits >> edge & 1 for edge in ladder.edges)]
                )
        return tuple(found)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """All texts that `holding` can return."""
        found: list[str] = []
        for i, text in enumerate(self.texts):
            ladder = self._ladders.get(i)
            if ladder is None:
                found.append(text)
            elif ladder.edges[0] == i:
                found += ladder.words
        return tuple(dict.fromkeys(found))

    @cached_property
    def _ladders(self) -> dict[int, _Ladder]:
        """Maps each predicate on a score to its ladder: all predicates on the same
        score with the same lag.
        """
        names = {score.name for score in self.scores}
        edges: dict[tuple[str, float], list[int]] = {}
        for i, predicate in enumerate(self.predicates):
            node = predicate.expression
            if not isinstance(node, Compare) or node.operator not in (">", ">="):
                continue
            if isinstance(node.left, Name) and node.left.name in names:
                edges.setdefault((node.left.name, predicate.lag_s), []).append(i)
        found: dict[int, _Ladder] = {}
        for (name, lag_s), members in edges.items():
            title = "danger" if len(names) == 1 else name
            title += f" {lag_s:g} s ago" if lag_s else ""
            most = len(members)
            words = tuple(f"{title} {n} of {most}" for n in range(most + 1))
            ladder = _Ladder(tuple(members), words)
            found |= dict.fromkeys(members, ladder)
        return found

    def listed(self) -> Iterator[str]:
        """Yields a readable line for each predicate; predicates on the same score share
        a line.

        Each line begins with the positions of its predicates in the name of a state.
        """
        for i, text in enumerate(self.texts):
            ladder = self._ladders.get(i)
            if ladder is None:
                yield f"{i + 1}. {text}"
            elif ladder.edges[0] == i:
                (score,) = signals_of(self.predicates[i].expression)
                node = next(s.expression for s in self.scores if s.name == score)
                used = ", ".join(dict.fromkeys(signals_of(node)))
                title = ladder.words[0].removesuffix(f" 0 of {len(ladder.edges)}")
                yield (
                    f"{i + 1} to {ladder.edges[-1] + 1}. {title}: how many of"
                    f" {len(ladder.edges)} band edges the hazard score reaches; the"
                    f" score is computed from {used}"
                )

    @cached_property
    def bands(self) -> frozenset[str]:
        """The names of all bands."""
        ladders = self._ladders.values()
        return frozenset(word for ladder in ladders for word in ladder.words)

    def contributions(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Returns the largest contributions to the scores at a frame, as texts in
        descending order.

        Args:
            values: The frame's signals and the values that a `Reader` computed from
                them.
        """
        found: dict[str, float] = {}
        for term in self._terms:
            added = term.added(values)
            value = term.value(values)
            if added is None or added <= 0 or value is None:
                continue
            text = term.name if value is True else f"{term.name} {value:.2g}{term.unit}"
            found[text] = max(found.get(text, 0.0), added)
        largest = sorted(found, key=lambda text: -found[text])
        return tuple(largest[:_MOST_WORDS])

    @cached_property
    def _terms(self) -> tuple[_Term, ...]:
        nodes = (node for each in self.scores for node in summands(each.expression))
        return tuple(term for node in nodes if (term := _term(node)) is not None)

    def in_short(self, bits: int) -> str:
        """Returns the most informative predicates that are true in a state, as text for
        a warning.
        """
        holds = self.holding(bits)
        more = ", …" if len(holds) > _MOST_WORDS else ""
        # Predicates are listed in ascending order, so the last true ones are the most
        # informative.
        text = ", ".join(holds[-_MOST_WORDS:]) + more
        return text if holds else "no predicate is true"

    @cached_property
    def validity(self) -> Validity:
        """The states that can occur, and the transitions that are possible."""
        latched = [i for i, p in enumerate(self.predicates) if p.latch != "last"]
        past = [i for i, p in enumerate(self.predicates) if p.lag_s]
        return Validity(
            tuple(p.expression for p in self.predicates),
            self.constraints,
            frozenset(latched),
            frozenset(past),
            self.vocabulary,
        )

    def is_valid(self, bits: int) -> bool:
        """Whether the state can occur."""
        return self.validity.admits(bits)

    def valid_states(self, limit: int = 100_000) -> list[int]:
        """Returns all states that can occur; raises `TooLarge` if there are more than
        `limit`.
        """
        return self.validity.states(limit)

    def may_follow(self, before: int, after: int) -> bool:
        """Whether `after` can directly follow `before`."""
        kept = before & self._lasting & ~after == 0
        return kept and self.is_valid(before) and self.is_valid(after)

    def decides(self, expression: Expression) -> Callable[[int], bool]:
        """Returns a function that maps a state to the value of a condition.

        Raises:
            InvalidAbstraction: The state does not determine the condition's value.
        """
        return self.validity.decide(expression)

    # -- files --------------------------------------------------------------------

    @classmethod
    @checked
    def from_dict(
        cls,
        content: object,
        source: str,
        vocabulary: Vocabulary | None = None,
        folder: Path | None = None,
    ) -> Abstraction:
        """Parses the content of an abstraction file.

        Args:
            content: The parsed content of the file.
            source: The name of the file, for error messages.
            vocabulary: Overrides the vocabulary named in the file.
            folder: The folder that contains the vocabulary file, if the file names one.
        """
        file = validated(AbstractionFile, content, source, InvalidAbstraction)
        named = file.vocabulary
        is_file = isinstance(named, str) and named.endswith(YAML)
        if isinstance(named, str) and (vocabulary is None or not is_file):
            own = named_vocabulary(named, source, folder)
            vocabulary = vocabulary or own
        elif vocabulary is None and named is not None:
            vocabulary = vocabulary_from(named, f"{source}: vocabulary")

        scores: list[Score] = []
        for name, text in file.scores.items():
            if not name.isidentifier() or (vocabulary and name in vocabulary.signals):
                raise InvalidAbstraction(
                    f"{name!r:.60} cannot be the name of a score",
                    source=source,
                    mend="choose an identifier that is not the name of a signal",
                )
            with naming(source, f"score {name}"):
                scores.append(Score(name, parse_score(text, vocabulary)))
        known = {score.name: Name(score.name) for score in scores}

        def parsed(text: str, place: str) -> Expression:
            try:
                return parse_expression(text, vocabulary, known)
            except InvalidInput as error:
                if isinstance(named, str) and vocabulary and not is_file:
                    if named != vocabulary.name:
                        error.mend = (
                            f"the abstraction is for the vocabulary {named}, but the "
                            f"data have {vocabulary.name}"
                        )
                raise error.within(source, place) from None

        predicates: list[Predicate] = []
        for i, entry in enumerate(file.predicates, start=1):
            for text in expand_bands(entry.when, source, f"predicate {i}"):
                node = parsed(text, f"predicate {i}")
                predicates += [
                    Predicate(node, entry.latch, lag_s) for lag_s in entry.lags_s
                ]
        with naming(source):
            return cls(
                predicates,
                name=file.name,
                vocabulary=vocabulary,
                constraints=[parsed(t, "constraints") for t in file.constraints],
                irreversible=[parsed(t, "irreversible") for t in file.irreversible],
                period_s=file.period_s,
                scores=scores,
            )


@checked
def load_abstraction(
    path: Path | str, vocabulary: Vocabulary | None = None
) -> Abstraction:
    """Reads an abstraction from a YAML file, and its vocabulary from a file
    beside it.
    """
    path = Path(path)
    return Abstraction.from_dict(read_yaml(path), str(path), vocabulary, path.parent)


def from_expressions(
    texts: Sequence[str], vocabulary: Vocabulary | None = None, **options: Any
) -> Abstraction:
    """Builds an abstraction from the texts of predicates, which may use `bands`."""
    predicates = [
        Predicate(parse_expression(text, vocabulary))
        for entry in texts
        for text in expand_bands(entry, "", "")
    ]
    return Abstraction(predicates, vocabulary=vocabulary, **options)
