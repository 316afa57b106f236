"""A node of cyber_py3, inside Apollo's container.

cyber_py3 comes with Apollo and from no registry: it is detected, never declared. Its
`Rate` is avoided, for it does not wait at rates of 1 Hz and more.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from forewarn.abstractions.errors import ForewarnError
from forewarn.apollo_bridge.buses.contract import Callback, Client, Health, Writer
from forewarn.apollo_bridge.support import PLACES


class NoCyber(ForewarnError):
    """cyber_py3 is not here, or does not start."""

    exit_status = 3


def find_cyber() -> Any:
    """The module `cyber` of cyber_py3.

    Raises:
        NoCyber: It is not here.
    """
    why = "it is not installed"
    for place in PLACES:
        try:
            return import_module(f"{place}.cyber")
        except ImportError as error:
            # Its own missing pieces say more than that the other place is empty.
            if error.name is not None and not place.startswith(error.name):
                why = str(error)
    raise NoCyber(
        f"there is no cyber_py3 here: {why} (run inside Apollo's container, after"
        " `source cyber/setup.bash`; from outside use --bridge tcp://HOST:9090)"
    )


class NodeBus:
    """A node as a bus.

    Args:
        cyber: The module `cyber`; by default the one that is here.
    """

    def __init__(self, cyber: Any = None) -> None:
        self._cyber = find_cyber() if cyber is None else cyber
        if not self._cyber.ok() and not self._cyber.init("forewarn"):
            raise NoCyber("cyber does not start: is this container's cyber set up?")
        self._node = self._cyber.Node("forewarn")
        self.health = Health(connected=True)

    def create_reader(
        self, name: str, data_type: Any, callback: Callback, args: Any = None
    ) -> Any:
        return self._node.create_reader(name, data_type, callback, args)

    def create_writer(self, name: str, data_type: Any, qos_depth: int = 1) -> Writer:
        writer: Writer = self._node.create_writer(name, data_type, qos_depth)
        return writer

    def create_client(self, name: str, request_type: Any, response_type: Any) -> Client:
        client: Client = self._node.create_client(name, request_type, response_type)
        return client

    def services(self) -> frozenset[str]:
        """The services that cyber's discovery knows of; listens for two seconds."""
        return frozenset(self._cyber.ServiceUtils.get_services())

    def close(self) -> None:
        if self.health.connected:
            self.health.connected = False
            self._cyber.shutdown()
