"""Storm's DRN format: one text file with states, labels and transitions.

Storm reads the file; the names and variables of states, which are comments, are read by
us.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

from forewarn.monitors.chains.chain import Chain, check_size
from forewarn.monitors.chains.formats.rows import (
    VALUE,
    printable,
    value_of,
)
from forewarn.monitors.chains.formats.storm import build

_BUILD = "model = stormpy.build_model_from_drn[{}](source)"

_RATIONAL = re.compile(r"^@value_type:\s*rational\b", re.MULTILINE)
_SIZE = re.compile(r"^@nr_states\s+(\d{1,18})", re.MULTILINE | re.ASCII)
_COMMENT = re.compile(r"^state\s[^\n]*\n\s*//([^\n]*)", re.MULTILINE)
_ASSIGNED = re.compile(rf"(!?)\s*(\w+)(?:\s*=\s*({VALUE.pattern}))?", re.ASCII)
_HEAD = 1000
_BETWEEN = re.compile(r"\s*[,&]\s*")


def recognises(head: str) -> bool:
    return re.search(r"^@type\s*:", head, re.MULTILINE) is not None


def read_drn(text: str, source: str = "") -> Chain:
    """Reads a chain from DRN text.

    Raises:
        MissingDependency: stormpy is not installed.
        InvalidModel: Storm rejects the text, or it describes no DTMC.
        TooLarge: Storm exceeds its time or memory limit, or the chain is too large.
    """
    if size := _SIZE.search(text[:_HEAD]):
        check_size(int(size[1]), source=source)
    # Doubles are printed with the fewest digits, so decimals remain exact.
    number = "stormpy.Rational" if _RATIONAL.search(text[:_HEAD]) else "float"
    built = build(_BUILD.format(number), text.encode(), "the DRN format", source)
    comments = [comment.strip() for comment in _COMMENT.findall(text)]
    if not all(comments) or not len(comments) == len(set(comments)) == built.n:
        return built.chain(source)
    if all(comment.startswith("[") for comment in comments):
        return replace(built, values=_variables(comments)).chain(source)
    return built.chain(source, comments)


def _variables(comments: Sequence[str]) -> dict[str, list[int | bool]]:
    """Returns the variables in comments such as `[x=3\t& !b]`, or none if a comment has
    another form.
    """
    found = dict[str, list[int | bool]]()
    for comment in comments:
        for part in _BETWEEN.split(comment.strip("[]")):
            pair = _ASSIGNED.fullmatch(part)
            if pair is None:
                return {}
            # Storm writes Booleans as `b` and `!b`.
            value = pair[3] or ("false" if pair[1] else "true")
            found.setdefault(pair[2], []).append(value_of(value))
    same = all(len(values) == len(comments) for values in found.values())
    return found if same else {}


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
    """Returns each state's comment: its name, in Storm's form if it gives the values of
    the variables.
    """
    names = [printable(name) for name in chain.states]
    only = f"{next(iter(chain.variables))}=" if len(chain.variables) == 1 else ""
    comments = [f"[{only}{name}]" for name in names]
    told = {name: values.tolist() for name, values in chain.variables.items()}
    return comments if told and _variables(comments) == told else names
