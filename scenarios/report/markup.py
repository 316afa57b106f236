"""HTML and SVG, built so that no text becomes markup."""

from __future__ import annotations

from html import escape
from typing import Any

from forewarn.abstractions.errors import clean


class Markup(str):
    """Text that is markup already; everything else is escaped when it is put in."""

    __slots__ = ()


_VOID = frozenset(("br", "hr", "img", "input", "link", "meta"))


def tag(name: str, *children: object, **attributes: Any) -> Markup:
    """An element.

    Args:
        name: Its tag.
        children: What stands in it: markup as it is, anything else as text.
        attributes: Underscores stand for hyphens, one at the end for nothing; None and
            False leave an attribute out, True gives it no value.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{_text(value)}"')
    parts.append(">")
    if name not in _VOID:
        parts += [put(child) for child in children]
        parts.append(f"</{name}>")
    return Markup("".join(parts))


def put(child: object) -> Markup:
    """Markup as it is, anything else as text; None as nothing."""
    if child is None:
        return Markup("")
    return child if isinstance(child, Markup) else Markup(_text(child))


def joined(*parts: object) -> Markup:
    """Parts one after the other."""
    return Markup("".join(put(part) for part in parts))


def _text(value: object) -> str:
    return escape(clean(str(value)), quote=True)
