"""Which format a file has, found by its content, and the right reader for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidModel
from forewarn.abstractions.files import parse_json, read_text
from forewarn.monitors.formats import own, prism
from forewarn.monitors.model import Model

_HEAD = 64 * 1024


def read_model(path: Path) -> Model:
    """The model or chain in a file of any format that can be read."""
    source = str(path)
    text = read_text(path)
    head = text[:_HEAD]
    if head.lstrip().startswith("{"):
        data: Any = parse_json(text, source)
        if own.recognises(data):
            return own.parse_model(data, source)
    elif prism.recognises(head):
        return Model(chain=prism.read_prism(text, source))
    raise InvalidModel(
        "not a model or chain in a format that can be read", source=source
    )
