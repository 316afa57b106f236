"""Guarding an agent that calls tools, whichever framework runs it."""

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
