"""Sentences that people read, drawn at random to be judged by a reader.

python -m tests.sentences --seed 1

draws 20 sentences from pages, 20 from help and messages, and 20 from docstrings, each
with its heading. Somebody who knows the field but not the project reads them: are they
clear, and would a native speaker have written them so?
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = (
    "abstractions", "monitors", "plugins", "apollo_bridge", "thor_bridge", "scenarios",
    "standins", "forewarn/cli",
)  # fmt: skip
EACH = 20
LEAST_WORDS = 5

Told = tuple[str, str]
"""A heading and a sentence."""

_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*])")
_ARGUMENT = re.compile(r" +\*{0,2}(\w+): ")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
_COMMANDS = "cli"


def pages() -> Iterator[Told]:
    """What stands on the pages, without code and tables."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        heading = path.stem
        for block in re.split(r"\n\s*\n|\n(?=- |#|\|)", _without_code(path)):
            if found := re.match(r"#+ (.*)", block):
                heading = f"{path.stem}: {found[1]}"
            elif not block.lstrip().startswith(("|", "!")) and block[:4] != "    ":
                for sentence in _sentences(block.lstrip(" -").replace("**", "")):
                    yield heading, sentence


def _without_code(path: Path) -> str:
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


def said() -> Iterator[Told]:
    """Help of commands, and messages of errors."""
    for path, tree in _modules():
        name = path.relative_to(ROOT).as_posix()
        if path.parent.name == _COMMANDS:
            yield from _docstrings(name, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                texts = map(_text, node.exc.args)
                text = " ".join(each for each in texts if " " in each).strip()
                for keyword in node.exc.keywords:
                    if text and keyword.arg == "mend" and _text(keyword.value):
                        text += f" ({_text(keyword.value)})"
                if len(text.split()) >= LEAST_WORDS:
                    yield f"error in {name}", text


def docstrings() -> Iterator[Told]:
    """What stands in the docstrings of the code, the commands apart."""
    for path, tree in _modules():
        if path.parent.name != _COMMANDS:
            yield from _docstrings(path.relative_to(ROOT).as_posix(), tree)


def _modules() -> Iterator[tuple[Path, ast.Module]]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def _docstrings(name: str, tree: ast.Module) -> Iterator[Told]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and (doc := ast.get_docstring(node)):
            heading = f"{name} {getattr(node, 'name', '')}".strip()
            for block in re.split(r"\n\s*\n|\n(?= +\w+: )", doc):
                if not block.startswith(("Example", "\b")):
                    found = _ARGUMENT.match(block)
                    of = f"{heading}, {found[1]}" if found else heading
                    for sentence in _sentences(block[found.end() if found else 0 :]):
                        yield of, sentence


def _text(node: ast.expr) -> str:
    """A message as far as the code has it, with what is put in as `{name}`."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(_text, parts))
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
    return ""


def _sentences(block: str) -> Iterator[str]:
    for sentence in _END.split(" ".join(block.split())):
        if len(sentence.split()) >= LEAST_WORDS:
            yield sentence


def draw(seed: int) -> list[tuple[str, list[Told]]]:
    """Sentences of each kind."""
    luck = random.Random(seed)
    kinds = (("pages", pages), ("help and messages", said), ("docstrings", docstrings))
    return [(kind, luck.sample(sorted(set(source())), EACH)) for kind, source in kinds]


def _lines(drawn: Sequence[tuple[str, list[Told]]]) -> Iterator[str]:
    number = 0
    for kind, told in drawn:
        yield f"\n{kind}\n{'=' * len(kind)}"
        for heading, sentence in told:
            number += 1
            yield f"{number:2}. [{heading}]\n    {sentence}"


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=0)
    print("\n".join(_lines(draw(options.parse_args().seed))))
