"""The values of run records as JSON that every reader accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

from pydantic_core import to_json

from forewarn.monitors.guarding.decision import CUT

MOST_BITS = 1024
"""Larger whole numbers are recorded as hexadecimal text."""


def encodable(value: Any) -> Any:
    """Returns a value as JSON that every reader accepts, and that `decoded` converts
    back.

    Values that JSON cannot represent, or that some readers reject, get a key that
    begins with `$`.
    """
    match value:
        case None | bool():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": repr(value)}
        case int():
            return value if value.bit_length() <= MOST_BITS else {"$int": hex(value)}
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                return {"$text": value.encode("utf-16-le", "surrogatepass").hex()}
            return value
        case Mapping() if all(map(_is_key, value)):
            return {key: encodable(item) for key, item in value.items()}
        case Mapping():
            return {"$pairs": [[encodable(k), encodable(v)] for k, v in value.items()]}
        case list() | tuple():
            return [encodable(item) for item in value]
    try:
        return {"$repr": repr(value)[:200]}
    except Exception:
        return {"$repr": f"<{type(value).__name__}>"}


class Opaque:
    """A recorded value that JSON cannot represent, with the text of the original."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def decoded(value: Any) -> Any:
    """Restores a value from the result of `encodable`."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, said),) = value.items()
        match key:
            case "$float":
                return float(said)
            case "$int":
                return int(said, 16)
            case "$text":
                return bytes.fromhex(said).decode("utf-16-le", "surrogatepass")
            case "$repr":
                return Opaque(str(said))
            case "$pairs":
                return {_hashable(decoded(k)): decoded(v) for k, v in said}
    return {key: decoded(item) for key, item in value.items()}


def _hashable(key: Any) -> Any:
    """Returns the key of a mapping, with lists from JSON as tuples."""
    if isinstance(key, list):
        return tuple(map(_hashable, key))
    return Opaque(str(key)) if isinstance(key, dict) else key


def _is_key(key: object) -> bool:
    """Whether a key of a mapping can be written to JSON unchanged."""
    if key == CUT:
        return True
    return isinstance(key, str) and not key.startswith("$") and is_plain(key)


def is_plain(value: object) -> bool:
    """Whether a value is unchanged by a round trip through JSON."""
    match value:
        case None | bool():
            return True
        case float():
            return math.isfinite(value)
        case int():
            return value.bit_length() <= MOST_BITS
        case str():
            return value.isascii()
    return False


def all_plain(values: Mapping[str, Any]) -> bool:
    return all(map(_is_key, values)) and all(map(is_plain, values.values()))


_digits = float.__repr__

_LEAST, _MOST = 1e-4, 1e16
"""Between these limits, no encoder writes a float with an exponent, so all texts agree.
"""

_LASTING = frozenset({float, int, bool, str, type(None)})
"""Immutable types: a value that is the same object as before has not changed."""


class SignalText:
    """Encodes signals to the same bytes as a compact JSON encoder.

    The signals and texts of the last frame are cached.

    Args:
        encode: The JSON encoder for values other than finite floats.
    """

    def __init__(self, encode: Callable[[Any], str]) -> None:
        self._encode = encode
        self._begin(())

    def _begin(self, names: tuple[str, ...]) -> None:
        """Clears the cache of the last frame, which had other signals."""
        self._labels = [f"{encode_basestring_ascii(name)}:" for name in names]
        self._names = names
        self._values: list[Any] = [_NOTHING] * len(names)
        self._texts = [""] * len(names)

    def __call__(self, signals: Mapping[str, Any]) -> str:
        """Encodes the signals as a JSON object.

        Raises:
            TypeError: A name is not a string, or a value is not a JSON value.
            ValueError: A value is not a finite number.
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
            # 0.0 and -0.0 are equal, but differ as text.
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
        # Without floats, there is one empty text, which belongs to no value.
        for i, value, text in zip(places, floats, digits, strict=False):
            values[i] = value
            texts[i] = labels[i] + text
        return f"{{{','.join(texts)}}}"


_NOTHING = object()
"""A marker that is not the value of any signal."""
