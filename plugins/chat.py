"""Chat models, and recordings of their replies.

Replies are recorded as JSON Lines in the format `forewarn.replies/1`: a header, and
then one line per reply with the hash of its request. A recording replaces the model for
the same requests in the same order; any other request is an error.
"""

from __future__ import annotations

import hashlib
import json
import logging
import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

from pydantic import Field

from forewarn.abstractions.errors import (
    ForewarnError,
    InvalidInput,
    MissingDependency,
    Unreachable,
)
from forewarn.abstractions.files import parse_json, read_lines
from forewarn.abstractions.serial import Strict, validated

FORMAT = "forewarn.replies/1"

Role = Literal["system", "user", "assistant"]
How = Literal["live", "record", "replay"]


class ReplayMismatch(ForewarnError):
    """A request differs from the one for which a reply was recorded."""


class ModelError(ForewarnError):
    """The provider of a model rejected a request or did not answer."""


class Message(NamedTuple):
    """A message of a conversation."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply, and the numbers of tokens."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0


class Chat(Protocol):
    """A conversation with a chat model or a replacement."""

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Returns the next reply."""


@dataclass(slots=True)
class Usage:
    """The number of model calls in an episode, and their tokens."""

    model_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, reply: Reply) -> None:
        """Adds a model call with its tokens."""
        self.model_calls += 1
        self.tokens_in += reply.tokens_in
        self.tokens_out += reply.tokens_out

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def prompt_hash(model: str, messages: Sequence[Message]) -> str:
    """Returns the SHA-256 hash of a request to a model."""
    asked = json.dumps([model, *messages], separators=(",", ":"))
    return hashlib.sha256(asked.encode()).hexdigest()


class RecordedChat:
    """A chat that records replies in a file.

    Args:
        chat: The chat whose replies are recorded.
        model: The name of the model.
        path: The file to record replies in; earlier recorded replies are overwritten,
            and any other content is an error.
    """

    def __init__(self, chat: Chat, model: str, path: Path) -> None:
        self._chat, self._model, self._path = chat, model, path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _check_replies(path)
            path.unlink()
        self._write({"format": FORMAT, "model": model})

    def reply(self, messages: Sequence[Message]) -> Reply:
        found = self._chat.reply(messages)
        self._write({"prompt": prompt_hash(self._model, messages), **asdict(found)})
        return found

    def _write(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


class _Header(Strict):
    format: Literal["forewarn.replies/1"]
    model: str


class _Line(Strict):
    prompt: str = Field(pattern="^[0-9a-f]{64}$")
    text: str
    tokens_in: int = Field(ge=0)
    tokens_out: int = Field(ge=0)


def _check_replies(path: Path) -> None:
    """Raises an error if a file does not contain recorded replies."""
    try:
        first = parse_json(next(read_lines(path), ""), str(path), "line 1")
        validated(_Header, first, f"{path}: line 1")
    except InvalidInput as error:
        raise InvalidInput(
            "the file does not contain replies, so it is not overwritten",
            source=str(path),
            mend="choose another folder",
        ) from error


class Replayed:
    """A chat that replays recorded replies.

    Raises:
        InvalidInput: The file contains no replies.
    """

    def __init__(self, path: Path) -> None:
        lines = read_lines(path)
        first = next(lines, "")
        self._source = str(path)
        head = self._parsed(first, 1)
        self._model = validated(_Header, head, f"{path}: line 1").model
        self._lines = [
            validated(_Line, self._parsed(text, number), f"{path}: line {number}")
            for number, text in enumerate(lines, 2)
        ]
        self._next = 0

    def _parsed(self, text: str, number: int) -> object:
        found: object = parse_json(text, self._source, f"line {number}")
        return found

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Returns the next recorded reply.

        Raises:
            ReplayMismatch: The recorded request is different, or no replies are left.
        """
        if self._next >= len(self._lines):
            raise ReplayMismatch(
                f"{self._source}: only {len(self._lines)} replies are recorded, "
                "but another reply is needed"
            )
        line = self._lines[self._next]
        self._next += 1
        if line.prompt != prompt_hash(self._model, messages):
            raise ReplayMismatch(
                f"{self._source}: line {self._next + 1}: this reply was "
                "recorded for a different request (record it again, or repeat "
                "the recorded command)"
            )
        return Reply(line.text, line.tokens_in, line.tokens_out)


class Partner:
    """The model settings of a pilot, from which a chat is created for each episode.

    Args:
        model: Provider and model, such as `openai:gpt-4.1` or `ollama:llama3.1`.
        replies: The folder of recorded replies, one file per seed.
        how: `live` asks the model, `record` also records its replies, and `replay`
            replays recorded ones.
        temperature: The sampling temperature.
        settings: Further arguments of `LangChainChat`.

    Raises:
        InvalidInput: The settings contradict each other, or the model cannot be used.
    """

    def __init__(
        self,
        model: str,
        *,
        replies: Path | None,
        how: How,
        temperature: float = 0.0,
        **settings: Any,
    ) -> None:
        if how != "live" and replies is None:
            raise InvalidInput(
                f"`how: {how}` requires a folder of replies", mend="set `replies`"
            )
        if how != "replay" and not model:
            raise InvalidInput(
                "no model is named", mend="set `model`, such as ollama:llama3.1"
            )
        self._name = f"{model} at temperature {temperature:g}"
        self._replies = replies if how != "live" else None
        self._live: Chat | None = None
        if how != "replay":
            self._live = LangChainChat(model, temperature=temperature, **settings)

    def chat(self, seed: int) -> Chat:
        """Returns the chat for an episode, given its seed."""
        path = None if self._replies is None else self._replies / f"{seed}.jsonl"
        if path is None:
            if self._live is None:
                raise InvalidInput("there is neither a model nor recorded replies")
            return self._live
        if self._live is None:
            return Replayed(path)
        return RecordedChat(self._live, self._name, path)


def checked_url(url: str) -> str:
    """Returns the base URL of a provider after checking that it contains no secret.

    Raises:
        InvalidInput: The URL is invalid or contains a secret.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput("base_url must be an HTTP or HTTPS URL")
    if parts.username or parts.password or parts.query:
        raise InvalidInput(
            "base_url must not contain a user name, a password or a query",
            mend="set keys in the environment variables that the provider defines",
        )
    return url


class LangChainChat:
    """A chat model that LangChain supports; API keys are read from the environment.

    Args:
        model: Provider and model, such as `openai:gpt-4.1` or `ollama:llama3.1`.
        base_url: The base URL of the provider's API, if not the default. It can be any
            server that is compatible with OpenAI's API, or a local Ollama server.
        temperature: The sampling temperature.
        timeout_s: The time limit of a request in seconds.
        retries: The maximum number of retries after a failed request.
        silence: Whether a request that is rejected or times out counts as an empty
            reply.

    Raises:
        MissingDependency: LangChain or the provider's package is not installed.
        InvalidInput: The model cannot be used.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "",
        temperature: float = 0.0,
        timeout_s: float = 60.0,
        retries: int = 2,
        silence: bool = False,
    ) -> None:
        try:
            from langchain.chat_models import init_chat_model
        except ImportError as error:
            raise MissingDependency("a chat model", "llm") from error
        self._name, self._address, self._answered = model, base_url, False
        self._silence = silence
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
                # By default, models share connections, and closing one model closes all
                # of them.
                from httpx import Timeout

                settings["timeout"] = Timeout(timeout_s)
            self._model = init_chat_model(model, **settings)
        except ImportError as error:
            raise MissingDependency(f"the provider {provider!r:.40}", "llm") from error
        except Exception as error:
            # Providers raise exceptions of their own, most often because a key is
            # missing.
            raise InvalidInput(
                f"the model {model!r:.60} cannot be used: {error}",
                mend="write PROVIDER:MODEL, such as ollama:llama3.1; keys come "
                "from the environment",
            ) from error
        weakref.finalize(self, _close, self._model)

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Returns the model's reply to a conversation.

        Raises:
            ModelError: The provider rejected the request or did not answer in time.
        """
        try:
            said = self._model.invoke([(m.role, m.text) for m in messages])
        except Exception as error:
            if not self._answered and _is_refused(error):
                where = self._address or "its default address"
                raise Unreachable(
                    f"the model {self._name} cannot be reached: {where} refuses "
                    "connections (start the server, or give another base URL)"
                ) from error
            why = f"{type(error).__name__}: {error}"
            if self._silence:
                logging.getLogger("forewarn.chat").warning("no reply: %s", why)
                return Reply("")
            raise ModelError(why) from error
        self._answered = True
        took: Any = getattr(said, "usage_metadata", None) or {}
        return Reply(
            str(said.text),
            int(took.get("input_tokens", 0)),
            int(took.get("output_tokens", 0)),
        )


def _close(model: object) -> None:
    """Closes the connections of a model, as far as the provider's package allows."""
    for name in ("root_client", "_client"):
        client = getattr(model, name, None)
        for each in (getattr(client, "_client", None), client):
            close = getattr(each, "close", None)
            if callable(close):
                close()


def _is_refused(error: BaseException | None) -> bool:
    """Whether an error was caused by a refused connection."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return any(isinstance(each, ConnectionRefusedError) for each in seen)
