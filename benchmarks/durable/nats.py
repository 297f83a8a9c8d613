"""NATS JetStream: a stream in files, each message acknowledged; as it comes, without an fsync per message."""

import itertools
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.durable.lane import SIZE, Lane, Outcome, Pattern, Refused
from benchmarks.targets.nats import Nats
from benchmarks.targets.target import Shape, read_exactly, read_until

_INBOX = "_INBOX.bench"


class JetStream(Nats):
    name: ClassVar[str] = "nats"
    promise: ClassVar[str] = "no fsync before the answer (every 2 minutes, its default)"

    def __init__(self) -> None:
        super().__init__()
        self._streams = itertools.count()

    def command(self, directory: Path) -> Sequence[str]:
        command = super().command(directory)
        with (directory / "nats.conf").open("a") as file:
            file.write(f'jetstream {{ store_dir: "{directory / "jetstream"}" }}\n')
        return command

    def publish(self, window: int, seconds: float, batched: bool) -> Outcome:  # noqa: ARG002
        stream = f"BENCH{next(self._streams)}"
        with self.publisher([], Shape(0)).socket as link:
            link.sendall(b"SUB %s.> 1\r\nPING\r\n" % _INBOX.encode())
            read_until(link, b"PONG\r\n")
            wish = {"name": stream, "subjects": [stream], "storage": "file", "retention": "limits", "discard": "old"}
            _ask(link, f"$JS.API.STREAM.CREATE.{stream}", wish)
            head = f"PUB {stream} {_INBOX}.a {SIZE}\r\n".encode()
            outcome = Lane(link, head + b"x" * SIZE + b"\r\n", Pattern(b'"seq":')).drive(window, seconds)
            _ask(link, f"$JS.API.STREAM.DELETE.{stream}", {})
        return outcome


def _ask(link: socket.socket, subject: str, wish: dict[str, Any]) -> None:
    payload = json.dumps(wish).encode()
    link.sendall(f"PUB {subject} {_INBOX}.api {len(payload)}\r\n".encode() + payload + b"\r\n")
    while True:
        line = read_until(link, b"\r\n").split()
        if line[:1] == [b"-ERR"]:
            raise Refused(b" ".join(line).decode())
        if line[:1] == [b"MSG"]:
            answer = json.loads(read_exactly(link, int(line[-1]) + 2))
            if "error" in answer:
                raise Refused(str(answer["error"]))
            if str(answer.get("type", "")).startswith("io.nats.jetstream.api"):
                return
