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
    from inspect_ai.model import (  # type: ignore[import-not-found, unused-ignore]
        ChatMessageTool,
    )
    from inspect_ai.tool import (  # type: ignore[import-not-found, unused-ignore]
        ToolCall,
        ToolCallError,
    )

    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    (code,) = (block for block in blocks if "inspect_ai" in block)
    file = tmp_path / "approving.py"
    file.write_text(code, encoding="utf-8")
    spec = spec_from_file_location("approving", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    law = "always (tool == delete -> once (tool == backup and not failed))"
    approve: Any = module.by_laws(laws=[law])

    full = ToolCallError("unknown", "the disk is full")
    calls = [("delete", None), ("backup", full), ("delete", None)]
    calls += [("backup", None), ("delete", None)]

    async def decisions() -> list[str]:
        history: list[Any] = []
        found: list[str] = []
        for name, error in calls:
            call = ToolCall(f"call-{len(found)}", name, {"path": "a"})
            found.append((await approve("", call, None, history)).decision)
            if found[-1] == "approve":
                history.append(
                    ChatMessageTool(content="", error=error, tool_call_id=call.id)
                )
        return found

    wanted = ["reject", "approve", "reject", "approve", "approve"]
    assert asyncio.run(decisions()) == wanted
