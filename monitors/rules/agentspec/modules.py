"""A user's own predicates from a Python file, in AgentSpec's forms or in ours.

The file is run: it is code of the user's, named on the command line, and never by a
file of rules. A function takes `(user_input, tool_input, intermediate_steps)` or
`(action_input, ctx)`, as AgentSpec's do, or `(event, state, history)`, as ours do.
"""

from __future__ import annotations

import importlib.util
import inspect
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from forewarn.abstractions.errors import ForewarnError, InvalidInput, SignalFault
from forewarn.monitors.rules.event import Event
from forewarn.monitors.rules.predicates import Library, Predicate

_OURS = ("event", "state", "history")


class BrokenModule(ForewarnError):
    """A user's module of predicates that does not load."""


def add_module(library: Library, path: Path, replaces: bool = False) -> Library:
    """The library with a module's predicates.

    Args:
        library: What there is.
        path: The Python file.
        replaces: Whether a function counts before ours of the same name, as
            AgentSpec's own matching has it.
    """
    found = {each.name: each for each in _predicates(path)}
    known = dict(library.predicates)
    known = known | found if replaces else found | known
    return replace(library, predicates=known)


def _predicates(path: Path) -> Iterator[Predicate]:
    module = _loaded(path)
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if name.startswith("_") or function.__module__ != module.__name__:
            continue
        parameters = tuple(inspect.signature(function).parameters)
        if len(parameters) not in (2, 3):
            continue
        said = (inspect.getdoc(function) or f"As {path.name} has it.").split("\n")[0]
        yield Predicate(name, said, _adapted(name, function, parameters))


def _loaded(path: Path) -> ModuleType:
    if path.suffix != ".py" or not path.is_file():
        raise InvalidInput(
            "no Python file there", source=str(path), mend="name a file such as mine.py"
        )
    spec = importlib.util.spec_from_file_location(f"_rules_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise BrokenModule(f"{path} does not load")
    module = importlib.util.module_from_spec(spec)
    try:
        with redirect_stdout(io.StringIO()):
            spec.loader.exec_module(module)
    except Exception as error:
        raise BrokenModule(
            f"{path} does not load: {type(error).__name__}: {error}"
        ) from error
    return module


Given = Callable[[Event, Any, Sequence[Event]], tuple[Any, ...]]


def _adapted(
    name: str, function: Callable[..., Any], parameters: tuple[str, ...]
) -> Callable[[Event, Any, Sequence[Event]], bool]:
    given: Given = _as_ours
    if parameters != _OURS:
        given = _as_agent if len(parameters) == 3 else _as_emulator

    def holds(event: Event, state: Any, history: Sequence[Event]) -> bool:
        try:
            with redirect_stdout(io.StringIO()):  # of what it prints while it looks
                return bool(function(*given(event, state, history)))
        except Exception as error:
            problem = f"{name} failed: {type(error).__name__}: {error}"
            raise SignalFault(problem) from error

    return holds


def _as_ours(event: Event, state: Any, history: Sequence[Event]) -> tuple[Any, ...]:
    return event, state, history


def _as_agent(event: Event, state: Any, history: Sequence[Event]) -> tuple[Any, ...]:
    """User input, tool input and the steps so far, as AgentSpec's executor has them."""
    steps = [
        ((each.tool or each.action, each.text), _observation(each))
        for each in history
        if each.moment == "after"
    ]
    return "", _text(event), steps


def _as_emulator(event: Event, state: Any, history: Sequence[Event]) -> tuple[Any, ...]:
    return dict(event.arguments), {"history": [_text(each) for each in history]}


def _text(event: Event) -> str:
    if event.text:
        return event.text
    values = (str(value) for value in event.arguments.values())
    return " ".join([event.action.replace("_", " "), *values])


def _observation(event: Event) -> Any:
    if "code" in event.arguments:
        return event.output
    return {
        "action": _text(event),
        "success": event.succeeded is not False,
        "message": event.output,
        "errorMessage": "",
    }
