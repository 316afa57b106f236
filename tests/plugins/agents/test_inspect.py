"""The approver that the page on agents shows, with inspect_ai's own types."""

from __future__ import annotations

import asyncio
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "agents.md"


@pytest.mark.needs("inspect_ai")
def test_an_approver_of_inspect_ai_judges_the_whole_trajectory(tmp_path: Path) -> None:
    from inspect_ai.tool import ToolCall  # type: ignore[import-not-found, unused-ignore]

    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    (code,) = (block for block in blocks if "inspect_ai" in block)
    file = tmp_path / "approving.py"
    file.write_text(code, encoding="utf-8")
    spec = spec_from_file_location("approving", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    law = "always (tool == delete -> once (tool == backup))"
    approve: Any = module.by_laws(laws=[law])

    async def decisions() -> list[str]:
        return [
            (await approve("", ToolCall(name, name, {"path": "a"}), None, [])).decision
            for name in ("delete", "backup", "delete")
        ]

    assert asyncio.run(decisions()) == ["reject", "approve", "approve"]
