"""Limits on input: fixed for untrusted input, the available memory for a user's own.

docs/files.md lists the limits in a table.
"""

from __future__ import annotations

import resource
from pathlib import Path

STORM_BYTES = 700 << 20
"""The memory that Storm may take while it builds a chain from PRISM language."""

STORM_SECONDS = 3
"""The processor time that Storm may take while it builds a chain."""

STORAGE_SECONDS = 20
"""The time limit for one answer of object storage: a listing, or a megabyte of data."""


def available_memory() -> int:
    """The memory in bytes that this process may still use; None if the system does not
    report it.
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
