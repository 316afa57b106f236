"""Checks the accessibility of a page with axe-core."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from tests.browser import Page


def complaints(page: Page) -> list[dict[str, Any]]:
    """Returns serious and critical violations, each with the elements affected."""
    script = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    page.evaluate(f"{script}; null")
    found = page.evaluate("axe.run().then(it => JSON.stringify(it.violations))")
    return [
        {"what": each["help"], "where": [node["html"][:120] for node in each["nodes"]]}
        for each in json.loads(found)
        if each["impact"] in ("serious", "critical")
    ]
