"""Limits on untrusted input, in one place; docs/files.md has them as a table."""

from __future__ import annotations

STORM_BYTES = 700 << 20
"""The memory that Storm may take while it builds a chain from PRISM language."""

STORM_SECONDS = 4
"""The processor time that it may take."""
