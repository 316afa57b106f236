"""How long a Python takes to have Forewarn ready."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from measuring import Row, seconds

HEAVY = ("scipy", "matplotlib", "stormpy", "carla", "ai2thor", "libsumo", "pandas")


def rows(quick: bool) -> Iterator[Row]:
    repeat = 3 if quick else 7
    for what, code in (
        ("import forewarn", "import forewarn"),
        ("forewarn --help", "import forewarn.cli as c; c.main(['--help'])"),
    ):
        loaded = after(code)
        heavy = [name for name in HEAVY if name in loaded]
        assert not heavy, f"{what} imports {', '.join(heavy)}"
        command = [sys.executable, "-c", code]

        def start(command: list[str] = command) -> None:
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

        yield Row(f"{what}, in a new Python", seconds(start, repeat=repeat), 0.5)


def after(code: str) -> set[str]:
    """The modules that are loaded when the code has run."""
    report = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('\\n' + ' '.join(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", report + code],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())
