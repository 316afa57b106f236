"""Loads user-defined functions, which scenarios name by module or file."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any

from forewarn.abstractions.errors import InvalidInput, mend_of, near_miss, said

_files: set[str] = set()
"""The files of loaded functions, as named in their code objects."""


def found(place: str) -> Callable[..., Any]:
    """Loads a function, given as `package.module:name` or `path/to/file.py:name`.

    The file or module is executed with the permissions of this process.

    Raises:
        InvalidInput: The function does not exist or is not callable.
    """
    module, _, name = place.rpartition(":")
    try:
        held = _of_file(Path(module)) if module.endswith(".py") else _module(module)
    except FileNotFoundError as error:
        path = Path(module)
        raise InvalidInput(
            f"there is no file {module!r:.200}, which should define {name}",
            mend=mend_of(error, path),
        ) from None
    except Exception as error:  # the user's file may raise any exception
        own = said_where(error)
        mend = "write package.module:name, or $here/file.py:name"
        if isinstance(error, ModuleNotFoundError) and own:
            mend = "install the package that contains it"
        elif own or isinstance(error, SyntaxError):
            mend = ""
        raise InvalidInput(
            f"cannot load the function {place!r:.200}: {own or error}", mend=mend
        ) from error
    named = getattr(held, name, None)
    if named is None:
        raise InvalidInput(
            f"there is no function {place!r:.200}", mend=near_miss(name, vars(held))
        )
    _files.add(str(getattr(held, "__file__", "")))
    if not callable(named):
        raise InvalidInput(f"{place!r:.200} is not a function")
    called: Callable[..., Any] = named
    return called


def takes(
    function: Any, setting: str, *names: str, options: Mapping[str, Any] | None = None
) -> Any:
    """Returns a function after checking that it accepts these arguments.

    Args:
        function: A function or a class of the user.
        setting: The name of the setting, for error messages.
        names: The names of the positional arguments.
        options: The keyword arguments.

    Raises:
        InvalidInput: The function does not accept these arguments.
    """
    name = getattr(function, "__qualname__", type(function).__name__)
    wanted = f"it is called as {name}({', '.join([*names, *(options or {})])})"
    if options is not None:
        wanted = "its arguments must be the keys of `options`"
    if isinstance(function, str):
        problem = f"{function!r:.80} does not name a function"
        mend = "write package.module:name, or $here/file.py:name"
        raise InvalidInput(problem, source=setting, mend=mend)
    if not callable(function):
        problem = f"{name} cannot be called like a function"
        raise InvalidInput(problem, source=setting, mend=wanted)
    try:
        inspect.signature(function).bind(*names, **(options or {}))
    except ValueError:
        pass  # a built-in function may have no signature
    except TypeError as error:
        problem = f"{name} cannot be called with the given arguments: {error}"
        raise InvalidInput(problem, source=setting, mend=wanted) from None
    return function


def said_where(error: BaseException) -> str | None:
    """Returns the message of an error with the line in the user's file that raised it.

    Returns None if the error was not raised in a file of the user. The function that
    caught the error is ignored, even if it is in such a file.
    """
    raised = error.__traceback__
    lines = [
        (frame.f_code.co_filename, line)
        for frame, line in walk_tb(raised and raised.tb_next)
        if frame.f_code.co_filename in _files
    ]
    if not lines:
        return None
    file, line = lines[-1]
    return f"{file}, line {line}: {said(error)}"


def _module(name: str) -> ModuleType:
    if not name:
        raise ValueError("no module is named")
    return import_module(name)


def _of_file(path: Path) -> ModuleType:
    return _loaded(path.resolve(strict=True))


@cache
def _loaded(path: Path) -> ModuleType:
    """Returns the module of a file, which is executed only once."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    spec = spec_from_file_location(f"_user_{path.stem}_{digest}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a module")
    module = module_from_spec(spec)
    _files.add(str(path))  # so that errors while the file is loaded name their line
    sys.modules[spec.name] = module  # dataclasses look up their module in `sys.modules`
    spec.loader.exec_module(module)
    return module
