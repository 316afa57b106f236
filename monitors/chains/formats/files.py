"""Detects a file's format by its content and chooses the reader."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

from forewarn.abstractions.errors import (
    InvalidInput,
    InvalidModel,
    TooLarge,
    harmless_cell,
)
from forewarn.abstractions.files import (
    JSON_LINES,
    atomic_bytes,
    atomic_text,
    format_of,
    other_kind,
    parse_json,
    read_bytes,
)
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats import drn, explicit, own, prism, umb
from forewarn.monitors.chains.formats.drn import write_drn
from forewarn.monitors.chains.formats.prism import write_prism
from forewarn.monitors.chains.model import Model

READ = (
    "Forewarn's own JSON, PRISM or Storm explicit (.tra), ProbGuard's model.json; with "
    "the extra storm also the PRISM language, DRN or UMB"
)
_HEAD = 64 * 1024


def read_models(path: Path) -> tuple[Model, ...]:
    """Reads the models in a file of any supported format; a chain becomes a model.

    Raises:
        InvalidModel: The file's content is invalid; the message names the position.
        TooLarge: The file or the chain exceeds a limit.
    """
    try:
        return _read(path)
    except (InvalidModel, TooLarge) as error:
        raise error.within(str(path)) from error
    except InvalidInput as error:
        raise InvalidModel(
            error.problem,
            source=error.source or str(path),
            place=error.place,
            mend=error.mend,
        ) from error


def _read(path: Path) -> tuple[Model, ...]:
    source = str(path)
    data = read_bytes(path)
    if umb.is_umb(data):
        return (Model(chain=umb.read_umb(data, source)),)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _unknown(source, None) from None
    head = text[:_HEAD]
    if head.lstrip().startswith("{"):
        if (kind := format_of(head)) and not kind.startswith("forewarn.model"):
            raise _unknown(source, head)
        return _read_json(text, source)
    if drn.recognises(head):
        chain = drn.read_drn(text, source)
    elif explicit.recognises(head):
        chain = explicit.read_explicit(text, path)
    elif prism.is_prism(head):
        chain = prism.read_prism(text, source)
    else:
        raise _unknown(source, head)
    return (Model(chain=chain),)


@lru_cache(maxsize=4)  # a command reads its model in several places
def _read_json(text: str, source: str) -> tuple[Model, ...]:
    if JSON_LINES.match(text):
        raise _unknown(source, text[:_HEAD])
    data: Any = parse_json(text, source)
    if own.is_probguard(data):
        return (Model(chain=own.parse_probguard(data, source)),)
    if own.recognises(data):
        return own.parse_models(data, source)
    raise _unknown(source, text[:_HEAD])


def _unknown(source: str, head: str | None) -> InvalidModel:
    problem = "" if head is None else other_kind(head, "a model")
    mend = "create a model with `forewarn learn`"
    mend += "" if problem else f", or use {READ}"
    for judge in ("guard-program", "rules"):
        if format_of(head or "") == f"forewarn.{judge}":
            mend += f"; --{judge} takes this one, or in Python read_judge"
    problem = problem or "not a chain or model in a known format"
    return InvalidModel(problem, source=source, mend=mend)


def write_csv(chain: Chain, out: TextIO) -> None:
    """Writes one line per transition, with the names of the states."""
    table = csv.writer(out, lineterminator="\n")
    table.writerow(("from", "to", "probability"))
    for i, name in enumerate(chain.states):
        for j, p in chain.written_row(i):
            names = (harmless_cell(state) for state in (name, chain.states[j]))
            table.writerow((*names, p))


TEXT_FORMATS: dict[str, Callable[[Chain, TextIO], None]] = {
    "prism": write_prism,
    "drn": write_drn,
    "csv": write_csv,
}


def chain_as_text(chain: Chain, kind: str) -> str:
    """Returns the chain as text, in a format that needs only one text file."""
    out = io.StringIO()
    TEXT_FORMATS[kind](chain, out)
    return out.getvalue()


def write_chain(chain: Chain, kind: str, path: Path) -> None:
    """Writes the chain completely or not at all."""
    if kind == "umb":
        with atomic_bytes(path) as raw:
            raw.write(umb.umb_of(chain))
        return
    with atomic_text(path) as text:
        TEXT_FORMATS[kind](chain, text)
