"""ai2thor's controller and server, with time limits and a clean shutdown.

Only `wire.connect` imports this module, because it requires ai2thor.
"""

from __future__ import annotations

import atexit
import errno
import os
import select
import signal
import subprocess
import time
import uuid
from typing import Any

from forewarn.abstractions.errors import MissingDependency
from forewarn.thor_bridge.support import (
    OutOfStep,
    SimulatorDied,
    SimulatorError,
    SimulatorHung,
)

try:
    from ai2thor.controller import Controller
    from ai2thor.fifo_server import FifoServer
except ImportError as error:
    raise MissingDependency("AI2-THOR", "thor") from error

TICK_S = 0.05
"""The interval at which a waiting server checks that the player is alive."""

GRACE_S = 1.0
"""How long a player may take to exit after closing its pipe."""


class WatchedServer(FifoServer):  # type: ignore[misc]
    """ai2thor's FIFO server, with deadlines for opening, reading and writing."""

    server_pipe: Any
    client_pipe: Any
    unity_proc: subprocess.Popen[bytes] | None
    sequence_id: int

    def check_pulse(self, doing: str) -> None:
        """Raises `SimulatorDied` if the player's process has ended."""
        player = self.unity_proc
        if player is not None and player.poll() is not None:
            raise SimulatorDied(
                f"the simulator ended with status {player.returncode} while {doing};"
                " its output is in ~/.ai2thor/log/unity.log"
            )

    def check_sequence(self, metadata: dict[str, Any]) -> None:
        """Raises `OutOfStep` if the player's answer is for a different action."""
        if metadata["sequenceId"] != self.sequence_id:
            raise OutOfStep(
                f"the simulator answered action {metadata['sequenceId']!r:.20} instead"
                f" of {self.sequence_id}"
            )

    def end_player(self) -> None:
        """Ends the player and its child processes."""
        player = self.unity_proc
        if player is None:
            return
        try:
            os.killpg(player.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            player.kill()
        try:
            player.wait(GRACE_S)
        except subprocess.TimeoutExpired:  # pragma: no cover - stuck in the kernel
            pass

    def _recv_message(self, timeout: float | None) -> Any:
        if self.server_pipe is None:
            # Without O_NONBLOCK, opening would wait for a writer forever.
            descriptor = os.open(self.server_pipe_path, os.O_RDONLY | os.O_NONBLOCK)
            self.server_pipe = os.fdopen(descriptor, "rb", buffering=0)
            self._spoke = False
        return super()._recv_message(timeout)

    def _read_with_timeout(
        self, server_pipe: Any, message_size: int, timeout: float | None
    ) -> bytes:
        deadline = time.monotonic() + (timeout or self.timeout)
        descriptor, parts, left = server_pipe.fileno(), [], message_size
        closed_since: float | None = None
        while left > 0:
            ready, _, _ = select.select([descriptor], [], [], TICK_S)
            part = b""
            if ready:
                try:
                    part = os.read(descriptor, left)
                except BlockingIOError:
                    continue
            if part:
                self._spoke = True
                parts.append(part)
                left -= len(part)
                continue
            self.check_pulse("its answer was awaited")
            now = time.monotonic()
            if ready and self._spoke:
                closed_since = closed_since or now
                if now - closed_since > GRACE_S:
                    raise SimulatorDied("the simulator closed its pipe")
            if now > deadline:
                raise SimulatorHung(
                    f"the simulator did not answer for {timeout or self.timeout:g} s"
                )
            if ready:
                time.sleep(TICK_S)  # a closed pipe is always ready for reading
        return b"".join(parts)

    def _send_message(self, message_type: Any, body: bytes) -> None:
        self.check_pulse("it was being sent an action")
        if self.client_pipe is None:
            self.client_pipe = self._open_client_pipe()
        self._last_action_message = body
        data = memoryview(
            self._create_header(message_type, body) + body + self.eom_header
        )
        descriptor, deadline = self.client_pipe.fileno(), self._deadline()
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                select.select([], [descriptor], [], TICK_S)
                self._check(deadline, "an action was being sent")
            except BrokenPipeError as error:
                if self.unity_proc is not None:
                    try:
                        self.unity_proc.wait(GRACE_S)
                    except subprocess.TimeoutExpired:
                        pass
                self.check_pulse("it was being sent an action")
                raise SimulatorDied("the simulator closed its pipe") from error

    def _open_client_pipe(self) -> Any:
        deadline = self._deadline()
        while True:
            try:
                descriptor = os.open(self.client_pipe_path, os.O_WRONLY | os.O_NONBLOCK)
                return os.fdopen(descriptor, "wb", buffering=0)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
            self._check(deadline, "the first action was being sent")
            time.sleep(TICK_S / 10)

    def _deadline(self) -> float:
        return time.monotonic() + float(self.timeout)

    def _check(self, deadline: float, doing: str) -> None:
        self.check_pulse(doing)
        if time.monotonic() > deadline:
            raise SimulatorHung(
                f"the simulator accepted no data for {self.timeout:g} s while {doing}"
            )

    def create_event(self, metadata: dict[str, Any], files: Any) -> Any:
        self.check_sequence(metadata)
        return super().create_event(metadata, files)

    def stop(self) -> None:
        """Ends the player and removes the pipes; may be called more than once."""
        self.end_player()
        for pipe in (self.client_pipe, self.server_pipe):
            if pipe is not None:
                pipe.close()
        self.client_pipe = self.server_pipe = None
        self.tmp_dir.cleanup()


class WatchedController(Controller):  # type: ignore[misc]
    """ai2thor's controller, with time limits and complete clean-up."""

    def __init__(self, **settings: Any) -> None:
        self.server: Any = None
        try:
            super().__init__(**settings)
        except BaseException:
            self.stop()
            raise

    def _build_server(self, host: str, port: int, width: int, height: int) -> None:
        self.server = self.server or WatchedServer(
            width=width,
            height=height,
            timeout=self.server_timeout,
            depth_format=self.depth_format,
            add_depth_noise=self.add_depth_noise,
        )

    def _start_unity_thread(
        self,
        env: dict[str, str],
        width: int,
        height: int,
        server_params: dict[str, str],
        image_name: Any,
    ) -> None:
        """Starts the player as ai2thor does, but in a separate process group."""
        self.server.client_token = str(uuid.uuid4())
        env["AI2THOR_CLIENT_TOKEN"] = self.server.client_token
        env["AI2THOR_SERVER_TYPE"] = self.server.server_type
        env["AI2THOR_SERVER_SIDE_SCREENSHOT"] = str(not self.headless)
        env.update({f"AI2THOR_{k.upper()}": v for k, v in server_params.items()})
        env.update(
            self._build.platform.launch_env(self.width, self.height, self.x_display)
        )
        os.makedirs(self.log_dir, exist_ok=True)
        command = self.unity_command(width, height, self.headless)
        with open(os.path.join(self.log_dir, "unity.log"), "ab") as log:
            try:
                self.server.unity_proc = subprocess.Popen(  # noqa: S603
                    command,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                raise SimulatorDied(
                    f"the simulator could not be started: {error}"
                ) from error
        self.unity_pid = self.server.unity_proc.pid
        atexit.register(self.stop)

    def step(self, action: Any = None, **arguments: Any) -> Any:
        try:
            return super().step(action, **arguments)
        except SimulatorError:
            self.stop()
            raise
        except (RuntimeError, TimeoutError) as error:
            # ai2thor replaces its server's exception with one of its own.
            if isinstance(error.__context__, SimulatorError):
                self.stop()
                raise error.__context__ from None
            raise

    def stop(self) -> None:
        """Ends the player; may be called more than once."""
        atexit.unregister(self.stop)
        if self.server is not None:
            self.server.stop()
