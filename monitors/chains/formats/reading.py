"""Which format a file has, found by its content, and the right reader for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, InvalidModel, TooLarge
from forewarn.abstractions.files import parse_json, read_bytes
from forewarn.monitors.chains.chain import MAX_STATES, MAX_TRANSITIONS, check_size
from forewarn.monitors.chains.formats import drn, explicit, own, prism, umb
from forewarn.monitors.chains.model import Model

FORMATS = (
    "Forewarn's own JSON, PRISM language, PRISM or Storm explicit (.tra), DRN, UMB, "
    "ProbGuard's model.json"
)
_HEAD = 64 * 1024


def read_models(path: Path) -> tuple[Model, ...]:
    """The model or chain in a file of any format that can be read, or its models.

    Raises:
        InvalidModel: With the place, if the file's content is wrong.
        TooLarge: Before anything is built, if the chain exceeds a limit.
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
    if umb.recognises(data):
        return (Model(chain=umb.read_umb(data, source)),)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _unknown(source) from None
    head = text[:_HEAD]
    if head.lstrip().startswith("{"):
        return _read_json(text, source)
    if drn.recognises(head):
        chain = drn.read_drn(text, source)
    elif explicit.recognises(head):
        chain = explicit.read_explicit(text, path)
    elif prism.is_prism(head):
        chain = prism.read_prism(text, source)
    else:
        raise _unknown(source)
    return (Model(chain=chain),)


def _read_json(text: str, source: str) -> tuple[Model, ...]:
    _refuse_early(text, source)
    data: Any = parse_json(text, source)
    if own.is_probguard(data):
        return (Model(chain=own.parse_probguard(data, source)),)
    if own.recognises(data):
        return own.parse_models(data, source)
    raise _unknown(source)


def _refuse_early(text: str, source: str) -> None:
    """Refuses JSON with too many states by counting quotes, before it is parsed."""
    begin = text.find('"states"')
    stop = text.find("]", begin)
    if begin >= 0:
        names = text.count('"', begin, stop if stop >= 0 else len(text)) - 2
        escaped = text.count('\\"', begin, stop if stop >= 0 else len(text))
        check_size((names - escaped) // 2, source=source)
    if text.count(":") > 2 * (MAX_STATES + MAX_TRANSITIONS):
        check_size(0, text.count(":"), source)


def _unknown(source: str) -> InvalidModel:
    return InvalidModel(
        "not a chain or model in a known format", source=source, mend=f"use {FORMATS}"
    )
