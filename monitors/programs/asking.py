"""Finds the action, and the kind of object, that a request in plain words asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from forewarn.abstractions.files import read_yaml

_WORD = re.compile(r"[a-z0-9]+")
_SENTENCE = re.compile(r"(?<=[.?!;])\s+|\n+")
_IRREGULAR = {
    "children": "child", "knives": "knife", "shelves": "shelf", "people": "person",
    "men": "man", "women": "woman", "glasses": "glass", "movies": "movie",
    "cookies": "cookie",
}  # fmt: skip
_TRAVEL = re.compile(
    r"\b[A-Z]{3}\s?(?:-|to|/)\s?[A-Z]{3}\b"
    r"|\b(?:from|leaving|leaves) [A-Z][^.]{0,80}\bto [A-Z]"
    r"|\b(?:earliest|cheapest|first|last|whatever) [^.]{0,80}\b(?:from|to) [A-Z]"
    r"|\b[Gg]et (?:me|us)\b[^.]{0,80}\bto [A-Z]|\d ?[ap]m to [A-Z]"
)
"""A phrase for travel from one place to another, such as two airport codes."""


@lru_cache(maxsize=4096)
def singular(word: str) -> str:
    """Returns the singular of a word."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


@lru_cache(maxsize=1024)
def words_of(text: str) -> str:
    """Returns the words of a text in the singular, each between spaces."""
    return f" {' '.join(map(singular, _WORD.findall(text.casefold())))} "


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    """Returns a word without a plural, -ing, -ed or -e ending."""
    if len(word) < 4:
        return word
    word = singular(word)
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


@lru_cache(maxsize=1024)
def _stems(text: str) -> str:
    return f" {' '.join(map(_stem, _WORD.findall(text.casefold())))} "


@cache
def activities() -> Mapping[str, Any]:
    """Returns the activities, each with the words that people use for it."""
    content = read_yaml(Path(__file__).with_name("activities.yaml"))

    def read(part: str, entries: Any) -> Any:
        spelt = words_of if part == "verbs" else _stems
        if isinstance(entries, list):
            return tuple(map(spelt, entries))
        return {name: tuple(map(spelt, texts)) for name, texts in entries.items()}

    return {part: read(part, entries) for part, entries in content.items()}


def asks_for(request: str, deed: str, thing: str) -> bool:
    """Whether a request asks for an action on a kind of object.

    A sentence that cancels, compares or asks a question does not request an action,
    except that a question can request a search.
    """
    known = activities()
    sentences = [_stems(each) for each in _SENTENCE.split(request) if each.strip()]
    searches = deed == "search"
    acting = sentences if searches else [s for s in sentences if _acts(s)]
    deeds = known["doing"].get(deed) or (_stems(deed),)
    if not any(_has(s, deeds) for s in acting):
        return False
    if any(_about(s, thing) for s in sentences):
        return True
    if thing == "flight" and _TRAVEL.search(request):
        others = (*known["besides"][thing], *known["besides"]["car"])
        return not any(_has(s, others) or _about(s, "car") for s in sentences)
    # A thing that is clearly bought counts as goods, unless it is of another kind.
    return (
        _stems(deed) in known["bought"].get(thing, ())
        and any(
            _has(s, known["plainly"]) and not _has(s, known["besides"][thing])
            for s in acting
        )
        and not any(
            _about(s, other)
            for s in sentences
            for other in known["about"]
            if other != thing
        )
    )


def _acts(sentence: str) -> bool:
    known = activities()
    if _has(sentence, known["not asked"]):
        return False
    begins = sentence.startswith(known["asking"])
    return not begins or _has(sentence, known["still"])


def _about(sentence: str, thing: str) -> bool:
    known = activities()
    if _has(sentence, known["besides"].get(thing, ())):
        return False
    return _has(sentence, known["about"].get(thing) or (_stems(thing),))


def _has(sentence: str, entries: tuple[str, ...]) -> bool:
    return any(entry in sentence for entry in entries)
