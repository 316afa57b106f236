"""Many runs of numbers: a few are held in memory, more lie on the disk."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile
from weakref import finalize

import numpy as np
from numpy.typing import DTypeLike, NDArray

HELD_BYTES = 1 << 26
"""What is held in memory; where there is more, all of it lies in a temporary file."""


class Spool:
    """Runs of numbers, which grow and are then gone through.

    Args:
        kind: What numbers they are.
    """

    def __init__(self, kind: DTypeLike = np.int64) -> None:
        self._kind = np.dtype(kind)
        self._file = SpooledTemporaryFile(max_size=HELD_BYTES)
        finalize(self, self._file.close)
        self._lengths = array("q")
        self.size = 0

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._lengths)

    def add(self, numbers: NDArray[np.integer], lengths: Iterable[int]) -> None:
        """Appends runs, one after the other."""
        self._file.seek(0, 2)
        self._file.write(numbers.astype(self._kind).tobytes())
        self._lengths.extend(lengths)
        self.size += len(numbers)

    def runs(self, every: int = 1) -> Iterator[NDArray[np.integer]]:
        """The runs, or one in so many of them."""
        at = 0
        for number, length in enumerate(self._lengths):
            size = length * self._kind.itemsize
            if number % every == 0:
                self._file.seek(at)
                yield np.frombuffer(self._file.read(size), self._kind)
            at += size
