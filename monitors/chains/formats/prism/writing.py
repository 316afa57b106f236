"""Chains written in the PRISM language, with exact probabilities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TextIO

from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats.rows import printable, valuation_texts


def write_prism(chain: Chain, out: TextIO) -> None:
    """Writes a chain as one module, with exact probabilities.

    It has the chain's own variables where they tell its states apart, or else one
    variable that numbers them. Names that are not values stand beside as comments.
    """
    variables, values = _written_variables(chain)
    out.write("dtmc\n\nmodule forewarn\n\n")
    for column, name in enumerate(variables):
        texts = [row[column] for row in values]
        kind = "bool"
        if not set(texts) <= {"false", "true"}:
            numbers = list(map(int, texts))
            kind = f"[{min(numbers)}..{max(numbers)}]"
        out.write(f"    {name} : {kind} init {texts[chain.initial or 0]};\n")
    out.write("\n")
    guards = [_assigned(variables, row, " & ", "{}={}") for row in values]
    updates = [_assigned(variables, row, "&", "({}'={})") for row in values]
    for i, (name, row) in enumerate(zip(chain.states, values, strict=True)):
        branches = " + ".join(f"{p} : {updates[j]}" for j, p in chain.written_row(i))
        said = name in (row[0], guards[i].replace(" & ", ","))
        comment = "" if said else f" // {printable(name)}"
        out.write(f"    [] {guards[i]} -> {branches};{comment}\n")
    out.write("\nendmodule\n")
    labels = identifiers(chain.labels)
    for label, members in zip(labels, chain.labels.values(), strict=True):
        where = _where(variables, values, members)
        out.write(f'\nlabel "{label}" = {where};\n')


def _where(
    variables: list[str], values: list[list[str]], members: frozenset[int]
) -> str:
    """The states of a label: by one variable if that tells them, else one by one."""
    for column, name in enumerate(variables):
        inside = {values[i][column] for i in members}
        outside = {row[column] for i, row in enumerate(values) if i not in members}
        if not inside & outside:
            return "|".join(_runs(name, inside)) or "false"
    rows = (values[i] for i in sorted(members))
    return "|".join(f"({_assigned(variables, row, ' & ', '{}={}')})" for row in rows)


def _runs(name: str, values: set[str]) -> Iterator[str]:
    """`s=3` for each value, or `(s>=3 & s<=9)` for those in a row."""
    if values & {"false", "true"}:
        yield from sorted(f"{name}={value}" for value in values)
        return
    numbers = sorted(map(int, values))
    first = 0
    for at, number in enumerate(numbers):
        if numbers[at + 1 : at + 2] == [number + 1]:
            continue
        if at - first > 1:
            yield f"({name}>={numbers[first]} & {name}<={number})"
        else:
            yield from (f"{name}={n}" for n in numbers[first : at + 1])
        first = at + 1


def _written_variables(chain: Chain) -> tuple[list[str], list[list[str]]]:
    """The variables to write, and the values of each state."""
    values = valuation_texts(chain) if chain.variables else []
    if len({tuple(row) for row in values}) == chain.n:
        # One variable's whole range are states; of several only what is reached.
        (first, *more) = chain.variables.values()
        gaps = int(first.max()) - int(first.min()) + 1 - chain.n
        if (more and chain.initial is not None) or (not more and not gaps):
            return list(chain.variables), values
    return ["s"], [[str(i)] for i in range(chain.n)]


def _assigned(names: list[str], row: list[str], between: str, form: str) -> str:
    return between.join(form.format(*pair) for pair in zip(names, row, strict=True))


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
