"""Guards a supervisor and the worker agent that it uses as a tool, with a single guard.

    python examples/supervisor.py
    python examples/supervisor.py --llm ollama:llama3.1

The worker may delete only folders that it has backed up, no matter who asks for the
deletion. The supervisor's output is streamed, while the worker runs with asyncio.
Without --llm, scripted replies of careless models are used.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from forewarn import AgentGuard
from forewarn.plugins.langchain import GuardMiddleware

LAW = "careful := always (tool == delete -> once (tool == backup and not failed))"
TASK = "Free some space in /srv."


@tool
def backup(path: str) -> str:
    """Copy a folder to a safe place."""
    return f"{path} is copied"


@tool
def delete(path: str) -> str:
    """Delete a folder."""
    return f"{path} is gone"


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--llm", help="PROVIDER:MODEL, such as ollama:llama3.1")
    given = options.parse_args()

    def model(*steps: tuple[str, dict[str, str]]) -> Any:
        said = Scripted(messages=script(*steps))
        return init_chat_model(given.llm) if given.llm else said

    guard = AgentGuard.by_laws([LAW])
    place = {"path": "/srv/old"}
    worker = create_agent(
        model(("delete", place), ("backup", place), ("delete", place)),
        [backup, delete],
        middleware=[GuardMiddleware(guard)],
    )

    @tool
    async def clean(task: str) -> str:
        """Have the worker clean up."""
        talk = await worker.ainvoke({"messages": [("user", task)]})
        for message in talk["messages"]:
            if message.type == "tool":
                print(f"  worker: {message.name}: {message.text}")
        return str(talk["messages"][-1].text)

    supervisor = create_agent(model(("clean", {"task": TASK})), [clean])
    with guard:
        asked = {"messages": [("user", TASK)]}
        async for part in supervisor.astream(asked, stream_mode="updates"):
            for name, update in part.items():
                print(f"supervisor, {name}: {update['messages'][-1].text or '…'}")


def script(*steps: tuple[str, dict[str, str]]) -> Iterator[AIMessage]:
    """Yields a scripted reply for each tool call, and then "Done." forever."""
    for number, (name, arguments) in enumerate(steps):
        call = {"name": name, "args": arguments, "id": str(number)}
        yield AIMessage("", tool_calls=[call])
    while True:
        yield AIMessage("Done.")


class Scripted(GenericFakeChatModel):
    """A model that returns scripted replies."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


if __name__ == "__main__":
    asyncio.run(main())
