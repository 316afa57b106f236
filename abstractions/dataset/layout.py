"""The storage format of traces in columns: names, types and metadata of runs.

Each row is a frame. The columns are `run`, `sequence`, `time_s`, one column for each
signal, and the fields of a frame's note. None is stored as null. If some frames lack a
signal, the column `known.SIGNAL` marks the frames that contain it. The metadata of runs
is stored as JSON in the metadata of the file, under the name of the format.
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
"""The maximum number of rows in a row group; a run that fits is not split."""

VALUES = 1 << 26
"""The maximum number of values in a row group, which limits its rows if a run has many
signals.
"""

NOTES = ("proposal", "executed", "tool_output", "interventions")
"""The fields of a note except its label; each is stored as a column of JSON."""

LABEL = "label"
UNLABELLED = "unlabelled"
"""The stored label of a note without a label; a frame without a note has null."""

_OWN = frozenset(("run", "sequence", "time_s", LABEL, *NOTES))
_SIGNAL, _KNOWN = "signal.", "known."

Kind = Literal["nothing", "truth", "whole", "number", "word", "json"]
"""The kind of a column's values; `json` if they are not all of one kind."""


def parquet() -> Any:
    """Returns the module `pyarrow.parquet`; raises `MissingDependency` if it is not
    installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependency("the columnar trace format", "fleet") from error
    return pyarrow.parquet


def is_installed() -> bool:
    """Whether pyarrow, which stores traces in columns, is installed."""
    from importlib.util import find_spec

    return find_spec("pyarrow") is not None


def column_of(signal: str) -> str:
    """Returns the name of a signal's column: the signal's name, prefixed if that name
    is reserved.
    """
    taken = signal in _OWN or signal.startswith((_SIGNAL, _KNOWN))
    return _SIGNAL + signal if taken else signal


def known_of(signal: str) -> str:
    """Returns the name of the column that marks the frames that contain a signal."""
    return _KNOWN + signal


def known_signal(column: str) -> str | None:
    """Returns the signal that a `known.SIGNAL` column is about; None for other
    columns.
    """
    known = column.startswith(_KNOWN)
    return column.removeprefix(_KNOWN) if known else None


def signal_of(column: str) -> str | None:
    """Returns the signal stored in a column; None for columns that do not store a
    signal.
    """
    if column in _OWN or column.startswith(_KNOWN):
        return None
    return column.removeprefix(_SIGNAL)


@cache
def type_of(kind: Kind) -> pa.DataType:
    """Returns the Arrow type in which a kind is stored."""
    import pyarrow as pa

    return {
        "nothing": pa.null(),
        "truth": pa.bool_(),
        "whole": pa.int64(),
        "number": pa.float64(),
        "word": pa.dictionary(pa.int32(), pa.string()),
        "json": pa.string(),
    }[kind]


# If pandas is installed, `pyarrow.array` and `to_numpy` import it, which takes longer
# than most commands. The following functions avoid this import.


def array_of(
    values: NDArray[Any], stored: pa.DataType, mask: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Converts numbers or Booleans to an Arrow array; `mask` marks null values."""
    import pyarrow as pa

    truth = pa.types.is_boolean(stored)
    data = _bits(values) if truth else pa.py_buffer(np.ascontiguousarray(values))
    there = None if mask is None else _bits(~mask)
    return pa.Array.from_buffers(stored, len(values), [there, data])


def texts_of(values: Sequence[str | None]) -> pa.Array:
    """Converts texts to an Arrow array; None becomes null."""
    import pyarrow as pa

    pieces = [b"" if value is None else value.encode() for value in values]
    # Offsets are int32, so this raises an error for texts of more than 2 GiB.
    ends = np.array([0, *accumulate(map(len, pieces))], np.int32)
    there = None
    if None in values:
        there = _bits(np.array([value is not None for value in values], np.bool_))
    buffers = [there, pa.py_buffer(ends), pa.py_buffer(b"".join(pieces))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _bits(truth: NDArray[np.bool_]) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(np.packbits(truth, bitorder="little"))


def values_of(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Returns the values and the null mask from which `array_of` made an array.

    Masked values are arbitrary.
    """
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
    """Returns the kind that an Arrow type stores; raises `InvalidTrace` if there is
    none.
    """
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
        raise InvalidTrace(f"a column of type {stored} cannot be read as a signal")
    return kinds[stored]


_TYPES: dict[str, Kind] = {"number": "number", "bool": "truth", "enum": "word"}


def declared_kind(vocabulary: Vocabulary | None, signal: str) -> Kind | None:
    """Returns the kind of a signal; None if the vocabulary does not declare the
    signal.
    """
    if vocabulary is None or not vocabulary.knows(signal):
        return None
    declared = vocabulary.signals.get(signal)
    return "truth" if declared is None else _TYPES[declared.type]


def common_kind(kinds: Iterable[Kind]) -> Kind:
    """Returns the most specific kind that can store values of all given kinds."""
    found = set(kinds) - {"nothing"}
    if not found:
        return "nothing"
    if found == {"whole", "number"}:
        return "number"
    return found.pop() if len(found) == 1 else "json"


@cache
def _shipped_digest(name: str) -> str:
    # The digest covers the content, because files contain only the name of a built-in
    # vocabulary.
    return _digest_of(embedded(load_vocabulary(name)))


def _digest_of(content: Any) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The metadata of a run, as stored in a file.

    Args:
        name: The name of the run, unique in the dataset.
        frames: The number of rows.
        header: The trace header of the run.
        digest: The SHA-256 digest of the run's content, independent of the file.
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
    """The metadata of all runs as columns with one value per run, to save space."""

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
    """The metadata of a file.

    Args:
        runs: The runs in the file, in the order of their rows.
        vocabularies: The content of the vocabularies that are not built in, by name.
    """

    runs: tuple[RunFacts, ...]
    vocabularies: Mapping[str, Any] = field(default_factory=dict)

    def dumped(self) -> bytes:
        """Returns the metadata as JSON, for storage in a file."""
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
        """Returns the vocabulary with this name, as stored in the file at `path`."""
        if name is None:
            return None
        content = self.vocabularies.get(name)
        if content is not None:
            return vocabulary_from(content, f"{path}: vocabulary {name}")
        return named_vocabulary(name, str(path), path.parent)

    @classmethod
    def loaded(cls, metadata: bytes, source: str) -> PartFacts:
        """Parses the metadata that `dumped` returned.

        Raises:
            InvalidTrace: The metadata is invalid.
        """
        content = parse_json(metadata.decode("utf-8", "replace"), source)
        file = validated(_Facts, content, source, InvalidTrace)
        headers = [
            TraceHeader(**each.model_dump() | {"provides": tuple(each.provides)})
            for each in file.headers
        ]
        told = file.runs
        for name in told.name:
            if Path(name).name != name or name[:1] in ("", ".") or "\0" in name:
                problem = f"{name!r:.60} cannot be the name of a run"
                raise InvalidTrace(problem, source=source)
        if len(set(told.name)) < len(told.name):
            raise InvalidTrace("two runs in the file have the same name", source=source)
        try:
            each = zip(
                told.name, told.frames, told.header, told.seed, told.digest, strict=True
            )
            runs = [
                RunFacts(name, frames, replace(headers[number], seed=seed), digest)
                for name, frames, number, seed, digest in each
            ]
        except IndexError:
            raise InvalidTrace(
                "a run refers to a header that does not exist", source=source
            ) from None
        except ValueError:
            raise InvalidTrace(
                "the metadata of the runs is incomplete: its columns have "
                "different lengths",
                source=source,
            ) from None
        return cls(tuple(runs), file.vocabularies)
