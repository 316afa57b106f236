"""The errors that users see; a message names the problem, the place and the fix.

The command line exits with `ForewarnError.exit_status` and prints the message as one
line, so the message must name the file and the place.
"""

from __future__ import annotations

import difflib
import gzip
import itertools
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-_])")
_BIDI = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_SEPARATORS = frozenset("\u2028\u2029")


def clean(text: str) -> str:
    """Returns the text without characters that could control a terminal or reorder a
    line.

    Removes escape sequences, line separators, bidirectional control characters, and
    control characters other than newline and tab.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in _ESCAPES.sub("", text) if _is_harmless(c))


def harmless_cell(text: str) -> str:
    """Returns the text as a table cell; a quote is put before text that begins like a
    formula.
    """
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _is_harmless(character: str) -> bool:
    if character in "\n\t":
        return True
    return (
        character not in _BIDI
        and character not in _SEPARATORS
        and unicodedata.category(character) != "Cc"
    )


_LONGEST = 300
_SHOWN = 6
_LOOKED_AT = 1_000
_FIRST_DIFFERS = 0.7


def _line(text: str) -> str:
    """Returns the text as one line, truncated if it is long."""
    if not text.isprintable():
        text = " ".join(clean(text).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class ForewarnError(Exception):
    """The base class of all errors that Forewarn raises deliberately."""

    exit_status = 2


class InvalidInput(ForewarnError):
    """A file or argument is invalid.

    Args:
        problem: What is wrong, as a clause without a full stop.
        source: The file or argument that contains the problem.
        place: The position in the source, such as a line, a key or a column.
        mend: The most likely fix.
    """

    def __init__(
        self, problem: str, *, source: str = "", place: str = "", mend: str = ""
    ) -> None:
        problem, place, mend = map(_line, (problem, place, mend))
        self.problem, self.source, self.place, self.mend = problem, source, place, mend
        head = ": ".join(part for part in (source, place, problem) if part)
        super().__init__(f"{head} ({mend})" if mend else head)

    def within(self, source: str, place: str = "") -> InvalidInput:
        """Returns the same error with the name of the file, unless it already has
        one.
        """
        where = ", ".join(part for part in (place, self.place) if part)
        return type(self)(
            self.problem, source=self.source or source, place=where, mend=self.mend
        )


class InvalidExpression(InvalidInput):
    """An expression or formula does not parse or does not type-check."""


class InvalidVocabulary(InvalidInput):
    """A vocabulary file violates the schema or contradicts itself."""


class InvalidAbstraction(InvalidInput):
    """An abstraction is malformed or does not determine the value of an expression."""


class InvalidTrace(InvalidInput):
    """A recorded trace is unreadable or inconsistent."""


class InvalidModel(InvalidInput):
    """A chain or model file has invalid rows or states, or violates the schema."""


class InvalidProperty(InvalidInput):
    """A property does not parse or cannot be checked on the chain."""


class TooLarge(InvalidInput):
    """A file, a chain or an automaton exceeds a size limit."""


class SignalFault(ForewarnError):
    """A signal that the source provides is missing, not finite or out of range in a
    frame.
    """


class MissingDependency(ForewarnError):
    """A package that a feature needs is not installed."""

    exit_status = 3

    def __init__(self, feature: str, extra: str) -> None:
        self.feature, self.extra = feature, extra
        super().__init__(
            f"{feature} needs a package that is not installed: "
            f"run pip install 'forewarn[{extra}]'"
        )


class Unreachable(ForewarnError):
    """A required external service cannot be reached."""

    exit_status = 3


def said(error: BaseException) -> str:
    """Returns the message of an error, or a substitute if converting the error to text
    fails.
    """
    if isinstance(error, ForewarnError):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}: its message cannot be read"


def is_out_of_threads(error: BaseException) -> bool:
    """Whether the error means that the system could not start another thread."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_out_of_threads, error.exceptions))
    return isinstance(error, RuntimeError) and "start new thread" in str(error)


def mend_of(error: BaseException, path: Path) -> str:
    """Returns the most likely fix if a file cannot be read; empty if unknown."""
    if isinstance(error, FileNotFoundError):
        if not path.parent.is_dir():
            scheme, slash, rest = str(path).partition(":/")
            if slash and scheme.isalnum():
                return f"write {scheme}://{rest} for a storage URL"
            return f"there is no folder {path.parent}"
        there = itertools.islice(path.parent.iterdir(), _LOOKED_AT)
        # Compare stems only, because a shared suffix would make all names similar.
        stems = {each.stem: each.name for each in there if each.suffix == path.suffix}
        close = near_miss(path.stem, stems, stems)
        return close or f"the file is not in the folder {path.parent.absolute()}"
    if isinstance(error, IsADirectoryError):
        return "give a file in this folder"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "this is a file, but a folder is needed"
    if isinstance(error, PermissionError):
        return "choose another path, or get permission to access this one"
    if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
        return "the file is truncated or damaged: copy it again"
    return ""


OF_LOGS = (
    "describe the columns in a scenario file and use that file; see docs/own-world.md"
)
"""The advice if the user passes a foreign log instead of a trace."""


def near_miss(
    word: str, known: Iterable[str], shown: Mapping[str, str] | None = None
) -> str:
    """Returns a hint for `mend` that names the closest known word; empty if none is
    close.

    Args:
        shown: The text to display for each known word; by default the word itself.
    """
    plain = {_plain(each): each for each in known}
    word = _plain(word)
    close = difflib.get_close_matches(word, plain, n=1)
    # A typo seldom changes the first letter: halt is not meant to be alert.
    if not close or (
        close[0][:1] != word[:1]
        and difflib.SequenceMatcher(None, close[0], word).ratio() < _FIRST_DIFFERS
    ):
        return ""
    found = plain[close[0]]
    return f"did you mean {shown[found] if shown else found}?"


def _plain(word: str) -> str:
    """Normalizes a word for comparison: `S3` becomes `s3`, and `51-5` becomes
    `51_5`.
    """
    return word.lower().replace("-", "_").replace(".", "_")


def suggest(word: str, known: Iterable[str]) -> str:
    """Returns a hint for `mend` that names the closest known word, or else the first
    known words.
    """
    names = list(known)
    some = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return near_miss(word, names) or (f"choose from {some}" if names else "")


@contextmanager
def naming(source: object, place: str = "") -> Iterator[None]:
    """Adds the place to errors, and the name of the file or option unless an error
    already has one.
    """
    try:
        yield
    except InvalidInput as error:
        raise error.within(str(source), place) from None
