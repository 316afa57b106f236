"""Without gymnasium the wrapper says how to get it."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
sys.modules["gymnasium"] = None
from forewarn.abstractions.errors import MissingDependency
try:
    import forewarn.plugins.gym.guarded
except MissingDependency as error:
    print(error.exit_status, error)
"""


def test_without_the_extra_it_says_how_to_get_it() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "3 a guarded Gymnasium environment needs a package that is not installed: "
        "run pip install 'forewarn[gym]'\n"
    )
