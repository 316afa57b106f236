"""Chat models of any provider, through LangChain."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from forewarn.abstractions.errors import InvalidInput, MissingDependency, Unreachable
from forewarn.plugins.chat.asking import (
    Message,
    ModelError,
    Reply,
    checked_url,
)


class LangChainChat:
    """A chat model by LangChain's name of it. Keys come from the environment.

    Args:
        model: Provider and model, such as `openai:gpt-4.1` or `ollama:llama3.1`.
        base_url: Where the provider is, for those that are not at their usual place:
            any server that speaks OpenAI's protocol, an Ollama of one's own.
        temperature: How much chance is in the replies.
        timeout_s: How long a reply may take.
        retries: How often what failed is tried again.

    Raises:
        MissingDependency: LangChain or the provider's package is not installed.
        InvalidInput: Nobody knows the model.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "",
        temperature: float = 0.0,
        timeout_s: float = 60.0,
        retries: int = 2,
    ) -> None:
        try:
            from langchain.chat_models import init_chat_model
        except ImportError as error:
            raise MissingDependency("a chat model", "llm") from error
        self._name, self._address, self._answered = model, base_url, False
        settings: dict[str, Any] = {"temperature": temperature}
        if base_url:
            settings["base_url"] = checked_url(base_url)
        provider = model.split(":")[0]
        if provider == "ollama":
            settings["client_kwargs"] = {"timeout": timeout_s}
        else:
            settings |= {"timeout": timeout_s, "max_retries": retries}
        try:
            if provider == "openai":
                # Without it, models share connections, and one that ends ends all.
                from httpx import Timeout

                settings["timeout"] = Timeout(timeout_s)
            self._model = init_chat_model(model, **settings)
        except ImportError as error:
            raise MissingDependency(f"the provider {provider!r:.40}", "llm") from error
        except Exception as error:
            # Providers raise their own kinds, for want of a key above all.
            raise InvalidInput(
                f"the model {model!r:.60} cannot be used: {error}",
                mend="PROVIDER:MODEL, such as ollama:llama3.1; keys come from the"
                " environment",
            ) from error
        weakref.finalize(self, _close, self._model)

    def reply(self, messages: Sequence[Message]) -> Reply:
        """What the model says next.

        Raises:
            ModelError: Its provider refused, or did not answer in time.
        """
        try:
            said = self._model.invoke([(m.role, m.text) for m in messages])
        except Exception as error:
            if not self._answered and _is_refused(error):
                where = self._address or "its usual address"
                raise Unreachable(
                    f"the model {self._name} is not there: {where} refuses connections"
                ) from error
            raise ModelError(f"{type(error).__name__}: {error}") from error
        self._answered = True
        took: Any = getattr(said, "usage_metadata", None) or {}
        return Reply(
            str(said.text),
            int(took.get("input_tokens", 0)),
            int(took.get("output_tokens", 0)),
        )


def _close(model: object) -> None:
    """Closes its connections, as far as the provider's package lets one."""
    for name in ("root_client", "_client"):
        client = getattr(model, name, None)
        for each in (getattr(client, "_client", None), client):
            close = getattr(each, "close", None)
            if callable(close):
                close()


def _is_refused(error: BaseException | None) -> bool:
    """Whether a refused connection is what is behind an error."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return any(isinstance(each, ConnectionRefusedError) for each in seen)
