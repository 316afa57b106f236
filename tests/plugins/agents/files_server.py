"""An MCP server as others write them: files that are only names."""

from __future__ import annotations

import asyncio
import threading

from mcp.server import MCPServer

server = MCPServer("files", instructions="Take care of the files.")
kept = {"a.txt", "b.txt"}
slow = threading.Event()
"""Set when the slow file is being copied."""


@server.tool()
async def backup(path: str) -> str:
    """Copy a file away."""
    if path == "slow.txt":
        slow.set()
        await asyncio.sleep(60)
    if path not in kept:
        raise ValueError("there is no such file")
    return f"{path} is copied"


@server.tool()
def delete(path: str) -> str:
    """Delete a file."""
    kept.discard(path)
    return f"{path} is gone"


@server.resource("files://all")
def everything() -> str:
    """All files."""
    return " ".join(sorted(kept))


if __name__ == "__main__":
    server.run()
