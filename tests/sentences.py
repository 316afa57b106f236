"""Draws random sentences that users or developers read, for a review of their wording.

python -m tests.sentences --seed 1

prints 20 sentences from the pages, 20 from help texts and messages, and 20 from
docstrings, each under a heading that states its source. The reviewer should know the
field but not the project. For each sentence, the reviewer decides whether it is clear
and whether a native speaker would have written it that way.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "abstractions", "monitors", "plugins", "apollo_bridge", "thor_bridge", "scenarios",
    "standins", "forewarn/cli",
)  # fmt: skip
EACH = 20
"""The number of sentences drawn from each kind of source."""
LEAST_WORDS = 5
"""The length in words of the shortest sentence that is drawn."""

Told = tuple[str, str]
"""A heading and a sentence."""

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)

_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*])")
_ARGUMENT = re.compile(r" +\*{0,2}(\w+): ")
_BULLET = re.compile(r"^\s*(?:[- ]+|\d+\. )")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
_COMMANDS = "cli"
_DECORATORS = {"command", "group"}
"""The decorators that turn a function into a command; its docstring is the help."""
_ENTRY = "_Entry"
"""The class of the rows in the table of commands, which `forewarn --help` shows."""
_PRINTS = {"echo", "note", "say", "tell"}
"""The functions that print a text for the user."""


def pages() -> Iterator[Told]:
    """Yields the sentences of the README and the pages, without code and tables."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        heading = path.stem
        for block in re.split(r"\n\s*\n|\n(?=- |\d+\. |#|\|)", _without_code(path)):
            if found := re.match(r"#+ (.*)", block):
                heading = f"{path.stem}: {found[1]}"
            elif not block.lstrip().startswith(("|", "!")) and block[:4] != "    ":
                for sentence in _sentences(_BULLET.sub("", block).replace("**", "")):
                    yield heading, sentence


def _without_code(path: Path) -> str:
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


def said() -> Iterator[Told]:
    """Yields the sentences of help texts, printed texts and error messages."""
    for path, tree in _modules():
        name = path.relative_to(ROOT).as_posix()
        if path.parent.name == _COMMANDS:
            yield from _help(name, tree)
            yield from _printed(name, tree)
        yield from _errors(name, tree)


def _help(name: str, tree: ast.Module) -> Iterator[Told]:
    """Yields the help of commands and options, and the entries of the command table."""
    for node in ast.walk(tree):
        if _is_help(node):
            for heading, sentence in _docstring(name, node):
                place, comma, argument = heading.partition(", ")
                if comma:
                    option = argument.rstrip("_").removesuffix("_s").replace("_", "-")
                    yield f"help in {place}, --{option}", sentence
                elif isinstance(node, _Function):
                    yield f"help in {place}", sentence
        elif isinstance(node, ast.Call):
            texts = [each.value for each in node.keywords if each.arg == "help"]
            texts += node.args if _name(node) == _ENTRY else []
            for sentence in _long(texts):
                yield f"help in {name}", sentence


def _is_help(node: ast.AST) -> bool:
    """Whether the docstring of a node in the command line is shown as help.

    This is true of a command's function, and of the arguments of a class of options.
    """
    calls = [each for each in _decorators(node) if isinstance(each, ast.Call)]
    if isinstance(node, ast.ClassDef):
        return "dataclass" in map(_name, calls)
    return isinstance(node, _Function) and bool(_DECORATORS & set(map(_name, calls)))


def _decorators(node: ast.AST) -> list[ast.expr]:
    return getattr(node, "decorator_list", [])


def _name(call: ast.Call) -> str:
    """The name of the called function, without its module or object."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _printed(name: str, tree: ast.Module) -> Iterator[Told]:
    """Yields the texts that a command prints for the user."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node) in _PRINTS:
            for text in _long(node.args):
                yield f"printed by {name}", text


def _long(texts: Sequence[ast.expr]) -> Iterator[str]:
    for text in map(_text, texts):
        if len(text.split()) >= LEAST_WORDS:
            yield text


def _errors(name: str, tree: ast.Module) -> Iterator[Told]:
    """Yields the messages of raised exceptions, each followed by its hint."""
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
    """Yields the sentences of docstrings that are not shown as help."""
    for path, tree in _modules():
        shown = path.parent.name == _COMMANDS
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(tree):
            if not (shown and _is_help(node)):
                yield from _docstring(name, node)
            elif isinstance(node, ast.ClassDef):
                for heading, sentence in _docstring(name, node):
                    if ", " not in heading:
                        yield heading, sentence


def _modules() -> Iterator[tuple[Path, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def _docstring(name: str, node: ast.AST) -> Iterator[Told]:
    """Yields the sentences of a node's docstring, if the node has a docstring.

    The heading is the path and the name of the node. For a sentence about an argument,
    the heading ends with a comma and the argument's name.
    """
    kinds = (ast.Module, ast.ClassDef, *_Function)
    if isinstance(node, kinds) and (doc := ast.get_docstring(node)):
        heading = f"{name} {getattr(node, 'name', '')}".strip()
        for block in re.split(r"\n\s*\n|\n(?= +\w+: )", doc):
            if not block.startswith(("Example", "\b")):
                found = _ARGUMENT.match(block)
                of = f"{heading}, {found[1]}" if found else heading
                for sentence in _sentences(block[found.end() if found else 0 :]):
                    yield of, sentence


def _text(node: ast.expr) -> str:
    """The text of an expression, with inserted values shown as `{name}`."""
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
    """Draws `EACH` sentences of each kind at random, without repetition."""
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
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seed", type=int, default=0, help="Seed of the random draw.")
    print("\n".join(_lines(draw(options.parse_args().seed))))
