"""Guarding an agent that calls tools, whichever framework runs it."""

from forewarn.plugins.agents.calls import (
    ASKING,
    STOPPED,
    UNREADABLE,
    WITHHELD,
    Question,
    Verdict,
    json_arguments,
)
from forewarn.plugins.agents.guard import AgentGuard

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
