"""The published chains, which Storm reads once for all tests of a worker."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.model import load_model


@cache
def published(path: Path) -> Chain:
    return load_model(path).chain
