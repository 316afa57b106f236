"""The toolbox of a guard program: what every one holds, and what packages offer.

A package offers functions in its metadata, for instance

    [project.entry-points."forewarn.toolbox"]
    clinic = "my_package.guarding:FUNCTIONS"

where what is named is a sequence of functions with docstrings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points

from forewarn.abstractions.errors import ForewarnError, InvalidInput
from forewarn.monitors.programs.file import ProgramFile
from forewarn.monitors.programs.functions.actions import ACTIONS
from forewarn.monitors.programs.functions.standard import STANDARD
from forewarn.monitors.programs.language import Program
from forewarn.monitors.programs.toolbox import Function, Toolbox, function
from forewarn.plugins.programs.apart import uploaded
from forewarn.plugins.programs.holding import Holds

GROUP = "forewarn.toolbox"


class BrokenToolbox(ForewarnError):
    """A package's functions do not load."""

    exit_status = 3


def toolbox(uploads: Mapping[str, str] = {}) -> Toolbox:
    """Everything that a program may call on this machine.

    Args:
        uploads: Sources of Python functions by file name, which run apart.

    Raises:
        BrokenToolbox: What a package offers does not load.
        InvalidInput: Two functions have one name.
        MissingDependency: Functions were uploaded, and nothing here keeps them apart.
    """
    apart = uploaded(uploads) if uploads else ()
    return Toolbox([*STANDARD, *ACTIONS, *_offered(), *apart])


@cache
def _offered() -> tuple[Function, ...]:
    return tuple(_load_offered())


def _load_offered() -> Iterator[Function]:
    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        try:
            found = tuple(point.load())
        except Exception as error:
            raise BrokenToolbox(
                f"the toolbox {point.name} ({point.value}) does not load:"
                f" {type(error).__name__}: {error}"
            ) from error
        yield from map(function, found)


def compiled(file: ProgramFile, source: str) -> Program:
    """A file's program, ready to run."""
    try:
        program = Program(file.program, toolbox(file.functions))
        Holds(program.predicates)
        return program
    except InvalidInput as error:
        raise error.within(source, "program") from error
