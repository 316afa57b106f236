"""Guards agents that call tools, in any agent framework."""

from forewarn.plugins.agents.guard import AgentGuard, check_harmless
from forewarn.plugins.agents.verdicts import (
    ASKING,
    STOPPED,
    UNREADABLE,
    WITHHELD,
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
    "check_harmless",
    "json_arguments",
]
