"""The functions that a guard program may call, and no others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.programs.grammar import NAME
from forewarn.monitors.programs.values import Value

SAID = ("deny", "ask", "reflect", "slow")
"""What the language itself says of an action; no function may be called so."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the toolbox.

    It is given values and gives one back, takes time in proportion to their size,
    changes nothing, and raises `ProgramFault` where it cannot tell.

    Args:
        name: What programs call it.
        call: What is called.
        parameters: Its parameters, in order.
        about: What it says, for whoever writes programs: a sentence or two.
        needed: How many of its parameters must be given.
    """

    name: str
    call: Callable[..., Value]
    parameters: tuple[str, ...]
    about: str
    needed: int

    @property
    def signature(self) -> str:
        """How it is called."""
        optional = [f"{name}=None" for name in self.parameters[self.needed :]]
        return f"{self.name}({', '.join([*self.parameters[: self.needed], *optional])})"


def function(call: Callable[..., Value], name: str = "") -> Function:
    """A function of the toolbox, described by its own signature and docstring.

    Raises:
        InvalidInput: It says nothing of itself, or takes what programs cannot give.
    """
    name = name or "".join(part.title() for part in call.__name__.split("_"))
    about = " ".join((inspect.getdoc(call) or "").split())
    if not about:
        raise InvalidInput(f"the function {name} does not say what it does")
    parameters = inspect.signature(call).parameters.values()
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters):
        raise InvalidInput(f"the function {name} takes what programs cannot give")
    names = tuple(p.name for p in parameters)
    needed = sum(p.default is p.empty for p in parameters)
    return Function(name, call, names, about, needed)


class Toolbox:
    """Functions by name.

    Raises:
        InvalidInput: Two have one name, or one has a name that programs cannot write.
    """

    def __init__(self, functions: Iterable[Function]) -> None:
        self._functions: dict[str, Function] = {}
        for each in functions:
            if not NAME.fullmatch(each.name) or each.name in SAID:
                raise InvalidInput(f"{each.name!r:.60} cannot be a function's name")
            if each.name in self._functions:
                raise InvalidInput(f"the toolbox has two functions {each.name}")
            self._functions[each.name] = each

    def __iter__(self) -> Iterator[Function]:
        return iter(self._functions.values())

    def get(self, name: str) -> Function | None:
        """The function of that name, if there is one."""
        return self._functions.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._functions)

    def described(self) -> list[str]:
        """A line for each function."""
        return [f"{each.signature}: {each.about}" for each in self]
