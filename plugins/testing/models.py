"""A chat model over a real wire: a server that speaks OpenAI's protocol."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any

MODEL = "openai:scripted"
KEY = token_urlsafe()
"""What has to be shown to a model served here, as OPENAI_API_KEY."""

Says = Callable[[list[str]], str | None]
"""What it replies to the texts of a conversation; None: nothing, and too late."""

_LONGEST = 1_000_000  # bytes of what may be asked
_LATE_S = 20.0


def in_turn(replies: Sequence[str]) -> Says:
    """One reply after the other, as far as the conversation has come."""
    return lambda texts: replies[len(texts) // 2 % len(replies)]


class Model:
    """What was asked, and where.

    Args:
        says: What it replies.
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
    """The model while it can be asked."""
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
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        yield model
        model.over.set()
        server.shutdown()
        thread.join()
