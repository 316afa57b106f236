"""The PRISM language: parsed by Storm in a separate process, and written by us with
exact probabilities.

A module with a single variable has one state for each value in the variable's range,
even for unreachable values, and the value is the state's name. With several variables,
only states reachable from the initial state are included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TextIO

from forewarn.monitors.chains.chain import Chain, check_size
from forewarn.monitors.chains.formats.rows import (
    ForeignChain,
    printable,
)
from forewarn.monitors.chains.formats.storm import build

_HEAD = re.compile(
    r"^\s*(?:dtmc|probabilistic|ctmc|mdp|nondeterministic|stochastic|pta|pomdp|smg"
    r"|const|module|formula|global)\b"
)
_COMMENT = re.compile(r"//[^\n]*")
_VARIABLE = re.compile(
    r"(\w+)\s*:\s*(?:bool|(\[)([^\];]*?)\.\.([^\];]*)\])\s*(?:init\b([^;]*))?;",
    re.ASCII,
)
_RENAMED = re.compile(
    r"\bmodule\s+\w+\s*=\s*\w+\s*\[([^\]]*)\]\s*endmodule\b", re.ASCII
)
_INIT = re.compile(r"\binit\b((?:(?!\bendinit\b|;).)*)\bendinit\b", re.DOTALL)
_WHOLE = re.compile(r"\s*-?\d{1,18}\s*", re.ASCII)
_START = "forewarn_initial_state"

_BUILD = r"""
import re
with open(source) as file:
    text = file.read()
options = stormpy.BuilderOptions()
options.set_build_state_valuations()
options.set_build_all_labels()
options.set_exploration_checks()
program = stormpy.parse_prism_program(source)
known = {}
def most(expression):
    # The maximum absolute value of an expression. Storm's integers can overflow.
    parts = [expression.get_operand(i) for i in range(expression.arity)]
    if expression.is_variable():
        return known.get(expression.get_identifier(), 0.0)
    if not expression.is_function_application:
        number = not expression.has_boolean_type()
        return abs(expression.evaluate_as_double()) if number else 0.0
    sizes, found = [most(part) for part in parts], 0.0
    name = expression.operator.name
    try:
        if name == "TIMES":
            found = sizes[0] * sizes[1]
        elif name == "POWER":
            found = max(sizes[0], 1.0) ** sizes[1]
        elif not expression.has_boolean_type():
            found = sum(sizes)
    except OverflowError:
        found = float("inf")
    if expression.has_integer_type() and not found < 2**62:
        raise OverflowError("a whole number may exceed 62 bits")
    return found
if re.search(r"(?<![0-9.])[0-9]{19}", text):
    raise OverflowError("a whole number may exceed 62 bits")
if re.search(r"[*^]|pow|[0-9]{12}", text):
    # The parser evaluates constant expressions, which may overflow. Every literal is
    # therefore replaced by an undefined constant.
    def hidden(literal):
        known["forewarn_" + literal[0]] = float(literal[0])
        return "forewarn_" + literal[0]
    text = re.sub(r'(?<![\w."])[0-9]{1,18}(?![\w."])', hidden, text)
    declared = "".join(f"const int {name};" for name in known)
    head = r"\b(?:dtmc|probabilistic)\b|$"
    with open(target, "w") as file:
        file.write(re.sub(head, r"\g<0> " + declared, text, count=1))
    unknown = stormpy.parse_prism_program(target)
    for constant in unknown.constants:
        if constant.defined:
            known[constant.name] = most(constant.definition)
    numbers = [*unknown.global_integer_variables]
    for module in unknown.modules:
        numbers += module.integer_variables
    for each in numbers:
        ends = each.lower_bound_expression, each.upper_bound_expression
        known[each.name] = max(map(most, ends))
    for module in unknown.modules:
        for command in module.commands:
            most(command.guard_expression)
            for update in command.updates:
                most(update.probability_expression)
                for assignment in update.assignments:
                    most(assignment.expression)
    for label in unknown.labels:
        most(label.expression)
build = stormpy.build_model[stormpy.Rational]
try:
    model = build(program, options=options)
except RuntimeError as error:
    if "sum to one" not in str(error):
        raise
    # Row sums may have rounding errors and are checked later, but bounds must be
    # checked here.
    options.set_exploration_checks(False)
    options.set_add_out_of_bounds_state(True)
    if "out_of_bounds" in build(program, options=options).labeling.get_labels():
        raise
    options.set_add_out_of_bounds_state(False)
    model = build(program, options=options)
"""


def is_prism(head: str) -> bool:
    """Whether a text begins like a model in the PRISM language."""
    plain = _COMMENT.sub("", head)
    if not _HEAD.search(plain):
        return False
    return re.search(r"^\s*\d+\s+\d+", plain.partition("\n")[2]) is None


def read_prism(text: str, source: str = "") -> Chain:
    """Parses a chain from text in the PRISM language.

    Raises:
        MissingDependency: stormpy is not installed.
        InvalidModel: Storm rejects the text, or it describes no DTMC.
        TooLarge: Storm exceeds its time or memory limit, or the chain is too large.
    """
    plain = _COMMENT.sub("", text)
    found = list(_VARIABLE.finditer(plain))
    declared = _declared(plain, found)
    alone = found[0] if len(declared) == 1 and found[0][2] else None
    if alone is not None:
        plain = _from_every_value(plain, alone, source)
    built = build(_BUILD, plain.encode(), "the PRISM language", source)
    if alone is not None:
        labels = {**built.labels, "init": built.labels[_START]}
        del labels[_START]
        built = replace(built, labels=labels)
    return _sorted(built, declared).chain(source)


def _declared(text: str, found: Iterable[re.Match[str]]) -> list[str]:
    """Returns the variables, including renamed ones."""
    known = [each[1] for each in found]
    for module in _RENAMED.finditer(text):
        for pair in module[1].split(","):
            old, _, new = map(str.strip, pair.partition("="))
            if old in known:
                known.append(new)
    return known


def _from_every_value(text: str, variable: re.Match[str], source: str) -> str:
    """Returns the text with all values of its only variable as initial states.

    The label `_START` marks the original initial state.
    """
    name, low, high, initial = variable[1], variable[3], variable[4], variable[5]
    if _WHOLE.fullmatch(low) and _WHOLE.fullmatch(high):
        check_size(int(high) - int(low) + 1, source=source)
    declared = f"{name} : [{low}..{high}];"
    text = text[: variable.start()] + declared + text[variable.end() :]
    start = f"{name} = ({low if initial is None else initial})"
    if block := _INIT.search(text):
        start, text = block[1], text[: block.start()] + text[block.end() :]
    return f'{text}\ninit true endinit\nlabel "{_START}" = {start};\n'


def _sorted(built: ForeignChain, declared: Iterable[str]) -> ForeignChain:
    """Returns the chain with its variables in declared order, and states sorted by
    value.
    """
    columns = {name: built.values[name] for name in declared if name in built.values}
    order = sorted(
        range(built.n), key=lambda i: [values[i] for values in columns.values()]
    )
    place = {state: at for at, state in enumerate(order)}
    return ForeignChain(
        built.n,
        {place[i]: {place[j]: p for j, p in row.items()}
         for i, row in built.rows.items()},
        {label: {place[i] for i in states} for label, states in built.labels.items()},
        {name: [values[i] for i in order] for name, values in columns.items()},
    )  # fmt: skip


def write_prism(chain: Chain, out: TextIO) -> None:
    """Writes a chain as a module with one variable, with exact probabilities.

    A chain's single variable is kept if its values are consecutive; otherwise, the
    variable numbers the states. Names that are not values are added as comments.
    """
    variable, values = "s", list(range(chain.n))
    if len(chain.variables) == 1:
        ((name, column),) = chain.variables.items()
        low = int(column.min())
        if sorted(column.tolist()) == list(range(low, low + chain.n)):
            variable, values = name, column.tolist()
    span = f"[{min(values)}..{max(values)}] init {values[chain.initial or 0]}"
    out.write(f"dtmc\n\nmodule forewarn\n\n    {variable} : {span};\n\n")
    for i, name in enumerate(chain.states):
        branches = " + ".join(
            f"{p} : ({variable}'={values[j]})" for j, p in chain.written_row(i)
        )
        comment = "" if name == str(values[i]) else f" // {printable(name)}"
        out.write(f"    [] {variable}={values[i]} -> {branches};{comment}\n")
    out.write("\nendmodule\n")
    labels = identifiers(chain.labels)
    for label, members in zip(labels, chain.labels.values(), strict=True):
        runs = _runs(variable, sorted(values[i] for i in members))
        out.write(f'\nlabel "{label}" = {"|".join(runs) or "false"};\n')


def _runs(variable: str, numbers: list[int]) -> Iterator[str]:
    """Yields `s=3` for each value, or `(s>=3 & s<=9)` for consecutive values."""
    first = 0
    for at, number in enumerate(numbers):
        if numbers[at + 1 : at + 2] == [number + 1]:
            continue
        if at - first > 1:
            yield f"({variable}>={numbers[first]} & {variable}<={number})"
        else:
            yield from (f"{variable}={n}" for n in numbers[first : at + 1])
        first = at + 1


def identifiers(labels: Iterable[str]) -> list[str]:
    """Converts labels to distinct identifiers of the PRISM language."""
    found: list[str] = []
    for label in labels:
        name = re.sub(r"\W", "_", label, flags=re.ASCII) or "_"
        name = f"_{name}" if name[0].isdigit() else name
        while name in found:
            name += "_"
        found.append(name)
    return found
