"""Reads files within size limits, and writes files atomically."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

import yaml

from forewarn.abstractions.errors import InvalidInput, TooLarge, mend_of
from forewarn.abstractions.places import Address, settle

MAX_TEXT_BYTES = 64 * 1024 * 1024
"""The maximum decompressed size of a text file."""

MAX_ITEMS = 1_500_000
"""The maximum number of JSON items, because a small item takes thirty times as much
memory as its text.
"""

MAX_YAML_CHARACTERS = 100_000
"""The maximum length of a YAML file. YAML files are written by hand, so they are short,
and the parser is slow.
"""

MAX_YAML_DEPTH = 100
"""The maximum nesting depth of brackets in YAML, because the parser repeatedly checks
all open brackets.
"""

_CHUNK = 1 << 20

GZIPPED = b"\x1f\x8b"
"""The first bytes of a gzipped file."""

PICKLE = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def read_bytes(path: Path, limit: int = MAX_TEXT_BYTES) -> bytes:
    """Returns the content of a file, decompressed if gzipped; rejects pickles and large
    files.
    """
    try:
        with unpacked(path) as stream:
            data = _at_most(stream, limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or "cannot be read"
        raise InvalidInput(
            reason[0].lower() + reason[1:], source=str(path), mend=mend_of(error, path)
        ) from error
    if len(data) > limit:
        raise TooLarge(
            f"the file is larger than the limit of {limit} bytes", source=str(path)
        )
    if data.startswith(PICKLE):
        raise InvalidInput(
            "this is a pickle, which could run code when it is read",
            source=str(path),
            mend="save it as text in one of the formats that --help lists",
        )
    return data


@contextmanager
def unpacked(path: Path) -> Iterator[Any]:
    """Opens a file for reading bytes, decompressed if the file is gzipped."""
    with path.open("rb") as raw:
        packed = raw.read(2) == GZIPPED
        raw.seek(0)
        yield gzip.GzipFile(fileobj=raw) if packed else raw


def _at_most(stream: io.BufferedIOBase, size: int) -> bytes:
    """Reads up to `size` bytes in chunks, because a single call would allocate `size`
    bytes even for a short file.
    """
    data = bytearray()
    while len(data) < size and (chunk := stream.read(min(size - len(data), _CHUNK))):
        data += chunk
    return bytes(data)


def read_text(path: Path, limit: int = MAX_TEXT_BYTES) -> str:
    """Returns the text of a file encoded in UTF-8."""
    data = read_bytes(path, limit)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"byte {error.start}"
        raise InvalidInput(
            "not UTF-8 text", source=str(path), place=place, mend="save it as UTF-8"
        ) from error


def read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a file one by one, without creating all of them at once."""
    for line in io.StringIO(read_text(path), newline=None):
        yield line.rstrip("\n")


def _no_constant(name: str) -> NoReturn:
    mend = "leave an unknown value out, or write null"
    raise InvalidInput(f"{name} is not a number", mend=mend)


def _finite(text: str) -> float:
    value = float(text)
    if value - value:
        raise InvalidInput(f"the number {text:.40} is too large")
    return value


_LARGE = "an integer has thousands of digits"


def _refuse_odd(value: Any) -> None:
    """Rejects values that cannot be printed: text with a lone surrogate, or a huge
    integer.
    """
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += [*item, *item.values()]
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, int) and item.bit_length() > 4096:
            raise InvalidInput(_LARGE)
        elif isinstance(item, str):
            try:
                item.encode()
            except UnicodeEncodeError:
                raise InvalidInput(
                    f"{item!r:.60} contains an incomplete Unicode character"
                ) from None


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise InvalidInput(f"the key {twice!r} appears twice")
    return found


JSON_LINES = re.compile(r'\{"format": ?"(forewarn\.[a-z]+/\d+)"[^\n]*\}\n\{')
"""The beginning of a trace or a run record in JSON Lines format."""


# Created once, because creating a decoder takes longer than decoding a short line.
_decode = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_repeats
).decode


def check_items(text: str, source: str, place: str = "") -> None:
    """Rejects JSON with too many items, before the JSON is parsed."""
    if sum(map(text.count, ",[{")) > MAX_ITEMS:
        limit = f"the JSON has more than {MAX_ITEMS} items"
        raise TooLarge(limit, source=source, place=place)


_OWN = re.compile(r"""(?:\s*#[^\n]*\n)*\W*format["']?:\s*["']?(forewarn\.[\w-]+)/""")


def format_of(text: str) -> str:
    """Returns the format that a file states at its beginning, such as `forewarn.model`;
    empty if it states none of ours.
    """
    found = _OWN.match(text)
    return found[1] if found else ""


def other_kind(text: str, wanted: str) -> str:
    """Returns an error text that names the format that a file has instead of `wanted`.

    The text is empty if the format is unknown.

    Args:
        text: The beginning of the file.
        wanted: What the file should contain.
    """
    if not text.strip():
        return "the file is empty"
    kind = format_of(text)
    return f"the file has the format {kind}, but {wanted} is needed" if kind else ""


_WORD = re.compile(r"""'([^'\n]*)'|([A-Za-z_]\w*)""")


def _mend_json(text: str, error: json.JSONDecodeError, by_line: bool) -> str:
    """Returns how to correct a slip in JSON; empty if the text does not begin as
    JSON.
    """
    before, rest = text[: error.pos].strip(), text[error.pos :].lstrip()
    if before[:1] not in ("{", "["):
        return ""
    if before.endswith(",") and rest[:1] in ("}", "]"):
        return f"remove the ',' before the '{rest[0]}'"
    if error.msg == "Extra data" and by_line:
        return "write one JSON value, or in JSON Lines one on each line"
    if rest.startswith(("//", "/*", "#")):
        return "remove the comment: JSON has none"
    if error.msg.startswith("Expecting ") and (word := _WORD.match(rest)):
        name = word[1] or word[2]
        known = {"True": "true", "False": "false", "None": "null"}
        return f"write {known.get(rest[: word.end()]) or json.dumps(name):.60}"
    return ""


def parse_json(text: str, source: str, place: str = "") -> Any:
    """Parses JSON strictly: NaN, infinities and duplicate keys are rejected."""
    check_items(text, source, place)
    try:
        value = _decode(text)
        if "\\u" in text:
            _refuse_odd(value)
        return value
    except json.JSONDecodeError as error:
        where = place or f"line {error.lineno} column {error.colno}"
        problem = f"not JSON: {error.msg.lower()}"
        mend = _mend_json(text, error, bool(place) or not source) or (
            "check that this is the intended file and that it is complete"
            if source
            else ""
        )
        if kind := JSON_LINES.match(text):
            problem = (
                "the file is not a single JSON value: its lines have the format "
                f"{kind.group(1)!r}"
            )
            mend = "give a different file"
        elif text.strip() == "[":
            mend = "write one JSON object per line, without brackets around them"
        elif place and not text.strip():
            problem = "this is empty, but JSON is needed"
        elif source and not text.lstrip().startswith("{"):
            problem = other_kind(text, "JSON") or problem
        raise InvalidInput(problem, source=source, place=where, mend=mend) from error
    except RecursionError as error:
        raise InvalidInput("nested too deeply", source=source, place=place) from error
    except ValueError as error:
        raise InvalidInput(_LARGE, source=source, place=place) from error
    except InvalidInput as error:
        raise error.within(source, place) from None


def read_json(path: Path) -> Any:
    return parse_json(read_text(path), str(path))


class _Plain(yaml.SafeLoader):
    """A safe YAML loader that accepts only what JSON can express.

    Duplicate keys, tags and aliases are rejected; aliases could expand a few lines to
    gigabytes.
    """

    def fetch_flow_collection_start(self, token: Any) -> None:
        if self.flow_level >= MAX_YAML_DEPTH:
            problem = "brackets are nested too deeply"
            raise yaml.MarkedYAMLError(None, None, problem, self.get_mark())
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        problem = ""
        if isinstance(event, yaml.AliasEvent):
            problem = (
                f"the alias *{event.anchor} is not supported: write out its content"
            )
        elif event.tag is not None:
            problem = f"the tag {event.tag} is not supported: leave it out"
        if problem:
            raise yaml.MarkedYAMLError(None, None, problem, event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        self._check_lists(node)
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:bool":
                key_node.tag = "tag:yaml.org,2002:str"  # `on` is a word, not a value
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, list | dict):
                continue
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} appears twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)

    def _check_lists(self, node: yaml.MappingNode) -> None:
        """Rejects a list that lacks its brackets, as in `{range: 0, 5}`."""
        name, items = "", list[str]()
        for key, value in node.value if node.flow_style else ():
            between = slice(key.end_mark.index, value.start_mark.index)
            if ":" not in key.end_mark.buffer[between] and items:
                items.append(str(key.value))
            elif len(items) > 1:
                break
            else:
                plain = isinstance(value, yaml.ScalarNode)
                name, items = str(key.value), [str(value.value)] if plain else []
        if len(items) > 1:
            raise InvalidInput(
                f"{items[1]!r:.60} has no value",
                place=f"line {node.start_mark.line + 1}",
                mend=f"if it is in a list, write {name}: [{', '.join(items)}]",
            )


def parse_yaml(text: str, source: str) -> Any:
    """Parses YAML with a safe loader; rejects duplicate keys, aliases and tags."""
    if text.startswith("{") and "\n{" in text and format_of(text[:200]):
        problem = other_kind(text[:200], "a YAML file of another format")
        raise InvalidInput(problem, source=source, mend="give a different file")
    if len(text) > MAX_YAML_CHARACTERS:
        limit = f"the YAML is longer than {MAX_YAML_CHARACTERS} characters"
        raise TooLarge(limit, source=source)
    try:
        loader = _Plain(text)
        try:
            value = loader.get_single_data()
            _refuse_odd(value)
            return value
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1} column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "malformed"
        problem = f"not YAML: {problem}"
        mend = "check the indentation, the colons and the quotes near this place"
        if "'\\t'" in problem:
            mend = "indent with spaces, not with tabs"
        elif text.lstrip().startswith("{"):
            mend = "the file looks like JSON: give a YAML file"
        elif problem.startswith("not YAML: expected alphabetic or numeric character"):
            mend = "put * in quotes: '*'"
        raise InvalidInput(problem, source=source, place=place, mend=mend) from error
    except RecursionError as error:
        raise InvalidInput("nested too deeply", source=source) from error
    except ValueError as error:
        raise InvalidInput(f"not YAML: {error}", source=source) from error
    except InvalidInput as error:
        raise error.within(source) from None


def read_yaml(path: Path) -> Any:
    return parse_yaml(read_text(path), str(path))


def inside(folder: Path, name: str, source: str) -> Path:
    """Resolves a path named in a file; rejects paths outside `folder`, and files that
    do not exist.
    """
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise InvalidInput(
            f"the path {name!r} is outside the folder of the file that refers to it",
            source=source,
            mend="use a path inside that folder",
        )
    try:
        resolved = (folder / path).resolve()
        resolved.exists()
    except (OSError, ValueError) as error:
        problem = f"{name!r:.60} cannot be the name of a file"
        raise InvalidInput(problem, source=source) from error
    if not resolved.is_relative_to(folder.resolve()):
        raise InvalidInput(
            f"the link {name!r} points outside its folder", source=source
        )
    if not resolved.exists():
        mend = mend_of(FileNotFoundError(), resolved)
        raise InvalidInput(f"there is no file {name}", source=source, mend=mend)
    return resolved


@contextmanager
def atomic_text(path: Path) -> Iterator[TextIO]:
    """Writes a text file atomically; gzips it if its name ends in .gz."""
    with atomic_bytes(path) as raw:
        packed = path.suffix == ".gz"
        # With mtime=0, equal content gives equal bytes.
        stream = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else raw
        with io.TextIOWrapper(stream, "utf-8", newline="\n") as text:
            yield text


_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
"""Error numbers: the disk is full, or a quota or the maximum file size is exceeded."""


def make_folder(folder: Path) -> None:
    """Creates a folder and its parents, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidInput(
            str(error.strerror).lower(),
            source=str(error.filename),
            mend=mend_of(error, folder),
        ) from error


@contextmanager
def atomic_bytes(path: Path) -> Iterator[io.BufferedWriter]:
    """Writes a binary file atomically; creates missing folders."""
    if not isinstance(path, Address) and _is_stream(path):
        with path.open("wb") as raw:
            yield raw
        return
    if path.is_dir() and not isinstance(path, Address):
        mend = f"give a file, such as {path / 'model.json'}"
        raise InvalidInput("this is a folder", source=str(path), mend=mend)
    # An object in storage is uploaded from a temporary file.
    folder = None if isinstance(path, Address) else path.parent
    missing = [each for each in path.parents if not each.exists()] if folder else []
    make_folder(path.parent)
    try:
        handle, beside = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.")
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        with os.fdopen(handle, "wb") as raw:
            yield raw
        settle(Path(beside), path)
    except BaseException as error:
        os.unlink(beside)
        for made in missing:
            with suppress(OSError):
                made.rmdir()
        if isinstance(error, OSError) and error.errno in _FULL and not error.filename:
            error.filename = str(path)
        raise


def _is_stream(path: Path) -> bool:
    """Whether the path is a device or a pipe; replacing it with a file would be wrong,
    for example for /dev/null.
    """
    return path.exists() and not (path.is_file() or path.is_dir())


def write_json(path: Path, value: Any) -> None:
    """Writes indented JSON with a final newline; rejects NaN and infinities."""
    with atomic_text(path) as out:
        json.dump(value, out, indent=1, allow_nan=False)
        out.write("\n")
