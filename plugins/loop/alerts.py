"""Alerts: listeners that notify people of interventions without blocking the loop."""

from __future__ import annotations

import ipaddress
import json
import logging
import queue
import socket
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

from forewarn.abstractions.errors import InvalidInput, clean
from forewarn.monitors.guarding.decision import Decision
from forewarn.monitors.guarding.listening import Listener

LOGGER = "forewarn"
QUEUE_LENGTH = 100
TIMEOUT_S = 5.0
"""The time limit for posting an alert, in seconds."""
FAREWELL_S = 8.0
"""The time limit for posting the last alerts at the end, in seconds.

It is slightly less than the time that a campaign allows its processes to exit.
"""


def tell(level: int, text: str, *values: object) -> None:
    """Logs a message; if that fails, the guard goes on without it."""
    with suppress(Exception):
        logging.getLogger(LOGGER).log(level, text, *values)


class LogAlerts(Listener):
    """Writes a warning to the logger `forewarn` when an intervention begins."""

    def alerted(self, decision: Decision) -> None:
        law = f" {decision.law}:" if decision.law else ""
        text = f"{decision.kind} at {decision.time_s:g} s:{law} {decision.reason}"
        # The risk band and the largest contributions to the hazard score.
        if scored := [each for each in decision.evidence if ": " in each]:
            text += f" ({'; '.join(scored)})"
        tell(logging.WARNING, "%s", clean(text.replace("\n", " ")))


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host are loopback addresses."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    addresses = {str(entry[4][0]).partition("%")[0] for entry in found}
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)


class Webhook(Listener):
    """Posts a decision as JSON when an intervention begins, from a separate thread.

    An alert is dropped if it cannot be sent within five seconds, or if 100 alerts are
    already queued; `dropped` counts these alerts. Redirects are not followed.

    Args:
        url: The URL; its host must be a loopback address or `allow_host`.
        allow_host: A host that is allowed although it is not a loopback address.
    """

    def __init__(self, url: str, *, allow_host: str | None = None) -> None:
        parts = urlsplit(url)
        host = parts.hostname
        if parts.scheme not in ("http", "https") or not host:
            problem = f"the webhook is not an HTTP or HTTPS URL: {url!r:.80}"
            raise InvalidInput(problem, mend="write it as in https://example.org/hook")
        try:
            port = parts.port
        except ValueError as error:
            raise InvalidInput(
                f"the webhook's URL has an invalid port: {url!r:.80}"
            ) from error
        if host != allow_host and not is_loopback(host):
            raise InvalidInput(
                f"the webhook's host {host} is not on this machine",
                mend="allow the host with --webhook-host, or with allow_host in Python",
            )
        from http import client

        secure = parts.scheme == "https"
        self._connect = client.HTTPSConnection if secure else client.HTTPConnection
        self._failures = (OSError, client.HTTPException)
        self._host, self._port = host, port
        self._address = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._waiting: queue.Queue[bytes | None] = queue.Queue(QUEUE_LENGTH)
        self.sent = self.dropped = 0
        self._thread = threading.Thread(
            target=self._work, name="forewarn-webhook", daemon=True
        )
        self._thread.start()

    def alerted(self, decision: Decision) -> None:
        try:
            self._waiting.put_nowait(json.dumps(decision.as_dict()).encode())
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        """Sends the queued alerts, for at most eight seconds."""
        until_s = time.monotonic() + FAREWELL_S
        try:
            self._waiting.put(None, timeout=FAREWELL_S)
        except queue.Full:
            return
        self._thread.join(max(0.0, until_s - time.monotonic()))

    def _work(self) -> None:
        while (body := self._waiting.get()) is not None:
            if self._post(body):
                self.sent += 1
                continue
            if not self.dropped:
                told = "the webhook %s failed, so alerts are dropped"
                tell(logging.WARNING, told, self._address)
            self.dropped += 1

    def _post(self, body: bytes) -> bool:
        connection = self._connect(self._host, self._port, timeout=TIMEOUT_S)
        try:
            head = {"Content-Type": "application/json"}
            connection.request("POST", self._path, body, head)
            return 200 <= connection.getresponse().status < 300
        except self._failures:
            return False
        finally:
            connection.close()
