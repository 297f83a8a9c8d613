"""A proxy in front of PostgreSQL that cuts a connection at a COMMIT, in the ways that leave a client in doubt."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

_SOCKET = ".s.PGSQL.5432"
_PARSE = 6  # bytes in front of the text of a statement


class Cut(Enum):
    BEFORE = "the server never gets the COMMIT"
    AFTER = "the server has answered it, the client never hears"
    LATE = "the server gets it when the client has given up already"


class CuttingProxy:
    """Passes everything on, until it is told to cut."""

    def __init__(self, url: str, path: Path) -> None:
        self._target = Path(parse_qs(urlsplit(url).query)["host"][0]) / _SOCKET
        self.url = f"postgresql://postgres:@/postgres?host={quote(str(path))}"
        self.cut: Cut | None = None
        self.cuts = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path / _SOCKET))
        self._listener.listen()
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, action: Callable[..., None], *values: object) -> None:
        thread = threading.Thread(target=action, args=values, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        for each in self._sockets:
            _end(each)
        for thread in self._threads:
            thread.join(10)
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._target))
            silent = threading.Event()
            self._sockets += (client, server)
            self._start(self._requests, client, server, silent)
            self._start(self._answers, server, client, silent)

    def _requests(self, client: socket.socket, server: socket.socket, silent: threading.Event) -> None:
        while data := _received(client):
            at = data.find(b"COMMIT")
            if self.cut is None or at < 0:
                _send(server, data)
                continue
            cut, self.cut = self.cut, None
            self.cuts += 1
            silent.set()
            _send(server, data if cut is Cut.AFTER else data[: at - _PARSE])
            time.sleep(0.2)  # it works on it
            _end(client)
            if cut is Cut.LATE:
                time.sleep(0.5)
                _send(server, data[at - _PARSE :])
                time.sleep(0.2)
        _end(server)

    def _answers(self, server: socket.socket, client: socket.socket, silent: threading.Event) -> None:
        while data := _received(server):
            if not silent.is_set():
                _send(client, data)
        _end(client)


def _send(connection: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        connection.sendall(data)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 16)
    except OSError:
        return b""
