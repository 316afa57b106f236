"""Shell completion for scenarios, laws and models."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from glob import escape, glob

import click
from click.shell_completion import CompletionItem

_PLAIN = re.compile(r"[\w@%+=:,./~-]+")
"""Characters that need no quotes in a shell; names with other characters are not
completed.
"""


def _beginning(
    names: Iterable[str], incomplete: str, endings: tuple[str, ...] = ()
) -> list[CompletionItem]:
    """Returns completions for the typed text: names, folders, and files with these
    endings.
    """
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    typed = os.path.expanduser(incomplete)
    for path in sorted(glob(f"{escape(typed)}*")) if endings else ():
        shown = f"{path}{os.sep}" if os.path.isdir(path) else path
        if shown.endswith((os.sep, *endings)) and _PLAIN.fullmatch(shown):
            found.append(CompletionItem(shown))
    return found


def scenarios(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Completes built-in scenarios and scenario files."""
    from forewarn.scenarios.schema import shipped_families, shipped_scenarios

    return _beginning(
        sorted([*shipped_scenarios(), *shipped_families()]), incomplete, (".yaml",)
    )


def laws(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Completes the names of laws in the law book."""
    from forewarn.monitors.laws.lawbook import law_book

    return _beginning(sorted(law_book().every()), incomplete)


def models(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Completes model files, and folders that may contain them."""
    return _beginning((), incomplete, (".json", ".json.gz"))


COMPLETED = {"scenario": scenarios, "law": laws, "model": models}
"""The completion function for each parameter name, in all commands."""
