"""The OpenAI Agents SDK: tools that ask the guard before they run.

Needs the extra `openai-agents`.
"""

from forewarn.plugins.openai_agents.tools import guarded_tools

__all__ = ["guarded_tools"]
