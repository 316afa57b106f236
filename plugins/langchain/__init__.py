"""LangChain 1.x: a middleware that asks the guard before a tool runs.

Needs the extra `langchain`.
"""

from forewarn.plugins.langchain.middleware import GuardMiddleware

__all__ = ["GuardMiddleware"]
