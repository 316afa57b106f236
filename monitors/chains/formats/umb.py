"""UMB, the binary archive format of PRISM and Storm, through Storm.

The archives that Storm writes contain labels and doubles, but no state names, variables
or fractions.
"""

from __future__ import annotations

import gzip
import io
from dataclasses import replace

from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.formats.drn import write_drn
from forewarn.monitors.chains.formats.storm import build, run_storm

_WHAT = "the UMB format"
_COMPRESSED = (b"\xfd7zXZ\x00", b"BZh")

_BUILD = r"""
options = io.UmbImportOptions()
options.build_state_valuations = True
model = stormpy.build_model_from_umb(source, options=options)
"""

_WRITE = "io.export_to_umb(stormpy.build_model_from_drn(source), target)"


def is_umb(data: bytes) -> bool:
    """Whether the decompressed bytes are an archive that could be in the UMB format."""
    return data[257:262] == b"ustar" or data.startswith(_COMPRESSED)


def read_umb(data: bytes, source: str = "") -> Chain:
    """Reads the chain from the bytes of an archive."""
    return build(_BUILD, data, _WHAT, source).chain(source)


def umb_of(chain: Chain) -> bytes:
    """Returns the chain as an archive; if the chain has no initial state, its first
    state is used.
    """
    text = io.StringIO()
    write_drn(replace(chain, initial=chain.initial or 0, exact=None), text)
    return gzip.compress(run_storm(_WRITE, text.getvalue().encode(), _WHAT), mtime=0)
