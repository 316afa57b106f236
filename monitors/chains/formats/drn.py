"""Storm's DRN format: one text file with states, labels and transitions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidModel
from forewarn.monitors.chains.chain import Chain, check_size
from forewarn.monitors.chains.formats.rows import (
    VALUE,
    Valuation,
    assembled,
    assignment,
    from_valuations,
    numbered_lines,
    printable,
    probability,
    valuation_texts,
)

_STATE = re.compile(r"state\s+(\d+)((?:\s+(?:\[[^\]]*\]|![^\s]+))*)(.*)", re.ASCII)
_TRANSITION = re.compile(r"(\d+)\s*:\s*(\S+)", re.ASCII)
_LABEL = re.compile(r'"([^"]*)"|(\S+)')
_BETWEEN = re.compile("[,&]")


def recognises(head: str) -> bool:
    return re.search(r"^@type\s*:", head, re.MULTILINE) is not None


def read_drn(text: str, source: str = "") -> Chain:
    """Parses a chain from DRN text."""
    return _Parser(text, source).parse()


class _Parser:
    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.lines = self._numbered(text)
        self.line = 0
        self.n = 0
        self.rows: dict[int, dict[int, Fraction]] = {}
        self.labels: dict[str, set[int]] = {}
        self.comments: dict[int, str] = {}

    def _numbered(self, text: str) -> Iterator[str]:
        for self.line, line in numbered_lines(text):
            yield line

    def error(self, problem: str, mend: str = "") -> InvalidModel:
        place = f"line {self.line}"
        return InvalidModel(problem, source=self.source, place=place, mend=mend)

    def parse(self) -> Chain:
        self._header()
        state: int | None = None
        choices = transitions = 0
        for line in self.lines:
            if line.startswith("//"):
                if state is not None and choices == 0:
                    self.comments[state] = line[2:].strip()
            elif match := _STATE.fullmatch(line):
                state, choices = self._state(match), 0
            elif state is not None and re.match(r"action\b", line):
                choices += 1
                if choices > 1:
                    raise self.error(
                        f"state {state} has several actions, so the model is not a "
                        "Markov chain"
                    )
            elif state is not None and (match := _TRANSITION.fullmatch(line)):
                transitions += 1
                if transitions % 65536 == 0:
                    check_size(self.n, transitions, self.source)
                self._transition(state, match)
            elif line:
                raise self.error(f"expected a state or a transition, found {line:.40}")
        return self._chain()

    def _header(self) -> None:
        for line in self.lines:
            key, _, value = line.partition(":")
            if key == "@type" and value.strip().lower() != "dtmc":
                raise self.error(
                    f"the model is of type {value.strip()}; only DTMCs can be read"
                )
            if key == "@value_type" and value.strip() not in ("double", "rational"):
                raise self.error(f"the value type {value.strip()} is not supported")
            if key == "@parameters" and (names := next(self.lines, "")):
                raise self.error(f"parametric chains are not supported: {names:.40}")
            if key == "@nr_states":
                size = value.strip() or next(self.lines, "")
                if not re.fullmatch(r"\d{1,18}", size, re.ASCII):
                    raise self.error(f"expected the number of states, found {size:.40}")
                self.n = int(size)
                check_size(self.n, source=self.source)
            if key == "@model":
                break
        else:
            raise self.error("the file ends before @model")
        if not self.n:
            raise self.error("the number of states is missing", "add @nr_states")

    def _number(self, text: str) -> int:
        if len(text) > 18 or int(text) >= self.n:
            raise self.error(f"unknown state {text:.40}: there are {self.n} states")
        return int(text)

    def _state(self, match: re.Match[str]) -> int:
        state = self._number(match[1])
        if state in self.rows:
            raise self.error(f"state {state} appears twice")
        self.rows[state] = {}
        for quoted, plain in _LABEL.findall(match[3]):
            self.labels.setdefault(quoted or plain, set()).add(state)
        return state

    def _transition(self, state: int, match: re.Match[str]) -> None:
        target, row = self._number(match[1]), self.rows[state]
        if target in row:
            raise self.error(f"the transition from {state} to {target} appears twice")
        row[target] = probability(match[2], self.source, f"line {self.line}")

    def _chain(self) -> Chain:
        for state in range(self.n):
            if state not in self.rows:
                raise self.error(f"state {state} of {self.n} is missing")
        names, variables = self._names()
        return assembled(self.rows, self.labels, names, variables, self.source)

    def _names(self) -> tuple[list[str], Mapping[str, NDArray[np.int64]]]:
        """Returns state names from the comments, where Storm writes valuations and we
        write names.
        """
        texts = [self.comments.get(i, "") for i in range(self.n)]
        if len(set(texts)) == self.n and all(texts):
            if not all(text.startswith("[") for text in texts):
                return texts, {}
            valuations = _valuations(texts)
            if valuations[0]:
                return from_valuations(valuations)
        return [str(i) for i in range(self.n)], {}


def _valuations(texts: Sequence[str]) -> list[Valuation]:
    """Returns the variables in `[x=3\t& !b]`, where Storm leaves out a Boolean that is
    true.
    """
    rows = [[part.strip() for part in _BETWEEN.split(t.strip("[]"))] for t in texts]
    names: list[str] = []
    if len({len(row) for row in rows}) == 1:
        for column in zip(*rows, strict=True):
            found = {part.partition("=")[0].lstrip("!").strip() for part in column}
            names.append(" or ".join(found - {""}))
    valuations = []
    for row in rows:
        valuation = []
        for name, part in zip(names, row, strict=False):
            value = part.partition("=")[2].strip()
            value = value or ("false" if part.startswith("!") else "true")
            if not re.fullmatch(r"\w+", name, re.ASCII) or not VALUE.fullmatch(value):
                return [()]
            valuation.append(assignment(name, value))
        valuations.append(tuple(valuation))
    return valuations


def write_drn(chain: Chain, out: TextIO) -> None:
    """Writes a chain with exact probabilities, if it has them, and state names as
    comments.
    """
    kind = "rational" if chain.exact else "double"
    out.write(f"@type: DTMC\n@value_type: {kind}\n@parameters\n\n@reward_models\n\n")
    out.write(f"@nr_states\n{chain.n}\n@nr_choices\n{chain.n}\n@model\n")
    labels: dict[int, list[str]] = {}
    if chain.initial is not None:
        labels[chain.initial] = ["init"]
    for label, members in chain.labels.items():
        for state in members:
            labels.setdefault(state, []).append(f'"{printable(label)}"')
    for i, comment in enumerate(_comments(chain)):
        marks = "".join(f" {label}" for label in labels.get(i, ()))
        out.write(f"state {i}{marks}\n//{comment}\n\taction 0\n")
        for target, p in chain.written_row(i):
            out.write(f"\t\t{target} : {p}\n")


def _comments(chain: Chain) -> list[str]:
    """Returns each state's comment: its variables in Storm's form, or else its name."""
    names = [printable(name) for name in chain.states]
    if not chain.variables:
        return names
    comments: list[str] = []
    for name, texts in zip(names, valuation_texts(chain), strict=True):
        pairs = zip(chain.variables, texts, strict=True)
        said = ",".join(f"{variable}={text}" for variable, text in pairs)
        comments.append(f"[{said}]" if name in (said, texts[0]) else name)
    return comments
