"""Alerts: the log and the webhook."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Decision
from forewarn.plugins.loop.alerts import QUEUE_LENGTH, LogAlerts, Webhook, is_loopback

DECISION = Decision("slow", 3, 0.3, "51_5", reason="it is at risk")


def test_the_log_tells_what_law_and_why(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="forewarn"):
        LogAlerts().alerted(DECISION)
        LogAlerts().alerted(Decision("stop", 4, 0.4, reason="bad \x1b[31m%s\nframe"))
    assert caplog.messages == [
        "slow at 0.3 s: 51_5: it is at risk",
        "stop at 0.4 s: bad %s frame",
    ]


class Listener:
    """A server that keeps what is posted, and answers as it is told."""

    def __init__(self) -> None:
        heard: list[Any] = []
        arrived = self.arrived = threading.Semaphore(0)
        self.heard, self.status, self.hold = heard, 200, threading.Event()
        self.hold.set()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                heard.append((self.path, json.loads(self.rfile.read(length))))
                arrived.release()
                listener.hold.wait(20)
                self.send_response(listener.status)
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/alert?who=1"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.hold.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


def test_a_webhook_posts_the_decision(listener: Listener) -> None:
    webhook = Webhook(listener.url)
    webhook.alerted(DECISION)
    webhook.close()
    assert listener.heard == [("/alert?who=1", DECISION.as_dict())]
    assert (webhook.sent, webhook.dropped) == (1, 0)


@pytest.mark.parametrize("status", [302, 404, 500])
def test_what_is_not_taken_is_counted_and_not_followed(
    listener: Listener, status: int
) -> None:
    listener.status = status
    webhook = Webhook(listener.url)
    webhook.alerted(DECISION)
    webhook.close()
    assert (len(listener.heard), webhook.sent, webhook.dropped) == (1, 0, 1)


def test_hanging_listener_does_not_block_the_guard(listener: Listener) -> None:
    listener.hold.clear()
    webhook = Webhook(listener.url)
    webhook.alerted(DECISION)
    assert listener.arrived.acquire(timeout=20)
    for _ in range(QUEUE_LENGTH + 5):
        webhook.alerted(DECISION)
    assert webhook.dropped == 5
    listener.hold.set()
    webhook.close()


def test_unreachable_webhook_is_counted() -> None:
    webhook = Webhook("http://127.0.0.1:9/")
    webhook.alerted(DECISION)
    webhook.close()
    assert (webhook.sent, webhook.dropped) == (0, 1)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://127.0.0.1/", "not an HTTP or HTTPS URL"),
        ("http:///path", "not an HTTP or HTTPS URL"),
        ("http://127.0.0.1:99999/", "invalid port"),
        ("http://192.0.2.1/", "192.0.2.1 is not on this machine"),
        ("http://no.such.host.invalid/", "is not on this machine"),
    ],
)
def test_where_it_may_not_post(url: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Webhook(url)


def test_one_other_host_may_be_allowed() -> None:
    Webhook("http://192.0.2.1/", allow_host="192.0.2.1").close()


def test_what_is_this_machine() -> None:
    assert is_loopback("127.0.0.1") and is_loopback("127.8.8.8")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")  # noqa: S104
    assert not is_loopback("no.such.host.invalid")
