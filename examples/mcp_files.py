"""Guards an MCP file server with a proxy that is transparent to the server and its
client.

    python examples/mcp_files.py

runs a client that tries to delete a file, then backs it up, then deletes it.
"""

from __future__ import annotations

import asyncio
import sys

from mcp import Client, StdioServerParameters
from mcp.server import MCPServer

LAW = "careful := always (tool == delete -> once (tool == backup and not failed))"
files = MCPServer("files")


@files.tool()
def backup(path: str) -> str:
    """Copy a file to a safe place."""
    return f"{path} is copied"


@files.tool()
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


async def main() -> None:
    guard = ["-m", "forewarn.cli", "mcp", "guard", "--law", LAW]
    served = [sys.executable, __file__, "--serve"]
    command = StdioServerParameters(
        command=sys.executable, args=[*guard, "--", *served]
    )
    async with Client(command) as client:
        for name in ("delete", "backup", "delete"):
            told = await client.call_tool(name, {"path": "old.txt"})
            print(f"{name}: {told.content[0].text.splitlines()[0]}")


if __name__ == "__main__":
    if "--serve" in sys.argv:
        files.run()
    else:
        asyncio.run(main())
