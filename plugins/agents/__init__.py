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
from forewarn.plugins.agents.turns import POLL_S

__all__ = [
    "ASKING",
    "POLL_S",
    "STOPPED",
    "UNREADABLE",
    "WITHHELD",
    "AgentGuard",
    "Question",
    "Verdict",
    "json_arguments",
]
