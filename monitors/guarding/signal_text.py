"""Signals as JSON, quickly: most of a frame's are those of the frame before.

A run record writes all signals of every frame. To find the digits of a float takes
longer than to hash them, so a signal's text is kept until its value changes, and the
digits of all that changed are found in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

from pydantic_core import to_json

_digits = float.__repr__

_LEAST, _MOST = 1e-4, 1e16
"""Between these nobody writes a float with an exponent, so that all write it alike."""

_LASTING = frozenset({float, int, bool, str, type(None)})
"""Types whose values cannot change and still be the same object."""


class SignalText:
    """Says what a JSON encoder without blanks would, byte for byte.

    It keeps one frame's signals and texts, whatever came before.

    Args:
        encode: That encoder, which does what is not done here.
    """

    def __init__(self, encode: Callable[[Any], str]) -> None:
        self._encode = encode
        self._begin(())

    def _begin(self, names: tuple[str, ...]) -> None:
        """Forgets the last frame, whose signals were others."""
        self._labels = [f"{encode_basestring_ascii(name)}:" for name in names]
        self._names = names
        self._values: list[Any] = [_NOTHING] * len(names)
        self._texts = [""] * len(names)

    def __call__(self, signals: Mapping[str, Any]) -> str:
        """The signals as an object.

        Raises:
            TypeError: A name is no string, or a value nothing that JSON has.
            ValueError: A value is no finite number.
        """
        names = tuple(signals)
        if names != self._names:
            self._begin(names)
        values, texts, labels, i = self._values, self._texts, self._labels, -1
        places: list[int] = []
        floats: list[float] = []
        for value, last in zip(signals.values(), values, strict=True):
            i += 1
            kind = type(value)
            # Zeros are equal and differ in their sign.
            if value is last or (value == last != 0 and kind is type(last)):
                continue
            if kind is float and (_LEAST <= abs(value) < _MOST or not value):
                places.append(i)
                floats.append(value)
                continue
            values[i] = _NOTHING
            finite = kind is float and value - value == 0
            texts[i] = labels[i] + (_digits(value) if finite else self._encode(value))
            if kind in _LASTING:
                values[i] = value
        digits = to_json(floats)[1:-1].decode().split(",")
        # Without any there is one text, which is empty and belongs to none.
        for i, value, text in zip(places, floats, digits, strict=False):
            values[i] = value
            texts[i] = labels[i] + text
        return f"{{{','.join(texts)}}}"


_NOTHING = object()
"""No signal's value."""
