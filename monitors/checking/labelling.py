"""Resolves the names in a property to sets of states of one chain.

A quoted name may be a label, a definition or the name of a state. If the model has an
abstraction, the name may also be a predicate, or any expression whose value follows
from the predicates. A name with two different meanings is rejected. No predicate is
true in END.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import (
    InvalidInput,
    InvalidProperty,
    near_miss,
    suggest,
)
from forewarn.abstractions.expression import parse_expression, tree
from forewarn.abstractions.expression.tree import Expression
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking.reaching import Mask

STATE = "s"
"""On a chain without variables, this variable has the state's name as its value."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_RELATIONS = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


class Labelling:
    """A chain with the meaning of every name that may occur in its properties.

    Args:
        chain: The chain.
        abstraction: The abstraction that defines the states of the chain, if there is
            one.
    """

    def __init__(self, chain: Chain, abstraction: Abstraction | None = None) -> None:
        self.chain = chain
        self.abstraction = abstraction
        self.definitions: dict[str, Mask] = {}
        self._expressions: dict[str, Mask] = {}

    # Definitions

    def new_name(self, text: str, source: str) -> str:
        """Returns the name that a definition introduces; rejects a name already in
        use.
        """
        name = text.strip().removeprefix('"').removesuffix('"')
        if not _WORD.fullmatch(name):
            mend = "write NAME=FORMULA, as in bad=s=3|s=7"
            raise InvalidProperty(
                "the definition has no name", source=source, mend=mend
            )
        for kind, _ in self._meanings(name):
            raise InvalidProperty(
                f"the name {name!r} is already used for a {kind}",
                source=source,
                mend="choose another name",
            )
        return name

    # Names

    def meaning(self, name: str, column: int = 0) -> Mask:
        """Returns the states to which a name refers."""
        found = list(self._meanings(name))
        if not found:
            return self._other_expression(name, column)
        kind, meaning = found[0]
        for other, second in found[1:]:
            if not np.array_equal(meaning, second):
                raise InvalidProperty(
                    f'the name "{name}" is ambiguous: a {kind} and a different {other}',
                    place=_place(column),
                    mend="use --define to give the intended meaning its own name",
                )
        return meaning

    def knows(self, name: str) -> bool:
        """Whether a name means something other than an expression over signals."""
        return any(kind != "predicate" for kind, _ in self._meanings(name))

    def _meanings(self, name: str) -> Iterator[tuple[str, Mask]]:
        chain = self.chain
        if name in self.definitions:
            yield "definition", self.definitions[name]
        if name in chain.labels:
            yield "label", self._mask(chain.labels[name])
        elif name == "init" and chain.initial is not None:
            yield "label", self._mask([chain.initial])
        elif name == "deadlock":
            yield "label", self._mask(chain.deadlocks)
        if name in self.chain.number:
            yield "state", self._mask([self.chain.number[name]])
        values = chain.variables.get(name)
        if values is not None and set(np.unique(values).tolist()) <= {0, 1}:
            yield "variable", values == 1
        if self.abstraction is not None:
            expression = self._parsed(name)
            if repr(expression) in self.abstraction.texts and expression is not None:
                yield "predicate", self.decide(expression)

    def _parsed(self, text: str) -> Expression | None:
        if self.abstraction is None:
            return None
        try:
            return parse_expression(text, self.abstraction.vocabulary)
        except InvalidInput:
            return None

    def _other_expression(self, name: str, column: int) -> Mask:
        """Returns the states of a quoted expression that is not a predicate but follows
        from predicates.
        """
        unknown = InvalidProperty(
            f'unknown name "{name}"',
            place=_place(column),
            mend=f"compare it, as in {name}=0"
            if name in self.chain.variables
            else near_miss(name, self._all_names()) or self._where_names_come_from(),
        )
        if self.abstraction is None or (name not in self._names_of_signals()
                                        and _WORD.fullmatch(name)):  # fmt: skip
            raise unknown
        try:
            return self.decide(parse_expression(name, self.abstraction.vocabulary))
        except InvalidInput as error:
            raise InvalidProperty(
                f'"{name}": {error.problem}', place=_place(column), mend=error.mend
            ) from None

    def _names_of_signals(self) -> tuple[str, ...]:
        return () if self.abstraction is None else self.abstraction.signals

    def _all_names(self) -> list[str]:
        texts = () if self.abstraction is None else self.abstraction.texts
        names = {*self.definitions, *self.chain.labels, *self.chain.variables, *texts}
        return sorted(names) + list(self.chain.states[:10_000])

    def _where_names_come_from(self) -> str:
        names = [name for name in self._all_names() if not _INTEGER.fullmatch(name)]
        some = f"; known names are {', '.join(names[:8])}" if names else ""
        return "define it with --define" + some

    # Expressions over signals

    def decide(self, expression: Expression) -> Mask:
        """Returns the states in which an expression is true, according to the
        abstraction.
        """
        text = repr(expression)
        if self.abstraction is None:
            mend = f"--define '{text}=...'"
            if not _WORD.fullmatch(text):
                mend = "this needs a model that was learned with predicates"
            raise InvalidProperty(
                f"{text!r} is not defined on the states of this model",
                mend=near_miss(text, self._all_names()) or mend,
            )
        if text not in self._expressions:
            holds, bits = self.abstraction.decides(expression), self.abstraction.bits
            self._expressions[text] = np.array([
                place != self.chain.end and holds(bits(name))
                for place, name in enumerate(self.chain.states)
            ])  # fmt: skip
        return self._expressions[text]

    def proposition(self, expression: Expression) -> Mask:
        """Returns the states in which a law's proposition is true.

        Names have the same meaning as in a property; all other expressions are
        evaluated by the abstraction.
        """
        inside = [n.name for n in expression.walk() if isinstance(n, tree.Name)]
        if any(map(self.knows, inside)):
            match expression:
                case tree.Name(name):
                    return self.meaning(name)
                case tree.Not(operand):
                    return ~self.proposition(operand)
                case tree.And(parts):
                    return reduce(operator.and_, map(self.proposition, parts))
                case tree.Or(parts):
                    return reduce(operator.or_, map(self.proposition, parts))
                case tree.Implies(left, right):
                    return ~self.proposition(left) | self.proposition(right)
        return self.decide(expression)

    # Variables

    def compare(self, variable: str, relation: str, other: str, column: int) -> Mask:
        """Returns the states in which a comparison of a variable with a number,
        variable or state is true.
        """
        if not self.chain.variables and variable == STATE:
            return self._compare_states(relation, other, column)
        values = self._variable(variable, column)
        other = {"true": "1", "false": "0"}.get(other, other)
        if not _INTEGER.fullmatch(other):
            if other not in self.chain.variables:
                raise InvalidProperty(
                    f"the numeric variable {variable} is compared with a name",
                    place=_place(column),
                    mend=f'write only the name: "{other}"',
                )
            against = self._variable(other, column)
            return np.asarray(_RELATIONS[relation](values, against))
        low, high = int(values.min()), int(values.max())
        if relation in ("=", "!=") and not low <= int(other) <= high:
            raise InvalidProperty(
                f"no state has {variable}={other}",
                place=_place(column),
                mend=f"{variable} ranges from {low} to {high}",
            )
        return np.asarray(_RELATIONS[relation](values, int(other)))

    def _variable(self, name: str, column: int) -> NDArray[np.int64]:
        values = self.chain.variables.get(name)
        if values is None:
            known = list(self.chain.variables) or [STATE]
            mend = near_miss(name, known) or f"the model has {', '.join(known)}"
            if name in self._names_of_signals():
                mend = f'put the expression in double quotes, as in "{name} > 1"'
            raise InvalidProperty(
                f"unknown variable {name!r}", place=_place(column), mend=mend
            )
        return values

    def _compare_states(self, relation: str, other: str, column: int) -> Mask:
        """Compares the names of states, for a chain without variables."""
        if relation in ("=", "!="):
            if other not in self.chain.number:
                raise InvalidProperty(
                    f'unknown state "{other}"',
                    place=_place(column),
                    mend=suggest(other, self.chain.states),
                )
            found = self._mask([self.chain.number[other]])
            return found if relation == "=" else ~found
        names = [n for i, n in enumerate(self.chain.states) if i != self.chain.end]
        if not all(map(_INTEGER.fullmatch, [other, *names])):
            raise InvalidProperty(
                "the states of this model are not numbers, so they have no order",
                place=_place(column),
                mend="use = or !=",
            )
        numbers = self._mask([self.chain.number[n] for n in names])
        values = np.array([int(n) for n in names])
        numbers[numbers] = _RELATIONS[relation](values, int(other))
        return numbers

    def _mask(self, states: Iterable[int]) -> Mask:
        mask = np.zeros(self.chain.n, dtype=bool)
        mask[list(states)] = True
        return mask


def _place(column: int) -> str:
    return f"column {column}" if column else ""
