"""UMB, the binary archive format of PRISM and Storm, read with the package `umbi`.

Variables are packed and unpacked here, because umbi does not read bounds and offsets.
State names are stored in an additional file, which other tools ignore.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import lzma
import re
import tarfile
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from forewarn import __version__
from forewarn.abstractions.errors import (
    ForewarnError,
    InvalidModel,
    MissingDependency,
    TooLarge,
)
from forewarn.abstractions.files import MAX_TEXT_BYTES, parse_json
from forewarn.monitors.chains.chain import Chain, check_size
from forewarn.monitors.chains.formats.rows import Valuation, from_valuations, settled

_INDEX = "index.json"
_VALUATIONS = "valuations/states/valuations.bin"
_NAMES = "forewarn/states.json"
_UNHEARD = logging.NullHandler()
_XZ = b"\xfd7zXZ\x00"


def recognises(data: bytes) -> bool:
    """Whether the (gunzipped) bytes are an archive that could be UMB."""
    return data[257:262] == b"ustar" or data.startswith((_XZ, b"BZh"))


def read_umb(data: bytes, source: str = "") -> Chain:
    """Reads the chain from the bytes of a decompressed archive."""
    try:
        return _read(data, source)
    except ForewarnError:
        raise
    except Exception as error:  # malformed files raise many types of errors
        raise InvalidModel(f"not a valid UMB file: {error}", source=source) from error


def _read(data: bytes, source: str) -> Chain:
    files = _unpacked(data, source)
    index = _index(files, source)
    system = index["transition-system"]
    check_size(system["#states"], system["#branches"], source)
    if system.get("time") != "discrete" or system.get("#players"):
        raise InvalidModel("this is not a discrete-time Markov chain", source=source)
    labels = (index.get("annotations") or {}).get("aps")
    plain = index | {"annotations": {"aps": labels} if labels else {}}
    plain.pop("valuations", None)
    umb = _decoded(files | {_INDEX: json.dumps(plain).encode()}, source)
    return _chain(umb, index, files)


def _umbi() -> Any:
    try:
        import umbi.umb
    except ImportError:
        raise MissingDependency("the UMB format", "umb") from None
    # umbi also logs what it raises; without a handler, this is printed on the terminal.
    logging.getLogger("umbi").addHandler(_UNHEARD)
    return umbi


def _unpacked(data: bytes, source: str) -> dict[str, bytes]:
    """The archive's files, read into memory within the size limit."""
    try:
        if data.startswith(_XZ):
            data = lzma.LZMADecompressor().decompress(data, MAX_TEXT_BYTES + 1)
        files: dict[str, bytes] = {}
        size = 0
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                size += max(member.size, 0)
                if size > MAX_TEXT_BYTES:
                    limit = f"the archive is larger than {MAX_TEXT_BYTES} bytes"
                    raise TooLarge(limit, source=source)
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    files[member.name] = content.read()
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise InvalidModel(f"not a UMB archive: {error}", source=source) from error
    return files


def _index(files: Mapping[str, bytes], source: str) -> dict[str, Any]:
    try:
        text = files[_INDEX].decode()
    except (KeyError, UnicodeDecodeError):
        raise InvalidModel(f"the archive has no {_INDEX}", source=source) from None
    index = parse_json(text, source, _INDEX)
    system = index.get("transition-system") if isinstance(index, dict) else None
    if not isinstance(system, dict) or not all(
        isinstance(system.get(key), int) for key in ("#states", "#branches")
    ):
        raise InvalidModel(
            f"{_INDEX} does not describe a transition system", source=source
        )
    found: dict[str, Any] = index
    return found


def _decoded(files: Mapping[str, bytes], source: str) -> Any:
    """Decodes the files with umbi, without the valuations."""
    module = _umbi().umb.umb_to_tar
    decoder, umb = module.UmbDecoder(), _umbi().umb.ExplicitUmb()
    decoder.update(files)
    try:
        decoder.read_index_file(umb)
        decoder.read_state_files(umb)
        decoder.read_transition_files(umb)
        decoder.read_annotation_files(umb)
    except Exception as error:  # umbi raises many types of errors
        raise InvalidModel(f"not a valid UMB file: {error}", source=source) from error
    return umb


def _chain(umb: Any, index: dict[str, Any], files: Mapping[str, bytes]) -> Chain:
    n = index["transition-system"]["#states"]
    choices = umb.state_to_choices or list(range(n + 1))
    branches, targets = umb.choice_to_branches, umb.branch_to_target
    weights = umb.branch_to_probability
    states, variables = _states(index, files, n)
    rows: dict[int, dict[int, Fraction | float]] = {}
    for state in range(n):
        first, last = choices[state], choices[state + 1]
        if last - first > 1:
            raise InvalidModel(
                f"state {state} has several actions, so the model is not a Markov chain"
            )
        if first == last:
            continue
        row: dict[int, Fraction] = {}
        for at in range(branches[first], branches[first + 1]):
            weight = Fraction(1) if weights is None else weights[at]
            if not isinstance(weight, int | Fraction) and not np.isfinite(weight):
                raise InvalidModel(
                    f"a transition of state {state} has probability {weight}, "
                    "which is not finite"
                )
            row[targets[at]] = row.get(targets[at], Fraction()) + Fraction(weight)
        rows[state] = settled(row, states[state])
    if weights is not None and not all(isinstance(w, int | Fraction) for w in weights):
        rows = {i: {j: float(p) for j, p in row.items()} for i, row in rows.items()}
    initial = [i for i, marked in enumerate(umb.state_is_initial) if marked]
    if len(initial) > 1:
        raise InvalidModel(f"{len(initial)} initial states; at most one is supported")
    return Chain.from_rows(
        states,
        rows,
        initial=initial[0] if initial else None,
        labels=_labels(umb),
        variables=variables,
    )


def _states(
    index: dict[str, Any], files: Mapping[str, bytes], n: int
) -> tuple[Sequence[str], Mapping[str, NDArray[np.int64]]]:
    own = _own_names(files, n)
    described = (index.get("valuations") or {}).get("states")
    names: Sequence[str] = own or [str(i) for i in range(n)]
    if not described or _VALUATIONS not in files:
        return names, {}
    (fields,) = (kind["variables"] for kind in described["classes"])
    valuations = unpacked_bits(files[_VALUATIONS], fields, n)
    from_variables, variables = from_valuations(valuations)
    return own or from_variables, variables


def _labels(umb: Any) -> dict[str, frozenset[int]]:
    labels: dict[str, frozenset[int]] = {}
    for key, values in (umb.annotations or {}).get("aps", {}).items():
        name = umb.index.annotations["aps"][key].alias or key
        if "states" in values and name not in ("init", "deadlock"):
            members = (i for i, holds in enumerate(values["states"]) if holds)
            labels[name] = frozenset(members)
    return labels


def _own_names(files: Mapping[str, bytes], n: int) -> list[str] | None:
    if _NAMES not in files:
        return None
    names = parse_json(files[_NAMES].decode(), "", _NAMES)
    if not isinstance(names, list) or len(names) != n:
        raise InvalidModel(f"{_NAMES} does not have a name for each of the {n} states")
    return list(map(str, names))


def unpacked_bits(
    data: bytes, fields: Sequence[Mapping[str, Any]], n: int
) -> list[Valuation]:
    """The variables of every state, from a struct of little-endian bit fields."""
    width = sum(f.get("padding") or f["type"].get("size", 1) for f in fields)
    if width % 8 or len(data) != n * width // 8:
        raise InvalidModel("the state valuations have the wrong size")
    table = np.frombuffer(data, np.uint8).reshape(n, width // 8)
    bits = np.unpackbits(table, axis=1, bitorder="little").astype(np.int64)
    columns: list[list[tuple[str, int, bool]]] = []
    at = 0
    for entry in fields:
        if padding := entry.get("padding"):
            at += padding
            continue
        kind, size = entry["type"]["type"], entry["type"].get("size", 1)
        if kind not in ("bool", "int", "uint") or size > 64 or entry.get("is-optional"):
            raise InvalidModel(f"the variable {entry['name']!r} has an unknown type")
        weights = np.left_shift(np.int64(1), np.arange(size, dtype=np.int64))
        if kind == "int":
            weights[-1] = -weights[-1] if size < 64 else weights[-1]
        values = bits[:, at : at + size] @ weights + (entry.get("offset") or 0)
        boolean = kind == "bool"
        columns.append([(entry["name"], int(v), boolean) for v in values])
        at += size
    return list(zip(*columns, strict=True))


def write_umb(chain: Chain, out: BinaryIO) -> None:
    """Writes a chain with labels, variables and names; the bytes are reproducible."""
    umbi = _umbi()
    from umbi.umb import index as parts

    values: Sequence[Fraction | float] = chain.exact or chain.data.tolist()
    umb = umbi.umb.ExplicitUmb(
        index=parts.UmbIndex(
            format_version=umbi.__format_version__,
            format_revision=umbi.__format_revision__,
            file_data=parts.FileData(tool="Forewarn", tool_version=__version__),
            transition_system=parts.TransitionSystem(
                num_states=chain.n,
                num_initial_states=1,
                num_choices=chain.n,
                num_branches=chain.transitions,
                branch_probability_type=_number_type(umbi, chain),
            ),
            annotations={},
        ),
        state_is_initial=[i == (chain.initial or 0) for i in range(chain.n)],
        state_to_choices=list(range(chain.n + 1)),
        choice_to_branches=chain.indptr.tolist(),
        branch_to_target=chain.indices.tolist(),
        branch_to_probability=list(values),
        annotations={},
    )
    for number, (label, members) in enumerate(chain.labels.items()):
        # The key becomes a folder of the archive; the alias is the name.
        key = label if re.fullmatch(r"\w+", label, re.ASCII) else f"label-{number}"
        umb.index.annotations.setdefault("aps", {})[key] = parts.AnnotationDescription(
            alias=label,
            applies_to=["states"],
            type=umbi.binary.SizedType.for_type(umbi.datatypes.PrimitiveType.BOOL),
        )
        holds = [i in members for i in range(chain.n)]
        umb.annotations.setdefault("aps", {})[key] = {"states": holds}
    encoder = umbi.umb.umb_to_tar.UmbEncoder()
    if chain.variables:
        umb.index.valuations = {"states": _described(umbi, chain)}
        umb.valuations = {}
    encoder.add_valuation_files = lambda umb: None
    encoder.encode(umb, insert_umbi_metadata=False)
    if chain.variables:
        columns = [values.astype("<i8") for values in chain.variables.values()]
        encoder.add_file(_VALUATIONS, np.column_stack(columns).tobytes())
    if any(name != str(i) for i, name in enumerate(chain.states)):
        encoder.add_file(_NAMES, json.dumps(chain.states).encode())
    _packed(encoder, out)


def _number_type(umbi: Any, chain: Chain) -> Any:
    kinds = umbi.datatypes.NumericPrimitiveType
    if chain.exact is None:
        return umbi.binary.SizedType.for_type(kinds.DOUBLE)
    # A signed numerator and an unsigned denominator, in whole words.
    bits = max(
        max(p.numerator.bit_length() + 1, p.denominator.bit_length())
        for p in chain.exact
    )
    return umbi.binary.SizedType(kinds.RATIONAL, 2 * 64 * -(-bits // 64))


def _described(umbi: Any, chain: Chain) -> Any:
    struct = umbi.binary.StructType()
    integer = umbi.datatypes.NumericPrimitiveType.INT
    for name in chain.variables:
        struct.add_attribute(name, umbi.binary.SizedType(integer, 64))
    return umbi.umb.index.ValuationDescription(unique=True, classes=[struct])


def _packed(files: Mapping[str, bytes], out: BinaryIO) -> None:
    # mtime=0: the same chain gives the same bytes.
    with (
        gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
