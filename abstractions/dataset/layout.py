"""How traces are stored in columns: names, types, and metadata of the runs.

A row is a frame. Its columns are `run`, `sequence` and `time_s`, the signals under
their own names, and the fields of a frame's note. None is null. If a signal is absent
from some frames, a column `known.SIGNAL` marks the frames that have it. Facts about
whole runs are stored as JSON in the file's metadata, under the name of the format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from forewarn.abstractions.errors import InvalidTrace, MissingDependency
from forewarn.abstractions.files import parse_json
from forewarn.abstractions.serial import Strict, validated
from forewarn.abstractions.trace import TraceHeader, header_keys
from forewarn.abstractions.vocabularies.vocabulary import (
    SHIPPED,
    Vocabulary,
    embedded,
    load_vocabulary,
    named_vocabulary,
    vocabulary_from,
)

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "forewarn.traces/1"
SUFFIX = ".parquet"

ROWS = 1 << 17
"""The maximum number of rows in a row group, which contains whole runs if they fit."""

VALUES = 1 << 26
"""The maximum number of values in a row group; with many signals, it has fewer rows."""

NOTES = ("proposal", "executed", "tool_output", "interventions")
"""The fields of a note besides its label; each is a column of JSON."""

LABEL = "label"
UNLABELLED = "unlabelled"
"""The label of a note that has none; a frame without a note has a null there."""

_OWN = frozenset(("run", "sequence", "time_s", LABEL, *NOTES))
_SIGNAL, _KNOWN = "signal.", "known."

Kind = Literal["nothing", "truth", "whole", "number", "word", "json"]
"""The kind of a signal's values; `json` if the values have several kinds."""


def parquet() -> Any:
    """pyarrow's Parquet module, if it is installed."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependency("traces in columns", "fleet") from error
    return pyarrow.parquet


def is_installed() -> bool:
    """Whether this installation can store traces in columns."""
    from importlib.util import find_spec

    return find_spec("pyarrow") is not None


def column_of(signal: str) -> str:
    """The name of a signal's column: its own, unless that is taken."""
    taken = signal in _OWN or signal.startswith((_SIGNAL, _KNOWN))
    return _SIGNAL + signal if taken else signal


def known_of(signal: str) -> str:
    """The name of the column that marks the frames in which a signal is present."""
    return _KNOWN + signal


def known_signal(column: str) -> str | None:
    """The signal whose presence a column records; None for other columns."""
    known = column.startswith(_KNOWN)
    return column.removeprefix(_KNOWN) if known else None


def signal_of(column: str) -> str | None:
    """The signal that a column holds; None for Forewarn's own columns."""
    if column in _OWN or column.startswith(_KNOWN):
        return None
    return column.removeprefix(_SIGNAL)


@cache
def type_of(kind: Kind) -> pa.DataType:
    """The storage type of a kind."""
    import pyarrow as pa

    return {
        "nothing": pa.null(),
        "truth": pa.bool_(),
        "whole": pa.int64(),
        "number": pa.float64(),
        "word": pa.dictionary(pa.int32(), pa.string()),
        "json": pa.string(),
    }[kind]


# `pyarrow.array` and `to_numpy` import pandas wherever it is installed, which takes
# longer than most commands: these do the same without it.


def array_of(
    values: NDArray[Any], stored: pa.DataType, mask: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Numbers or truth values as an array; the mask marks values of `none`."""
    import pyarrow as pa

    truth = pa.types.is_boolean(stored)
    data = _bits(values) if truth else pa.py_buffer(np.ascontiguousarray(values))
    there = None if mask is None else _bits(~mask)
    return pa.Array.from_buffers(stored, len(values), [there, data])


def texts_of(values: Sequence[str | None]) -> pa.Array:
    """Texts as an array; some texts may be none."""
    import pyarrow as pa

    pieces = [b"" if value is None else value.encode() for value in values]
    ends = np.array([0, *accumulate(map(len, pieces))], np.int32)  # fails beyond 2 GiB
    there = None
    if None in values:
        there = _bits(np.array([value is not None for value in values], np.bool_))
    buffers = [there, pa.py_buffer(ends), pa.py_buffer(b"".join(pieces))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _bits(truth: NDArray[np.bool_]) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(np.packbits(truth, bitorder="little"))


def values_of(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """The inverse of `array_of`: where the mask holds, the value is arbitrary."""
    import pyarrow as pa

    there, data = array.buffers()
    begin, count = array.offset, len(array)
    stored = str(array.type)
    named = {"double": "float64"}.get(stored, stored)
    values: NDArray[Any]
    if not count:
        values = np.empty(0, named)
    elif pa.types.is_boolean(array.type):
        values = _truth(data, begin, count)
    else:
        values = np.frombuffer(data, named)[begin : begin + count]
    return values, ~_truth(there, begin, count) if array.null_count else None


def _truth(buffer: pa.Buffer, begin: int, count: int) -> NDArray[np.bool_]:
    first = begin // 8
    held = np.frombuffer(buffer, np.uint8)[first : (begin + count + 7) // 8]
    bits = np.unpackbits(held, bitorder="little")[begin - 8 * first :]
    return bits[:count].astype(np.bool_)


@cache
def kind_of(stored: pa.DataType) -> Kind:
    """The kind that is stored this way."""
    import pyarrow as pa

    if pa.types.is_dictionary(stored):
        return "word"
    kinds: dict[pa.DataType, Kind] = {
        pa.null(): "nothing",
        pa.bool_(): "truth",
        pa.int64(): "whole",
        pa.float64(): "number",
        pa.string(): "json",
    }
    if stored not in kinds:
        raise InvalidTrace(f"a column of {stored} is not a signal")
    return kinds[stored]


_TYPES: dict[str, Kind] = {"number": "number", "bool": "truth", "enum": "word"}


def declared_kind(vocabulary: Vocabulary | None, signal: str) -> Kind | None:
    """The kind of a signal, if its vocabulary declares it."""
    if vocabulary is None or not vocabulary.knows(signal):
        return None
    declared = vocabulary.signals.get(signal)
    return "truth" if declared is None else _TYPES[declared.type]


def common_kind(kinds: Iterable[Kind]) -> Kind:
    """The kind that can hold the values of several kinds."""
    found = set(kinds) - {"nothing"}
    if not found:
        return "nothing"
    if found == {"whole", "number"}:
        return "number"
    return found.pop() if len(found) == 1 else "json"


@cache
def _shipped_digest(name: str) -> str:
    # All of it: of one that ships a file gives no more than the name.
    return _digest_of(embedded(load_vocabulary(name)))


def _digest_of(content: Any) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A file's metadata about one of its runs.

    Args:
        name: Its name, unique in the dataset.
        frames: The number of rows.
        header: The facts about the whole run.
        digest: The SHA-256 of its content, independent of the file.
    """

    name: str
    frames: int
    header: TraceHeader
    digest: str


class _Header(Strict):
    vocabulary: str | None
    provides: list[str]
    period_s: float | None
    scenario: str
    source: str
    guarded: bool


class _Runs(Strict):
    """Each has one value per run; there may be thousands of runs."""

    name: list[str]
    frames: list[NonNegativeInt]
    header: list[NonNegativeInt]
    seed: list[int | None]
    digest: list[str]


class _Facts(Strict):
    format: Literal["forewarn.traces/1"]
    vocabularies: dict[str, Any]
    vocabulary_digests: dict[str, str]
    headers: list[_Header]
    runs: _Runs


@dataclass(frozen=True, slots=True)
class PartFacts:
    """A file's metadata.

    Args:
        runs: The runs in the file, in the order of their rows.
        vocabularies: The runs' own vocabularies by name, as their files describe them.
    """

    runs: tuple[RunFacts, ...]
    vocabularies: Mapping[str, Any] = field(default_factory=dict)

    def dumped(self) -> bytes:
        """The facts as stored in the file's metadata."""
        headers: dict[str, int] = {}
        numbers = []
        for run in self.runs:
            shared = header_keys(run.header)
            del shared["seed"]
            numbers.append(headers.setdefault(json.dumps(shared), len(headers)))
        named = {run.header.vocabulary for run in self.runs} - {None}
        content = {
            "format": FORMAT,
            "vocabularies": dict(self.vocabularies),
            "vocabulary_digests": {
                name: self._digest(name) for name in sorted(filter(None, named))
            },
            "headers": [json.loads(text) for text in headers],
            "runs": {
                "name": [run.name for run in self.runs],
                "frames": [run.frames for run in self.runs],
                "header": numbers,
                "seed": [run.header.seed for run in self.runs],
                "digest": [run.digest for run in self.runs],
            },
        }
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()

    def _digest(self, name: str) -> str:
        content = self.vocabularies.get(name)
        if content is None and name in SHIPPED:
            return _shipped_digest(name)
        return _digest_of(content)

    def vocabulary(self, name: str | None, path: Path) -> Vocabulary | None:
        """The vocabulary of that name, as stored in the file at `path`."""
        if name is None:
            return None
        content = self.vocabularies.get(name)
        if content is not None:
            return vocabulary_from(content, f"{path}: vocabulary {name}")
        return named_vocabulary(name, str(path), path.parent)

    @classmethod
    def loaded(cls, metadata: bytes, source: str) -> PartFacts:
        """Reads the facts from a file's metadata.

        Raises:
            InvalidTrace: The metadata was not written by `dumped`.
        """
        content = parse_json(metadata.decode("utf-8", "replace"), source)
        file = validated(_Facts, content, source, InvalidTrace)
        headers = [
            TraceHeader(
                each.vocabulary, tuple(each.provides), each.period_s, each.scenario,
                None, each.source, each.guarded,
            )
            for each in file.headers
        ]  # fmt: skip
        told = file.runs
        for name in told.name:
            if Path(name).name != name or name[:1] in ("", ".") or "\0" in name:
                problem = f"{name!r:.60} cannot be the name of a run"
                raise InvalidTrace(problem, source=source)
        if len(set(told.name)) < len(told.name):
            raise InvalidTrace("two runs have the same name", source=source)
        try:
            each = zip(
                told.name, told.frames, told.header, told.seed, told.digest, strict=True
            )
            runs = [
                RunFacts(name, frames, replace(headers[number], seed=seed), digest)
                for name, frames, number, seed, digest in each
            ]
        except IndexError:
            raise InvalidTrace("a run has no header", source=source) from None
        except ValueError:
            raise InvalidTrace(
                "a run's metadata is incomplete", source=source
            ) from None
        return cls(tuple(runs), file.vocabularies)
