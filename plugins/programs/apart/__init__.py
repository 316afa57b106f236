"""Functions that users write in Python, in a process that can but compute."""

from __future__ import annotations

from forewarn.plugins.programs.apart.process import NotApart, uploaded

__all__ = ["NotApart", "uploaded"]
