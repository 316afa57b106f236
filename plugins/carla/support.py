"""Checks what is installed for CARLA, and whether the server has the same version."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from forewarn.abstractions.errors import ForewarnError, MissingDependency
from forewarn.plugins.support import Support, installed

_RELEASE = re.compile(r"\d+\.\d+\.\d+")


class VersionMismatch(ForewarnError):
    """The client library and the server differ in version, so calls are unsafe."""

    exit_status = 3

    def __init__(self, client: str, server: str) -> None:
        self.client, self.server = client, server
        wanted = _RELEASE.match(server)
        mend = (
            f"pip install carla=={wanted[0]}" if wanted else "install the same version"
        )
        super().__init__(
            f"the carla package has the version {client:.40}, but the server has "
            f"{server:.40}: {mend}"
        )


def carla_module() -> Any:
    """Imports CARLA's client library.

    Raises:
        MissingDependency: The library is not installed.
    """
    try:
        return import_module("carla")
    except ImportError as error:
        raise MissingDependency("the world carla", "carla") from error


def examine() -> Support:
    """Reports what is installed, without contacting a server."""
    return installed("carla", "carla", "msgpack")


def check_versions(client: Any) -> str:
    """Checks that client and server have the same version.

    Returns:
        The common version.

    Raises:
        VersionMismatch: The versions differ.
    """
    own, theirs = str(client.get_client_version()), str(client.get_server_version())
    if _bare(own) != _bare(theirs):
        raise VersionMismatch(own, theirs)
    return _bare(own)


def _bare(version: str) -> str:
    """Returns the version without a build suffix."""
    found = _RELEASE.match(version)
    return found[0] if found else version
