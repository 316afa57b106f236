"""The page's real server, and real runs that tell it of themselves."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import ANY_LAW, Policy, Step
from forewarn.scenarios.live.feed import ToPage
from forewarn.scenarios.running.campaign import jobs, play
from forewarn.scenarios.running.plan import plan
from forewarn.scenarios.schema import load_scenario
from tests.scenarios import learned

STOPS = Policy(rules={ANY_LAW: (Step("stop", 0.3),)})


@dataclass(frozen=True, slots=True)
class Served:
    """A server that was started."""

    url: str
    feed: ToPage
    process: subprocess.Popen[bytes]

    @property
    def token(self) -> str:
        """What viewers must show."""
        return self.url.partition("#")[2]

    def ask(
        self, path: str, method: str = "GET", **headers: str
    ) -> http.client.HTTPResponse:
        """Asks for something; `Host` and the viewers' token are shown unless given."""
        line = http.client.HTTPConnection("127.0.0.1", self.feed.port, timeout=10)
        line.putrequest(method, path, skip_host=True)
        shown = {"Host": f"127.0.0.1:{self.feed.port}"}
        shown["Authorization"] = f"Bearer {self.token}"
        for name, value in (shown | headers).items():
            line.putheader(name, value)
        line.endheaders()
        return line.getresponse()

    def watch(self, enough: Any = None) -> list[list[Any]]:
        """What a viewer hears who comes now, until it has heard enough."""
        heard: list[list[Any]] = []
        with self.ask("/stream") as answer:
            assert answer.status == 200
            for line in answer:
                heard.append(json.loads(line))
                if enough is None or enough(heard):
                    break
        return heard

    @property
    def memory_kb(self) -> int:
        """What its process holds in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (each for each in status.splitlines() if each.startswith("VmRSS"))
        return int(line.split()[1])


@contextmanager
def serving() -> Iterator[Served]:
    """A server of its own, ended as its command ends it."""
    command = [sys.executable, "-m", "forewarn.scenarios.live.server"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None and process.stdout is not None
        said = json.loads(process.stdout.readline())
        feed = ToPage(said["host"], said["port"], said["token"])
        try:
            yield Served(said["page"], feed, process)
        finally:
            process.stdin.close()


def run(
    folder: Path, feed: Callable[[], Listener], seed: int = 9000, pace: float = 0.0
) -> None:
    """One guarded run on the tiny road, told to the page."""
    scenario = load_scenario("tiny-road")
    shared = plan(
        scenario, learned.model("tiny-road"), STOPS, listeners=[feed], pace=pace
    )
    (job,) = jobs(shared, scenario, [seed], folder)
    episode = play(job)
    assert not episode.failed, episode.error


def ended(heard: list[list[Any]]) -> bool:
    """Whether a run is over."""
    return heard[-1][1:2] == ["end"]
