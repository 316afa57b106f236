"""Sends every message back as it came: what a round over loopback takes by itself."""

from __future__ import annotations

import socket


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := connection.recv(1 << 16):
                connection.sendall(data)


if __name__ == "__main__":
    main()
