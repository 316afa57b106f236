"""From what a PRISM-language text declares to the states and rows of a chain."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from forewarn.abstractions.errors import InvalidModel, TooLarge
from forewarn.monitors.chains.chain import Chain, check_size, row_sum_error
from forewarn.monitors.chains.formats.prism.declarations import (
    Branch,
    Command,
    Declarations,
    Names,
)
from forewarn.monitors.chains.formats.prism.expression import Environment, Reader, Value

Valuation = tuple[int, ...]

MAX_WORK = 50_000_000
"""States times the characters that are evaluated in each: half a minute's work."""


class Exploration:
    """Explores the states that a parsed model describes."""

    def __init__(self, model: Declarations, read: Reader) -> None:
        self.model, self.read = model, read
        self.variables = model.variables
        self.position = {v.name: i for i, v in enumerate(self.variables)}
        self.by_valuation: dict[Valuation, list[Command]] = {}
        self.general: list[Command] = []
        for command in model.commands:
            if command.guard is None and set(command.fixed) == set(self.position):
                key = tuple(command.fixed[v.name] for v in self.variables)
                self.by_valuation.setdefault(key, []).append(command)
            else:
                self.general.append(command)
        self._evaluated = model.evaluated + sum(c.length for c in self.general)

    def _check_size(self, states: int, transitions: int = 0) -> None:
        check_size(states, transitions, self.read.source)
        if states * self._evaluated > MAX_WORK:
            raise TooLarge(
                f"to evaluate {self._evaluated:,} characters in {states:,} states takes"
                " too long",
                source=self.read.source,
                mend="write a command for each state, as in `[] s=0 -> 1 : (s'=1);`",
            )

    def build(self) -> Chain:
        rows: dict[Valuation, dict[Valuation, Fraction]] = {}
        if len(self.variables) == 1:
            self._check_size(len(self._range()))
        initial = self._initial()
        waiting: list[Valuation] = [initial]
        if len(self.variables) == 1:
            waiting = [(i,) for i in self._range()]
        transitions, known = 0, set(waiting)
        while waiting:
            valuation = waiting.pop()
            row = rows[valuation] = self._row(valuation)
            fresh = [v for v in row if v not in known]
            known.update(fresh)
            waiting.extend(fresh)
            transitions += len(row)
            self._check_size(len(known), transitions)
        return self._chain(sorted(known), rows, initial)

    def _range(self) -> range:
        return range(self.variables[0].low, self.variables[0].high + 1)

    def _initial(self) -> Valuation:
        if self.model.start is None:
            return tuple(v.initial for v in self.variables)
        if len(self.variables) != 1:
            raise InvalidModel(
                "an init block over several variables is not supported",
                source=self.read.source,
                mend="give each variable its own init",
            )
        chosen = [(i,) for i in self._range() if self.model.start(self._names((i,)))]
        if len(chosen) != 1:
            raise InvalidModel(
                f"the init block names {len(chosen)} states; one is needed",
                source=self.read.source,
            )
        return chosen[0]

    def _names(self, valuation: Valuation) -> Environment:
        names = Names(self.model.constants, self.model.formulas)
        for variable, value in zip(self.variables, valuation, strict=True):
            names[variable.name] = variable.value(value)
        return names

    def _applies(self, command: Command, names: Environment) -> bool:
        if command.guard is not None:
            return bool(command.guard(names))
        return all(names[name] == value for name, value in command.fixed.items())

    def _row(self, valuation: Valuation) -> dict[Valuation, Fraction]:
        found = self.by_valuation.get(valuation, [])
        names: Environment | None = None
        if self.general:
            names = self._names(valuation)
            found = found + [c for c in self.general if self._applies(c, names)]
        if not found:
            return {}
        if len(found) > 1:
            lines = " and ".join(self.read.place(c.start) for c in found[:2])
            raise InvalidModel(
                f"two commands apply in state {self._name(valuation)!r}",
                source=self.read.source,
                place=lines,
            )
        row: dict[Valuation, Fraction] = {}
        for branch in found[0].branches:
            probability = branch.probability
            if not isinstance(probability, Fraction):
                names = names or self._names(valuation)
                probability = Fraction(probability(names))
            if probability < 0:
                raise self.read.error(
                    f"the probability {probability} is negative", found[0].start
                )
            if probability:
                target = self._target(valuation, branch, found[0])
                row[target] = row.get(target, Fraction()) + probability
        total = sum(row.values(), Fraction())
        if abs(total - 1) > Fraction(1, 10**9):
            error = row_sum_error(self._name(valuation), total)
            raise error.within(self.read.source, self.read.place(found[0].start))
        return row

    def _target(self, valuation: Valuation, branch: Branch, at: Command) -> Valuation:
        target = list(valuation)
        for name, assigned in branch.assigned:
            if name not in self.position:
                raise self.read.error(f"{name!r} is not a variable", at.start)
            position = self.position[name]
            variable = self.variables[position]
            value: Value
            if isinstance(assigned, int):
                value = assigned
            else:
                value = assigned(self._names(valuation))
            if value != int(value) or not variable.low <= value <= variable.high:
                raise self.read.error(
                    f"{value} is outside the range "
                    f"[{variable.low}..{variable.high}] of {name!r}",
                    at.start,
                )
            target[position] = int(value)
        return tuple(target)

    def _name(self, valuation: Valuation) -> str:
        texts = [v.text(i) for v, i in zip(self.variables, valuation, strict=True)]
        if len(texts) == 1:
            return texts[0]
        pairs = zip(self.variables, texts, strict=True)
        return ",".join(f"{v.name}={text}" for v, text in pairs)

    def _chain(
        self,
        states: list[Valuation],
        rows: Mapping[Valuation, Mapping[Valuation, Fraction]],
        initial: Valuation,
    ) -> Chain:
        number = {valuation: i for i, valuation in enumerate(states)}
        table = np.array(states, dtype=np.int64)
        labels = {
            name: frozenset(i for i, v in enumerate(states) if holds(self._names(v)))
            for name, holds in self.model.labels.items()
        }
        return Chain.from_rows(
            [self._name(v) for v in states],
            {
                number[v]: {number[target]: p for target, p in row.items()}
                for v, row in rows.items()
            },
            initial=number[initial],
            labels=labels,
            variables={v.name: table[:, i] for i, v in enumerate(self.variables)},
        )
