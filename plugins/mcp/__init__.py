"""MCP: a server that stands before another one, and asks the guard before each call.

Needs the extra `mcp`.
"""

from forewarn.plugins.mcp.proxy import guarded_server, serve

__all__ = ["guarded_server", "serve"]
