"""A server for a scripted language model, which LangChain talks to over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any

KEY = token_urlsafe()
"""The API key that the model server requires, in the variable OPENAI_API_KEY."""

Says = Callable[[list[str]], str | None]
"""Returns the reply to the texts of a conversation; None means a late reply.
"""

_LONGEST = 1_000_000  # maximum size of a request in bytes
_LATE_S = 20.0


class Model:
    """A scripted language model, and the requests that it has received.

    Args:
        says: Chooses the reply to a conversation.
    """

    def __init__(self, says: Says) -> None:
        self.says = says
        self.url = ""
        self.asked: list[list[str]] = []
        self.over = threading.Event()

    def reply(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        texts = [message["content"] for message in asked["messages"]]
        self.asked.append(texts)
        said = self.says(texts)
        if said is None:
            self.over.wait(_LATE_S)
            return None
        message = {"role": "assistant", "content": said}
        return {
            "id": "1", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        }  # fmt: skip


@contextmanager
def serving(says: Says, key: str = KEY) -> Iterator[Model]:
    """Runs a server for a scripted language model until the end of the block."""
    model = Model(says)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            if self.headers["Authorization"] != f"Bearer {key}" or length > _LONGEST:
                self.send_error(403)
                return
            answer = model.reply(json.loads(self.rfile.read(length)))
            if answer is None:
                return
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        yield model
        model.over.set()
        server.shutdown()
        thread.join()
