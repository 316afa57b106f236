"""Markov chains in the PRISM language: one `dtmc` module, read and written exactly.

A module with a single variable has one state for each value of its range, also
for values that cannot be reached, and the state's name is the value. With several
variables the states are those that the initial state can reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TextIO

import numpy as np

from forewarn.abstractions.errors import InvalidModel
from forewarn.monitors.chain import Chain, check_size, row_sum_error
from forewarn.monitors.formats.prism_expression import (
    Environment,
    Expression,
    Reader,
    Value,
)

Valuation = tuple[int, ...]

_KINDS = ("dtmc", "probabilistic")
_OTHER_KINDS = ("mdp", "nondeterministic", "ctmc", "stochastic", "pta", "pomdp", "smg")
# Published chains are lists of "14/349 : (s'=17)": read in one step each.
_PLAIN_BRANCH = re.compile(
    r"(\d+(?:/\d+|\.\d+)?)\s*:\s*\(\s*(\w+)'\s*=\s*(-?\d+)\s*\)\s*(?=[+;])"
)
_PLAIN_GUARD = re.compile(
    r"\(?\s*\w+\s*=\s*(?:-?\d+|true|false)\s*\)?"
    r"(?:\s*&\s*\(?\s*\w+\s*=\s*(?:-?\d+|true|false)\s*\)?)*\s*(?=->)"
)
_PLAIN_SET = re.compile(r"(\w+)\s*=\s*-?\d+(?:\s*\|\s*\1\s*=\s*-?\d+)*\s*(?=;)")
_EQUALITY = re.compile(r"(\w+)\s*=\s*(-?\d+|true|false)")


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    low: int
    high: int
    initial: int
    boolean: bool

    def text(self, value: int) -> str:
        return ("false", "true")[value] if self.boolean else str(value)

    def value(self, value: int) -> Value:
        return bool(value) if self.boolean else value


@dataclass(frozen=True, slots=True)
class Branch:
    probability: Fraction | Expression
    assigned: tuple[tuple[str, int | Expression], ...]


@dataclass(frozen=True, slots=True)
class Command:
    start: int
    guard: Expression | None
    fixed: Mapping[str, int]
    branches: tuple[Branch, ...]


@dataclass(slots=True)
class _Model:
    """What the text declares."""

    constants: dict[str, Value] = field(default_factory=dict)
    formulas: dict[str, Expression] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    labels: dict[str, Expression] = field(default_factory=dict)
    start: Expression | None = None


class _Names(dict[str, Value]):
    """An environment that evaluates formulas when they are asked for."""

    def __init__(self, values: Environment, formulas: Mapping[str, Expression]) -> None:
        super().__init__(values)
        self.formulas = formulas

    def __missing__(self, name: str) -> Value:
        return self.formulas[name](self)


class _Parser:
    """Reads the text once, from top to bottom."""

    def __init__(self, text: str, source: str) -> None:
        self.read = Reader(text, source)
        self.model = _Model()
        self.declared: dict[str, str] = {}

    def parse(self) -> _Model:
        read, kinds, modules = self.read, 0, 0
        while read.token.kind != "end":
            start = read.token.start
            word = read.name("'dtmc', 'module' or another declaration")
            if word in _KINDS:
                kinds += 1
            elif word in _OTHER_KINDS:
                raise read.error(
                    f"this is a {word} model; only dtmc can be read", start
                )
            elif word == "const":
                self._constant()
            elif word == "formula":
                name = self._declare(read.name("a formula name"), "formula")
                read.expect("=")
                self.model.formulas[name] = read.expression()
                read.expect(";")
            elif word == "global":
                self._variable()
            elif word == "module":
                modules += 1
                if modules > 1:
                    raise read.error("several modules are not supported", start)
                self._module()
            elif word == "label":
                self._label()
            elif word == "init":
                self.model.start = read.expression()
                read.expect("endinit")
            elif word == "rewards":
                while not read.at("endrewards") and read.token.kind != "end":
                    read.next()
                read.expect("endrewards")
            else:
                raise read.error(f"unexpected {word!r}", start)
        if not kinds:
            raise read.error("the model kind is missing", mend="begin with 'dtmc'")
        if not modules:
            raise read.error("there is no module")
        read.check_names(self.declared)
        self._check_formulas()
        return self.model

    def _declare(self, name: str, what: str) -> str:
        if name in self.declared:
            raise self.read.error(f"{what} {name!r} is declared twice")
        self.declared[name] = what
        return name

    def _constant(self) -> None:
        read = self.read
        kind = read.name("a constant's type or name")
        if kind in ("int", "double", "bool"):
            name = self._declare(read.name("a constant's name"), "constant")
        else:
            name, kind = self._declare(kind, "constant"), "int"
        if not read.at("="):
            raise read.error(f"the constant {name!r} has no value")
        read.next()
        value = self._fixed_value()
        whole = isinstance(value, int) or value.denominator == 1
        if kind == "int" and not whole:
            raise read.error(f"the constant {name!r} is not a whole number")
        self.model.constants[name] = value
        read.expect(";")

    def _fixed_value(self) -> Value:
        """An expression over constants, evaluated now."""
        read, start = self.read, self.read.token.start
        try:
            return read.expression()(self.model.constants)
        except KeyError as error:
            raise read.error(f"{error.args[0]!r} is not a constant", start) from None

    def _whole(self) -> int:
        start, value = self.read.token.start, self._fixed_value()
        if value != int(value):
            raise self.read.error(f"{value} is not a whole number", start)
        return int(value)

    def _module(self) -> None:
        read = self.read
        read.name("a module name")
        while not read.accept("endmodule"):
            if read.at("["):
                self._command()
            elif read.token.kind == "name":
                self._variable()
            else:
                raise read.error(
                    f"expected a variable, a command or 'endmodule', "
                    f"found {read.token.text!r}"
                )

    def _variable(self) -> None:
        read = self.read
        name = self._declare(read.name("a variable name"), "variable")
        read.expect(":")
        if boolean := read.accept("bool"):
            low, high = 0, 1
        else:
            read.expect("[")
            low = self._whole()
            read.expect("..")
            high = self._whole()
            if high < low:
                raise read.error(f"the range of {name!r} is empty")
            read.expect("]")
        initial = self._whole() if read.accept("init") else low
        if not low <= initial <= high:
            raise read.error(f"the initial value of {name!r} is outside its range")
        read.expect(";")
        self.model.variables.append(Variable(name, low, high, initial, boolean))
        if len(self.model.variables) == 1:
            check_size(high - low + 1, source=read.source)

    def _label(self) -> None:
        read = self.read
        if read.token.kind != "text":
            raise read.error("expected a label name in double quotes")
        name = read.next().text[1:-1]
        if name in self.model.labels:
            raise read.error(f"the label {name!r} is declared twice")
        read.expect("=")
        self.model.labels[name] = self._plain_set() or read.expression()
        read.expect(";")

    def _plain_set(self) -> Expression | None:
        """`s=3|s=7|…` as one look-up, which matters where there are thousands."""
        read = self.read
        plain = _PLAIN_SET.match(read.text, read.token.start)
        if plain is None:
            return None
        read.used.setdefault(plain[1], read.token.start)
        name, pairs = plain[1], _EQUALITY.findall(plain.group())
        values = {int(text) for _, text in pairs}
        read.jump(plain.end())
        return lambda env: env[name] in values

    def _command(self) -> None:
        read = self.read
        start = read.expect("[").start
        if read.token.kind == "name":
            read.next()
        read.expect("]")
        guard, fixed = self._guard()
        read.expect("->")
        branches = [self._branch()]
        while read.accept("+"):
            branches.append(self._branch())
        read.expect(";")
        self.model.commands.append(Command(start, guard, fixed, tuple(branches)))

    def _guard(self) -> tuple[Expression | None, Mapping[str, int]]:
        """The guard, or the values it fixes where that is all it does."""
        read = self.read
        plain = _PLAIN_GUARD.match(read.text, read.token.start)
        if plain is None:
            return read.expression(), {}
        fixed: dict[str, int] = {}
        for name, text in _EQUALITY.findall(plain.group()):
            read.used.setdefault(name, read.token.start)
            value = int(text) if text[-1].isdigit() else int(text == "true")
            if fixed.setdefault(name, value) != value:
                raise read.error(f"the guard gives {name!r} two values")
        read.jump(plain.end())
        return None, fixed

    def _branch(self) -> Branch:
        read = self.read
        if plain := _PLAIN_BRANCH.match(read.text, read.token.start):
            probability, name, value = plain.groups()
            read.used.setdefault(name, read.token.start)
            number = read.number(probability, read.token.start)
            read.jump(plain.end())
            return Branch(number, ((name, int(value)),))
        probability_expression: Fraction | Expression = Fraction(1)
        if not self._at_update():
            probability_expression = read.expression()
            read.expect(":")
        return Branch(probability_expression, tuple(self._updates()))

    def _at_update(self) -> bool:
        update = re.compile(r"\(\s*\w+\s*'|true\s*[;+]")
        return update.match(self.read.text, self.read.token.start) is not None

    def _updates(self) -> Iterator[tuple[str, Expression]]:
        read = self.read
        if read.accept("true"):
            return
        while True:
            read.expect("(")
            start, name = read.token.start, read.name("a variable")
            read.used.setdefault(name, start)
            read.expect("'")
            read.expect("=")
            yield name, read.expression()
            read.expect(")")
            if not read.accept("&"):
                return

    def _check_formulas(self) -> None:
        names = _Names(self.model.constants, self.model.formulas)
        names.update({v.name: v.value(v.initial) for v in self.model.variables})
        for name, formula in self.model.formulas.items():
            try:
                formula(names)
            except RecursionError:
                raise InvalidModel(
                    f"the formula {name!r} depends on itself", source=self.read.source
                ) from None


class _Builder:
    """Explores the states that a parsed model describes."""

    def __init__(self, model: _Model, read: Reader) -> None:
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

    def build(self) -> Chain:
        rows: dict[Valuation, dict[Valuation, Fraction]] = {}
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
            check_size(len(known), transitions, self.read.source)
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
        names = _Names(self.model.constants, self.model.formulas)
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


def recognises(head: str) -> bool:
    """Whether a text's beginning is PRISM language."""
    plain = re.sub(r"//[^\n]*", "", head)
    kinds = "|".join(_KINDS + _OTHER_KINDS)
    if not re.search(rf"^\s*(?:{kinds}|const|module|formula|global)\b", plain):
        return False
    return re.search(r"^\s*\d+\s+\d+", plain.partition("\n")[2]) is None


def read_prism(text: str, source: str = "") -> Chain:
    """The chain that a PRISM-language text describes."""
    parser = _Parser(text, source)
    model = parser.parse()
    if not model.variables:
        raise InvalidModel("the module has no variable", source=source)
    try:
        return _Builder(model, parser.read).build()
    except InvalidModel as error:
        raise error.within(source) from None


def write_prism(chain: Chain, out: TextIO, module: str = "forewarn") -> None:
    """Writes a chain as one module with one variable, with exact probabilities.

    The names of the states stand beside their commands as comments.
    """
    numbered = all(name == str(i) for i, name in enumerate(chain.states))
    out.write(f"dtmc\n\nmodule {module}\n\n")
    out.write(f"    s : [0..{chain.n - 1}] init {chain.initial or 0};\n\n")
    for i, name in enumerate(chain.states):
        branches = " + ".join(f"{p} : (s'={j})" for j, p in chain.written_row(i))
        comment = "" if numbered else f" // {printable(name)}"
        out.write(f"    [] s={i} -> {branches};{comment}\n")
    out.write("\nendmodule\n")
    labels = identifiers(chain.labels)
    for label, members in zip(labels, chain.labels.values(), strict=True):
        where = "|".join(f"s={i}" for i in sorted(members)) or "false"
        out.write(f'\nlabel "{label}" = {where};\n')


def identifiers(labels: Iterable[str]) -> list[str]:
    """The labels as names that the language allows, each still its own."""
    found: list[str] = []
    for label in labels:
        name = re.sub(r"\W", "_", label, flags=re.ASCII) or "_"
        name = f"_{name}" if name[0].isdigit() else name
        while name in found:
            name += "_"
        found.append(name)
    return found


def printable(text: str) -> str:
    """A name without what could end the comment or quotes that it stands in."""
    return "".join(c if c.isprintable() and c not in '"\\' else "?" for c in text)
