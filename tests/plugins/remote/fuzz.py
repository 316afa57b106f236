"""Random conversations: nearly right, wrong, and nonsense, all from a seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from forewarn.plugins.remote.messages import MAX_BYTES, framed
from tests.plugins.remote.serving import CALM, RISKY, frame, hello

NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, 1e308, -1e308, 5e-324, 10**25, 10**400, 1 << 63,
    "", "x", "red", "\x00", "\u202e", "\ud800", "NaN", "9" * 5000, [], [[]], {},
    {"a": {}}, [None] * 50,
)  # fmt: skip
TEXTS = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 5000, b"\xff\xfe", b"\x00",
    b"[" * 3000, b'{"a":' * 3000, b'{"a":1,"a":2}', b"{}", b"[]", b"null", b'"', b"",
    b"\xef\xbb\xbf{}", b"\xed\xa0\x80",
)  # fmt: skip


def conversation(luck: Random) -> list[bytes]:
    """The pieces of a stream, as they arrive."""
    stream = b"".join(_messages(luck))
    damage = luck.random()
    if damage < 0.1 and stream:
        stream = stream[: luck.randrange(len(stream))]
    elif damage < 0.2 and stream:
        at = luck.randrange(len(stream))
        stream = stream[:at] + luck.randbytes(luck.randrange(1, 9)) + stream[at:]
    elif damage < 0.25:
        stream = luck.randbytes(luck.randrange(200))
    elif damage < 0.3:
        stream += luck.choice((0xFFFFFFFF, MAX_BYTES + 1, 0)).to_bytes(4, "big")
    pieces: list[bytes] = []
    while stream:
        size = luck.choice((1, 3, 64, 1 << 16))
        pieces.append(stream[:size])
        stream = stream[size:]
    return pieces


def _messages(luck: Random) -> Iterator[bytes]:
    if luck.random() < 0.9:
        yield framed(hello() if luck.random() < 0.8 else _spoilt(hello(), luck))
    for sequence in range(luck.randrange(5)):
        if luck.random() < 0.1:
            sequence = luck.choice((0, 3, 10**6))
        plain = frame(sequence, luck.choice((CALM, RISKY)))
        yield framed(plain if luck.random() < 0.5 else _spoilt(plain, luck))


def _spoilt(message: bytes, luck: Random) -> bytes:
    spoil: Callable[[bytes, Random], bytes] = luck.choice((_value, _text, _bytes))
    return spoil(message, luck)


def _value(message: bytes, luck: Random) -> bytes:
    content = json.loads(message)
    target = content
    if "signals" in content and luck.random() < 0.6:
        target = content["signals"]
    key = luck.choice([*target, "other", "proposal"])
    if luck.random() < 0.2:
        target.pop(key, None)
    else:
        target[key] = luck.choice(NASTY)
    return json.dumps(content).encode()


def _text(message: bytes, luck: Random) -> bytes:
    at = luck.randrange(len(message))
    end = at + luck.randrange(8)
    return message[:at] + luck.choice(TEXTS) + message[end:]


def _bytes(message: bytes, luck: Random) -> bytes:
    spoilt = bytearray(message)
    for _ in range(luck.randrange(1, 6)):
        spoilt[luck.randrange(len(spoilt))] = luck.randrange(256)
    return bytes(spoilt)
