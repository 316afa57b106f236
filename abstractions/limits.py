"""Limits on input: fixed for untrusted files, by memory for the user's own files.

docs/files.md lists all limits.
"""

from __future__ import annotations

import resource
from pathlib import Path

STORM_BYTES = 600 << 20
"""The memory limit for Storm when it builds a chain from a PRISM program."""

STORM_SECONDS = 3
"""The limit on Storm's processor time when it builds a chain."""

STORAGE_SECONDS = 20
"""The time limit for one response from object storage: a listing or 1 MiB of data."""


def available_memory() -> int:
    """Returns the number of bytes that this process can still allocate; 8 GiB if
    unknown.
    """
    found = [8 << 30]
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        (free,) = [line for line in text.splitlines() if line.startswith("MemAvail")]
        found = [int(free.split()[1]) << 10]
        group = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")
        found.append(int(group))
    except (OSError, ValueError):
        pass
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min([*found, limit] if limit > 0 else found)
