"""Checks that each module of an installed wheel can be imported, or names its extra.

PYTHON tests/wheel.py
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import forewarn
from forewarn.abstractions.errors import MissingDependency


def main() -> int:
    """Imports all modules, and prints those that fail."""
    package = Path(forewarn.__file__).parent
    if not package.is_relative_to(sys.prefix):
        print("forewarn is imported from the checkout, not a wheel", file=sys.stderr)
        return 1
    files = sorted(path.relative_to(package.parent) for path in package.rglob("*.py"))
    failed, lacking = [], 0
    for file in files:
        if file.stem == "__main__":
            continue
        name = ".".join(file.with_suffix("").parts).removesuffix(".__init__")
        try:
            importlib.import_module(name)
        except MissingDependency:
            lacking += 1
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
    print(f"{len(files)} modules: {lacking} require an extra, {len(failed)} fail")
    print(*failed, sep="\n")
    return 1 if failed or len(files) < 300 else 0


if __name__ == "__main__":
    sys.exit(main())
