"""Storm in a separate process with time and memory limits, and UMB through Storm.

UMB is the binary archive format of PRISM and Storm. The archives that Storm writes
contain labels and doubles, but no state names, variables or fractions.
"""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from forewarn.abstractions.errors import InvalidModel, MissingDependency, TooLarge
from forewarn.abstractions.files import read_bytes
from forewarn.abstractions.limits import STORM_BYTES, STORM_SECONDS
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats.drn import read_drn, write_drn

_STORM_SAYS = re.compile(
    r"^(?:ERROR \([^)]*\)|\w*Error|\w*Exception): *(.*)", re.MULTILINE
)
_PROBABILITY = re.compile(r"(?<=\d : )[\d.e+-]+$", re.MULTILINE)
_COMPRESSED = (b"\xfd7zXZ\x00", b"BZh")

_LIMITED = r"""
import resource, sys
source, target, size, seconds = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
resource.setrlimit(resource.RLIMIT_AS, (size, size))
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
import stormpy
from stormpy import io
"""

_FROM_UMB = r"""
options = io.UmbImportOptions()
options.build_state_valuations = True
model = stormpy.build_model_from_umb(source, options=options)
every_digit = io.DirectEncodingExporterOptions()
every_digit.output_precision = 17
io.export_to_drn(model, target, options=every_digit)
"""

_TO_UMB = "io.export_to_umb(stormpy.build_model_from_drn(source), target)"


def run_storm(script: str, content: bytes, what: str, source: str = "") -> bytes:
    """Runs a Storm script on the content of a file; returns the file that it writes.

    The script reads the path `source` and writes to the path `target`.

    Raises:
        MissingDependency: stormpy is not installed.
        InvalidModel: Storm rejects the content.
        TooLarge: Storm exceeds its time or memory limit.
    """
    if find_spec("stormpy") is None:
        raise MissingDependency(what, "storm")
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "source", Path(folder) / "target"
        given.write_bytes(content)
        limits = map(str, (STORM_BYTES, STORM_SECONDS))
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-I", "-c", _LIMITED + script, given, found, *limits],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode < 0 or re.search("MemoryError|bad_alloc", done.stderr):
            raise TooLarge(
                f"Storm needs more than {STORM_SECONDS} s or {STORM_BYTES >> 20} "
                "MB to build the model",
                source=source,
                mend="build the model with Storm yourself, and use its DRN file",
            )
        if done.returncode:
            told = _STORM_SAYS.findall(done.stdout + "\n" + done.stderr)
            problem = next(filter(None, told), f"it is not valid in {what}")
            raise InvalidModel(f"Storm rejects the model: {problem}", source=source)
        return read_bytes(found)


def is_umb(data: bytes) -> bool:
    """Whether the decompressed bytes are an archive that could be in the UMB format."""
    return data[257:262] == b"ustar" or data.startswith(_COMPRESSED)


def read_umb(data: bytes, source: str = "") -> Chain:
    """Reads the chain from the bytes of an archive."""
    text = run_storm(_FROM_UMB, data, "the UMB format", source).decode()
    if "@value_type: double" in text:
        # Storm writes 17 digits; the rounded probabilities do not sum to exactly 1.
        text = _PROBABILITY.sub(lambda digits: repr(float(digits[0])), text)
    return read_drn(text, source)


def umb_of(chain: Chain) -> bytes:
    """Returns the chain as an archive; if the chain has no initial state, its first
    state is used.
    """
    text = io.StringIO()
    write_drn(replace(chain, initial=chain.initial or 0, exact=None), text)
    archive = run_storm(_TO_UMB, text.getvalue().encode(), "the UMB format")
    return gzip.compress(archive, mtime=0)
