"""Headless Chromium for tests, controlled by the DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0
"""The time limit for a single response, in seconds."""

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """An open page.

    `errors` lists the errors and warnings in the console. `requests` lists the URLs of
    all network requests, except for the page itself and inline data.
    """

    def __init__(self, browser: Browser, session: str, url: str) -> None:
        self._browser, self._session, self._url = browser, session, url
        self.errors: list[str] = []
        self.requests: list[str] = []

    def command(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command for this page, and returns the result."""
        return self._browser.command(method, params, self._session)

    def evaluate(self, script: str) -> Any:
        """Returns the value of a JavaScript expression in the page."""
        found = self.command(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, script: str) -> None:
        """Waits until an expression is true."""
        until = time.monotonic() + PATIENCE_S
        while not self.evaluate(script):
            assert time.monotonic() < until, f"{script} did not become true in time"
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Presses and releases a key."""
        code = {" ": ("Space", 32), "ArrowRight": ("ArrowRight", 39)}[key]
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.command(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=code[0],
                windowsVirtualKeyCode=code[1],
                **text,
            )

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """Saves a screenshot of the page."""
        found = self.command(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole
        )
        path.write_bytes(base64.b64decode(found["data"]))

    def heard(self, event: str, content: dict[str, Any]) -> None:
        """Handles an event that the browser reports for this page."""
        match event:
            case "Runtime.exceptionThrown":
                self.errors.append(str(content["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if content["type"] in ("error", "warning"):
                self.errors.append(str(content["args"]))
            case "Log.entryAdded" if content["entry"]["level"] in ("error", "warning"):
                self.errors.append(content["entry"]["text"])
            case "Network.requestWillBeSent":
                url = content["request"]["url"]
                if url != self._url and not url.startswith("data:"):
                    self.requests.append(url)


class Browser:
    """A running browser; `chromium()` starts one."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest, self._last = b"", 0
        self._pages: dict[str, Page] = {}

    def open(
        self,
        what: Path | str,
        width: int,
        height: int = 900,
        dark: bool = False,
        calm: bool = False,
    ) -> Page:
        """Opens a file or URL at a given window size, and waits until it is loaded."""
        url = what if isinstance(what, str) else what.as_uri()
        target = self.command("Target.createTarget", {"url": "about:blank"})
        session = self.command(
            "Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}
        )["sessionId"]
        page = self._pages[session] = Page(self, session, url)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.command(f"{domain}.enable")
        page.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme, motion = "dark" if dark else "light", "reduce" if calm else ""
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        page.command("Emulation.setEmulatedMedia", features=features)
        page.command("Page.navigate", url=url)
        page.wait_for("document.readyState === 'complete'")
        return page

    def close(self, page: Page) -> None:
        """Closes a page."""
        page.command("Page.close")

    def command(
        self, method: str, params: dict[str, Any], session: str | None = None
    ) -> dict[str, Any]:
        """Sends a command, and returns the result; passes earlier events to pages."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
        raise AssertionError(f"chromium exited before it answered {method}")

    def _messages(self) -> Iterator[dict[str, Any]]:
        until = time.monotonic() + PATIENCE_S
        while True:
            while b"\0" in self._rest:
                text, self._rest = self._rest.split(b"\0", 1)
                message = json.loads(text)
                page = self._pages.get(message.get("sessionId", ""))
                if "method" in message and page is not None:
                    page.heard(message["method"], message["params"])
                yield message
            left_s = until - time.monotonic()
            assert left_s > 0, f"chromium did not answer within {PATIENCE_S:g} s"
            if select.select([self._answers], [], [], left_s)[0]:
                data = os.read(self._answers, 1 << 20)
                if not data:
                    return
                self._rest += data


def _pipe() -> tuple[int, int]:
    """Creates a pipe whose file descriptors are not 3 or 4, which Chromium uses."""
    ends = os.pipe()
    found = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return found[0], found[1]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Runs a headless Chromium until the end of the block, even after an error."""
    assert CHROMIUM is not None
    theirs_in, commands = _pipe()
    answers, theirs_out = _pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--mute-audio",
            "--disable-component-update", "--disable-sync", "--hide-scrollbars",
            "--disable-dev-shm-usage", f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
        ]  # fmt: skip
        # Chromium reads commands from descriptor 3, and writes answers to 4.
        script = (
            f"import os, sys; os.dup2({theirs_in}, 3); os.dup2({theirs_out}, 4);"
            " os.execv(sys.argv[1], sys.argv[1:])"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", script, CHROMIUM, *options],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        browser = Browser(commands, answers)
        try:
            yield browser
            browser.command("Browser.close", {})
        finally:
            os.close(commands)
            os.close(answers)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
