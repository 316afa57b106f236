"""All errors that users see: the problem, the place and the fix.

The command line turns `ForewarnError.exit_status` into its exit status and prints the
message as one line, so a message itself names the file and the place.
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
    """The text without characters that could control a terminal or reorder a line.

    Escape sequences, control characters other than newline and tab, and marks that
    change the direction of writing are dropped.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in _ESCAPES.sub("", text) if _is_harmless(c))


def harmless_cell(text: str) -> str:
    """The text as a table cell; text that begins like a formula is quoted."""
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


def _line(text: str) -> str:
    """The value shortened to fit on a line."""
    if not text.isprintable():
        text = " ".join(clean(text).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class ForewarnError(Exception):
    """The base of all errors that Forewarn raises on purpose."""

    exit_status = 2


class InvalidInput(ForewarnError):
    """A file or argument that cannot be used as it is.

    Args:
        problem: What is wrong, as a clause without a final stop.
        source: The file or argument that contains the problem.
        place: The position in the source: a line, a key, a column.
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
        """The same error with the name of the file, which the raiser did not know."""
        where = ", ".join(part for part in (place, self.place) if part)
        return type(self)(
            self.problem, source=self.source or source, place=where, mend=self.mend
        )


class InvalidExpression(InvalidInput):
    """An expression or formula that does not parse or does not type-check."""


class InvalidVocabulary(InvalidInput):
    """A vocabulary file that breaks its schema or its own rules."""


class InvalidAbstraction(InvalidInput):
    """An abstraction that is malformed or cannot decide a question."""


class InvalidTrace(InvalidInput):
    """A recorded trace that is unreadable or cannot be trusted."""


class InvalidModel(InvalidInput):
    """A chain or model file whose rows, states or schema are wrong."""


class InvalidProperty(InvalidInput):
    """A property that does not parse or that the chain cannot answer."""


class TooLarge(InvalidInput):
    """Something exceeds a stated limit: a file, a chain, an automaton."""


class SignalFault(ForewarnError):
    """A provided signal is missing, not finite, or outside its range in a frame."""


class MissingDependency(ForewarnError):
    """A feature needs a package that is not installed."""

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
    """An error's message, even if converting the error to text fails."""
    if isinstance(error, ForewarnError):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}: its message cannot be read"


def is_out_of_threads(error: BaseException) -> bool:
    """Whether the error means that no further thread could be started."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_out_of_threads, error.exceptions))
    return isinstance(error, RuntimeError) and "start new thread" in str(error)


def mend_of(error: BaseException, path: Path) -> str:
    """The most likely fix for a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        if not path.parent.is_dir():
            return f"there is no folder {path.parent}"
        there = itertools.islice(path.parent.iterdir(), _LOOKED_AT)
        # A common suffix makes no two names alike.
        stems = {each.stem: each.name for each in there if each.suffix == path.suffix}
        close = near_miss(path.stem, stems, stems)
        return close or f"the file is not in the folder {path.parent.absolute()}"
    if isinstance(error, IsADirectoryError):
        return "name a file in it"
    if isinstance(error, PermissionError):
        return "permission denied for this user"
    if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
        return "the file is cut off or damaged: copy it again"
    return ""


OF_LOGS = (
    "describe their columns in a scenario file and use that file: docs/own-world.md"
)
"""The advice when a foreign log is given in place of a trace."""


def near_miss(
    word: str, known: Iterable[str], shown: Mapping[str, str] | None = None
) -> str:
    """A hint for `mend`: the closest known word, or nothing.

    Args:
        word: The unknown word.
        known: The known words.
        shown: Formats a known word for display; by default unchanged.
    """
    plain = {_plain(each): each for each in known}
    close = difflib.get_close_matches(_plain(word), plain, n=1)
    if not close:
        return ""
    found = plain[close[0]]
    return f"did you mean {shown[found] if shown else found}?"


def _plain(word: str) -> str:
    """The form in which words are compared: `S3` becomes `s3`, and `51-5` becomes
    `51_5`.
    """
    return word.lower().replace("-", "_").replace(".", "_")


def suggest(word: str, known: Iterable[str]) -> str:
    """A hint for `mend`: the closest known word, or else the first known words."""
    names = list(known)
    some = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return near_miss(word, names) or (f"there is {some}" if names else "")


@contextmanager
def naming(source: object) -> Iterator[None]:
    """Adds the file or option to errors that do not name a source."""
    try:
        yield
    except InvalidInput as error:
        if error.source:
            raise
        raise error.within(str(source)) from None
