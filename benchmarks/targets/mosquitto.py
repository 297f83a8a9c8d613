"""mosquitto, from Debian: MQTT 3.1.1, QoS 0."""

import itertools
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.targets import debian
from benchmarks.targets.target import Publisher, Shape, Subscriber, Target, read_exactly

_CONFIGURATION = """\
listener {port} 127.0.0.1
allow_anonymous true
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
persistence false
log_type error
"""
_CONNECT, _PUBLISH, _SUBSCRIBE = 0x10, 0x30, 0x82
_CLEAN_SESSION = 2


class Mosquitto(Target):
    name: ClassVar[str] = "mosquitto"
    separator: ClassVar[str] = "/"

    def __init__(self) -> None:
        super().__init__()
        self._clients = itertools.count()

    def prepare(self, directory: Path, install: bool) -> str:  # noqa: ARG002
        self._program = debian.program("mosquitto", "mosquitto", install)
        # its help begins with its version, and ends with a status that is not 0
        text = subprocess.run([self._program, "-h"], check=False, capture_output=True, text=True).stdout
        return text.split("\n", 1)[0].removeprefix("mosquitto version ").strip()

    def command(self, directory: Path) -> Sequence[str]:
        configuration = directory / "mosquitto.conf"
        configuration.write_text(_CONFIGURATION.format(port=self.port))
        return [self._program, "-c", str(configuration)]

    def publisher(self, topics: Sequence[str], shape: Shape) -> Publisher:  # noqa: ARG002
        link = self.connect()
        name = f"bench{next(self._clients)}"
        link.sendall(_packet(_CONNECT, _text("MQTT") + bytes([4, _CLEAN_SESSION, 0, 0]) + _text(name)))
        answer = read_exactly(link, 4)
        if answer[3] != 0:
            raise ConnectionError(f"mosquitto refused the connection with code {answer[3]}")
        return Publisher(link, _frame)

    def subscriber(self, topic: str, where: str = "") -> Subscriber:  # noqa: ARG002
        link = self.publisher([], Shape(0)).socket
        link.sendall(_packet(_SUBSCRIBE, b"\0\1" + _text(topic) + b"\0"))
        read_exactly(link, 5)
        return Subscriber(link)


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _packet(kind: int, content: bytes) -> bytes:
    size, length = bytearray(), len(content)
    while True:
        length, digit = divmod(length, 128)
        size.append(digit | (128 if length else 0))
        if not length:
            return bytes([kind, *size]) + content


def _frame(topic: str, shape: Shape, number: int) -> bytes:  # noqa: ARG001
    return _packet(_PUBLISH, _text(topic) + shape.body)
