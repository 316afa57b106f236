"""Functions of the user's own that a scenario names, in a module or in a file."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from forewarn.abstractions.errors import InvalidInput


def found(place: str) -> Callable[..., Any]:
    """What stands at `package.module:name` or at `path/to/file.py:name`.

    A file's code runs with all that the command may do, as a module's does: it is the
    user's own.

    Raises:
        InvalidInput: There is no such thing, or it cannot be called.
    """
    module, _, name = place.rpartition(":")
    try:
        held = _of_file(Path(module)) if module.endswith(".py") else _module(module)
        named = getattr(held, name)
    except (ImportError, AttributeError, OSError, SyntaxError, ValueError) as error:
        raise InvalidInput(
            f"no function {place!r:.200}: {error}",
            mend="write package.module:name, or $here/file.py:name",
        ) from error
    if not callable(named):
        raise InvalidInput(f"{place!r:.200} is not a function")
    called: Callable[..., Any] = named
    return called


def _module(name: str) -> ModuleType:
    if not name:
        raise ValueError("no module is named")
    return import_module(name)


def _of_file(path: Path) -> ModuleType:
    return _loaded(path.resolve(strict=True))


@cache
def _loaded(path: Path) -> ModuleType:
    """The module that a file is, run once."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    spec = spec_from_file_location(f"_user_{path.stem}_{digest}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks for its module there
    spec.loader.exec_module(module)
    return module
