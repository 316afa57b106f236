"""Encodes pictures that a world renders, small enough to be stored with a run."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from typing import Any

import numpy as np

MAX_SIDE = 320
"""The maximum length in pixels of a picture's longer side."""
PERIOD_S = 0.1
"""The time in seconds between two pictures of a run."""
MAX_RUN_CHARS = 4_000_000
"""The maximum number of characters of all pictures of a run."""

_MAGIC = b"\x89PNG\r\n\x1a\n"
_HEAD = _MAGIC + b"\x00\x00\x00\x0dIHDR"


def encoded(pixels: Any) -> str:
    """Encodes a picture as a PNG in base64, with reduced size and fewer colours.

    Raises:
        ValueError: The pixels are not rows of red, green and blue bytes.
    """
    image = np.asarray(pixels)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ValueError(f"not an RGB image: {image.dtype} with shape {image.shape}")
    if not image.size:
        raise ValueError("the picture is empty")
    factor = -(-max(image.shape[:2]) // MAX_SIDE)
    high, wide = (max(1, side // factor) for side in image.shape[:2])
    if min(image.shape[:2]) >= factor:
        blocks = image[: high * factor, : wide * factor]
        blocks = blocks.reshape(high, factor, wide, factor, 3)
        image = blocks.mean(axis=(1, 3)).astype(np.uint8)
    else:
        image = image[::factor, ::factor][:high, :wide]
    high, wide = image.shape[:2]
    rows = np.zeros((high, 1 + 3 * wide), np.uint8)  # byte 0 of a row: filter type
    rows[:, 1:] = (image // 16 * 17).reshape(high, -1)
    header = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    parts = (
        (b"IHDR", header),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    data = _MAGIC + b"".join(_chunk(*part) for part in parts)
    return base64.b64encode(data).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


def checked(text: Any) -> str:
    """Checks a picture from a file, and returns it.

    Raises:
        ValueError: The picture is not a valid PNG in base64, or it is too large.
    """
    if not isinstance(text, str):
        raise ValueError("a picture must be a string")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a picture is not valid base64") from None
    if not data.startswith(_HEAD) or len(data) < len(_HEAD) + 8:
        raise ValueError("a picture must be a PNG")
    if max(struct.unpack_from(">II", data, len(_HEAD))) > MAX_SIDE:
        # A few bytes can decompress to gigabytes in the browser.
        raise ValueError(f"a picture has more than {MAX_SIDE} pixels on a side")
    return text
