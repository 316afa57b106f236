"""Guards agents that call tools, in any agent framework."""

from forewarn.plugins.agents.guard import (
    ASKING,
    STOPPED,
    UNREADABLE,
    WITHHELD,
    AgentGuard,
    Question,
    Verdict,
    json_arguments,
)

__all__ = [
    "ASKING",
    "STOPPED",
    "UNREADABLE",
    "WITHHELD",
    "AgentGuard",
    "Question",
    "Verdict",
    "json_arguments",
]
