"""RabbitMQ, from Debian: a quorum queue of one member with publisher confirms, spoken to in AMQP 0-9-1."""

import itertools
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.durable.lane import SIZE, Lane, Outcome, Refused
from benchmarks.process import Server, free_port
from benchmarks.targets import debian
from benchmarks.targets.target import Broker, TargetError, read_exactly

_LIBRARY = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # Debian's own command gives root up and our directory with it
_END = b"\xce"
_METHOD, _HEADER, _BODY = 1, 2, 3
_START, _TUNE, _OPENED = (10, 10), (10, 30), (10, 41)
_ACK, _CLOSE = (60, 80), (20, 40)


class RabbitMq(Broker):
    name: ClassVar[str] = "rabbitmq"
    promise: ClassVar[str] = "fsync before each answer, of a batch (quorum queue)"
    ports: ClassVar[int] = 2  # AMQP, and the one that nodes would talk over
    start_within: ClassVar[float] = 90.0

    def __init__(self) -> None:
        super().__init__()
        self._queues = itertools.count()
        self._mapper: Server | None = None
        self._mapper_port = 0

    def prepare(self, directory: Path, install: bool) -> str:  # noqa: ARG002
        debian.program("rabbitmq-server", "rabbitmq-server", install)
        if not _LIBRARY.exists():
            raise TargetError(f"there is no {_LIBRARY}: this is not Debian's rabbitmq-server")
        query = ["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"]
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split("-")[0]

    def start(self, directory: Path) -> None:
        """With a port mapper of our own: the one that it would start outlives it."""
        mapper = shutil.which("epmd")
        if mapper is None:
            raise TargetError("there is no epmd: apt-get install erlang-base")
        self._mapper_port = free_port()
        self._mapper = Server([mapper, "-port", str(self._mapper_port)], directory.parent / "epmd.txt")
        self._mapper.wait_for(self._mapper_port)
        super().start(directory)

    def stop(self) -> None:
        super().stop()
        if self._mapper is not None:
            self._mapper.stop()
            self._mapper = None

    def command(self, directory: Path) -> Sequence[str]:  # noqa: ARG002
        return [str(_LIBRARY)]

    def environment(self, directory: Path) -> Mapping[str, str]:
        (directory / "plugins").write_text("[].\n")
        return {
            "HOME": str(directory),  # of the cookie
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.port + 1),
            "RABBITMQ_MNESIA_BASE": str(directory / "data"),
            "RABBITMQ_LOG_BASE": str(directory / "logs"),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(directory / "none"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "none"),
        }

    def publish(self, window: int, seconds: float, batched: bool) -> Outcome:  # noqa: ARG002
        queue = f"bench{next(self._queues)}"
        with self.connect() as link:
            _greet(link)
            arguments = _short("x-queue-type") + b"S" + _long(b"quorum")
            _call(link, 1, (50, 10), struct.pack(">H", 0) + _short(queue) + b"\x02" + _long(arguments), (50, 11))
            _call(link, 1, (85, 10), b"\0", (85, 11))
            outcome = Lane(link, _message(queue), _Confirms()).drive(window, seconds)
            _call(link, 1, (50, 40), struct.pack(">H", 0) + _short(queue) + b"\0", (50, 41))
        return outcome


# ---- AMQP 0-9-1, as much of it as it takes


def _short(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


def _long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + _END


def _method(channel: int, method: tuple[int, int], arguments: bytes) -> bytes:
    return _frame(_METHOD, channel, struct.pack(">HH", *method) + arguments)


def _message(queue: str) -> bytes:
    """Publish to the default exchange: a persistent message with its header and its body."""
    method = _method(1, (60, 40), struct.pack(">H", 0) + _short("") + _short(queue) + b"\0")
    header = _frame(_HEADER, 1, struct.pack(">HHQHB", 60, 0, SIZE, 0x1000, 2))
    return method + header + _frame(_BODY, 1, b"x" * SIZE)


def _read(link: socket.socket) -> tuple[tuple[int, int], bytes]:
    """The next method and its arguments."""
    while True:
        kind, _, size = struct.unpack(">BHI", read_exactly(link, 7))
        payload = read_exactly(link, size + 1)[:-1]
        if kind == _METHOD:
            return struct.unpack(">HH", payload[:4]), payload[4:]


def _call(
    link: socket.socket, channel: int, method: tuple[int, int], arguments: bytes, answer: tuple[int, int]
) -> None:
    link.sendall(_method(channel, method, arguments))
    while True:
        got, rest = _read(link)
        if got == answer:
            return
        if got in (_CLOSE, (10, 50)):
            raise Refused(rest[3 : 3 + rest[2]].decode(errors="replace"))


def _greet(link: socket.socket) -> None:
    """A connection as guest, and its channel 1."""
    link.sendall(b"AMQP\0\0\x09\x01")
    while (got := _read(link))[0] != _START:
        pass
    link.sendall(_method(0, (10, 11), _long(b"") + _short("PLAIN") + _long(b"\0guest\0guest") + _short("en_US")))
    while (got := _read(link))[0] != _TUNE:
        if got[0] == (10, 50):
            raise Refused("the connection was refused")
    link.sendall(_method(0, (10, 31), got[1][:6] + struct.pack(">H", 0)))  # no heartbeats
    _call(link, 0, (10, 40), _short("/") + _short("") + b"\0", _OPENED)
    _call(link, 1, (20, 10), _short(""), (20, 11))


class _Confirms:
    """Counts confirmed messages: a confirm names one, or all up to it."""

    def __init__(self) -> None:
        self._rest = b""
        self._singles: set[int] = set()
        self._upto = 0

    def __call__(self, data: bytes) -> int:
        if not data:
            raise ConnectionError("the broker closed the link")
        before = self._upto + len(self._singles)
        data, at = self._rest + data, 0
        while len(data) - at >= 7:
            kind, _, size = struct.unpack_from(">BHI", data, at)
            if len(data) - at < size + 8:
                break
            if kind == _METHOD and (method := struct.unpack_from(">HH", data, at + 7)) != _ACK:
                raise Refused(f"it said {method} instead of confirming")
            tag, several = struct.unpack_from(">QB", data, at + 11)
            self._confirm(tag, bool(several))
            at += size + 8
        self._rest = data[at:]
        return self._upto + len(self._singles) - before

    def _confirm(self, tag: int, several: bool) -> None:
        if several:
            self._upto = max(self._upto, tag)
            self._singles = {each for each in self._singles if each > self._upto}
        elif tag == self._upto + 1:
            self._upto = tag
        else:
            self._singles.add(tag)
        while self._upto + 1 in self._singles:
            self._upto += 1
            self._singles.remove(self._upto)
