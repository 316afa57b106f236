"""What is installed for CARLA, and whether client and server versions match."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from forewarn.abstractions.errors import ForewarnError, MissingDependency
from forewarn.plugins.support import Support, installed

_RELEASE = re.compile(r"\d+\.\d+\.\d+")


class VersionMismatch(ForewarnError):
    """The client library's version is not the server's, so calls are unsafe."""

    exit_status = 3

    def __init__(self, client: str, server: str) -> None:
        self.client, self.server = client, server
        wanted = _RELEASE.match(server)
        mend = f"pip install carla=={wanted[0]}" if wanted else "install the same one"
        super().__init__(
            f"the carla package is {client:.40} and the server is {server:.40}: {mend}"
        )


def carla_module() -> Any:
    """CARLA's client library.

    Raises:
        MissingDependency: It is not installed.
    """
    try:
        return import_module("carla")
    except ImportError as error:
        raise MissingDependency("the world carla", "carla") from error


def examine() -> Support:
    """Reports what is installed; it contacts no server."""
    return installed("carla", "carla", "msgpack")


def check_versions(client: Any) -> str:
    """Checks that client and server have the same version.

    Returns:
        That version.

    Raises:
        VersionMismatch: They differ.
    """
    own, theirs = str(client.get_client_version()), str(client.get_server_version())
    if _bare(own) != _bare(theirs):
        raise VersionMismatch(own, theirs)
    return _bare(own)


def _bare(version: str) -> str:
    """A version without its build suffix."""
    found = _RELEASE.match(version)
    return found[0] if found else version
