"""Recording proxies: one in front of every role, which keep every byte that goes either way."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field

SOURCE = "127.77.5."  # where requests seem to come from: an address that nothing else has


@dataclass
class Connection:
    """What one peer has sent, and what it was answered."""

    sent: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: int = 0


class Tap:
    """Listens where the task says that a role is, and passes on to where it is."""

    def __init__(self, number: int) -> None:
        self._source = f"{SOURCE}{number}"
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.target = 0
        self.connections: list[Connection] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def received(self) -> bytes:
        return b"\n".join(bytes(each.sent) for each in self.connections)

    def answers_to(self, mark: bytes) -> bytes:
        """What the role has answered on connections on which this was sent."""
        return b"\n".join(bytes(each.answered) for each in self.connections if mark in each.sent)

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:
                return
            try:
                role = socket.create_connection(
                    ("127.0.0.1", self.target), timeout=600, source_address=(self._source, 0)
                )
            except OSError:
                peer.close()  # it is not there yet
                continue
            held = Connection()
            self.connections.append(held)
            for one, other, kept in ((peer, role, held.sent), (role, peer, held.answered)):
                threading.Thread(target=_pass, args=(one, other, kept, held), daemon=True).start()


def _pass(one: socket.socket, other: socket.socket, kept: bytearray, held: Connection) -> None:
    """Until one side ends; the last of both directions closes."""
    with suppress(OSError):
        while piece := one.recv(1 << 16):
            kept += piece
            other.sendall(piece)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)
    with held.lock:
        held.ended += 1
        if held.ended == 2:
            one.close()
            other.close()
