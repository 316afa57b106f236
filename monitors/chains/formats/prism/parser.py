"""The parser of the PRISM language, as far as one explicit `dtmc` module needs it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction

from forewarn.abstractions.errors import InvalidModel
from forewarn.monitors.chains.chain import check_size
from forewarn.monitors.chains.formats.prism.declarations import (
    Branch,
    Command,
    Declarations,
    Names,
    Variable,
)
from forewarn.monitors.chains.formats.prism.expression import Expression, Reader, Value

_KINDS = ("dtmc", "probabilistic")
_OTHER_KINDS = ("mdp", "nondeterministic", "ctmc", "stochastic", "pta", "pomdp", "smg")
_MAX_WHOLE = 2**62
# Published chains are lists of "14/349 : (s'=17)": read in one step each.
_PLAIN_BRANCH = re.compile(
    r"(\d{1,99}(?:/\d{1,99}|\.\d{1,99})?)\s*:\s*\(\s*(\w+)'\s*=\s*(-?\d{1,18})\s*\)\s*(?=[+;])"
)
_PLAIN_GUARD = re.compile(
    r"\(?\s*\w+\s*=\s*(?:-?\d{1,18}|true|false)\s*\)?"
    r"(?:\s*&\s*\(?\s*\w+\s*=\s*(?:-?\d{1,18}|true|false)\s*\)?)*+\s*(?=->)"
)
_PLAIN_SET = re.compile(
    r"(\w+)\s*=\s*-?\d{1,18}(?:\s*\|\s*\1\s*=\s*-?\d{1,18})*+\s*(?=;)"
)
_EQUALITY = re.compile(r"(\w+)\s*=\s*(-?\d{1,18}|true|false)")


class Parser:
    """Reads the text once, from top to bottom."""

    def __init__(self, text: str, source: str) -> None:
        self.read = Reader(text, source)
        self.model = Declarations()
        self.declared: dict[str, str] = {}

    def parse(self) -> Declarations:
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
                self.model.formulas[name] = self._evaluated()
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
                self.model.start = self._evaluated()
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

    def _evaluated(self) -> Expression:
        """An expression that is worked out in every state."""
        start = self.read.token.start
        expression = self.read.expression()
        self.model.evaluated += self.read.token.start - start
        return expression

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
        if not -_MAX_WHOLE <= value <= _MAX_WHOLE:
            raise self.read.error("the number is too large", start)
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
        start = read.token.start
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
        self.model.evaluated += read.token.start - start
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
        self.model.labels[name] = self._plain_set() or self._evaluated()
        read.expect(";")

    def _plain_set(self) -> Expression | None:
        """`s=3|s=7|…` as one look-up, which matters where there are thousands."""
        read = self.read
        plain = _PLAIN_SET.match(read.text, read.token.start)
        if plain is None:
            return None
        read.used.setdefault(plain[1], read.token.start)
        name, pairs = plain[1], _EQUALITY.finditer(plain.group())
        values = {int(pair[2]) for pair in pairs}
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
        length = read.expect(";").start - start
        self.model.commands.append(
            Command(start, length, guard, fixed, tuple(branches))
        )

    def _guard(self) -> tuple[Expression | None, Mapping[str, int]]:
        """The guard, or the values it fixes where that is all it does."""
        read = self.read
        plain = _PLAIN_GUARD.match(read.text, read.token.start)
        if plain is None:
            return read.expression(), {}
        fixed: dict[str, int] = {}
        for pair in _EQUALITY.finditer(plain.group()):
            name, text = pair.groups()
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
        names = Names(self.model.constants, self.model.formulas)
        names.update({v.name: v.value(v.initial) for v in self.model.variables})
        for name, formula in self.model.formulas.items():
            try:
                formula(names)
            except RecursionError:
                raise InvalidModel(
                    f"the formula {name!r} depends on itself", source=self.read.source
                ) from None


def is_prism(head: str) -> bool:
    """Whether a text's beginning is PRISM language."""
    plain = re.sub(r"//[^\n]*", "", head)
    kinds = "|".join(_KINDS + _OTHER_KINDS)
    if not re.search(rf"^\s*(?:{kinds}|const|module|formula|global)\b", plain):
        return False
    return re.search(r"^\s*\d+\s+\d+", plain.partition("\n")[2]) is None
