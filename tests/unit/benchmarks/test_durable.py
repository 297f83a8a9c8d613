"""Durable publishing without brokers: what counts as an acknowledgement, and the table."""

import io
import socket
import struct
import threading

import pytest
from benchmarks.durable import report
from benchmarks.durable.lane import Lane, Pattern, Refused
from benchmarks.durable.rabbitmq import _Confirms
from benchmarks.durable.redis import _Replies
from benchmarks.durable.report import BATCHED, goals, workload
from benchmarks.results import Results, Sample
from rich.console import Console

from stentor.bench.machine import MachineDescription

MACHINE = MachineDescription(2, "a processor", 8.0, "Linux", "CPython", 0.1)


def split(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 5, 7, 1000])
def test_acknowledgements_are_counted_however_they_are_cut(size: int) -> None:
    acks = b"".join(b'MSG _INBOX.a 1 27\r\n{"stream":"B", "seq":%d}\r\n' % number for number in range(50))
    count = Pattern(b'"seq":')
    assert sum(map(count, split(acks, size))) == 50
    replies = _Replies()
    assert sum(map(replies, split(b"$15\r\n1700000000000-0\r\n" * 50, size))) == 50
    confirms = _Confirms()
    told = b"".join(map(confirm, [(1, False), (3, False), (2, False), (10, True), (12, False), (20, True)]))
    assert sum(map(confirms, split(told, size))) == 20


def confirm(what: tuple[int, bool]) -> bytes:
    payload = struct.pack(">HHQB", 60, 80, *what)
    return struct.pack(">BHI", 1, 1, len(payload)) + payload + b"\xce"


def test_a_refusal_is_no_acknowledgement() -> None:
    with pytest.raises(Refused, match="NOSPACE"):
        _Replies()(b"-NOSPACE\r\n")
    payload = struct.pack(">HHQB", 60, 120, 1, 0)
    with pytest.raises(Refused):
        _Confirms()(struct.pack(">BHI", 1, 1, len(payload)) + payload + b"\xce")


def test_no_more_than_a_window_is_under_way() -> None:
    ours, theirs = socket.socketpair()
    most = 0

    def serve() -> None:
        nonlocal most
        while data := theirs.recv(4096):
            most = max(most, len(data))
            theirs.sendall(b"!" * len(data))

    server = threading.Thread(target=serve)
    server.start()
    outcome = Lane(ours, b"?", lambda data: data.count(b"!")).drive(8, 0.05)
    ours.close()
    server.join()
    theirs.close()
    assert outcome.acknowledged > 8
    assert 0 < most <= 8


def test_the_table_has_ratios_against_peers() -> None:
    found = Results("durable", "2026-01-01", MACHINE, {"rounds": 3, "fdatasync_us": 180.0}, {"redis": "7"})
    for contestant, rate in (("redis", 100e3), ("nats", 200e3), ("stentor segments", 90e3)):
        for number in range(3):
            found.samples.append(Sample(workload(1024), contestant, number, {"rate": rate, "noise_cores": 0.1}))
    found.samples.append(Sample(workload(1024), "stentor segments" + BATCHED, 1, {"rate": 450e3}))
    found.samples.append(Sample(workload(1), "stentor sqlite", 1, {}, "it broke"))
    found.skipped["rabbitmq"] = "not here"
    verdicts = {(each.contestant, each.goal): (each.ratio, each.met) for each in found.judge(goals())}
    assert verdicts["stentor segments", "rate ≥ 4x redis"] == (0.9, False)
    assert verdicts["stentor segments batched", "rate ≥ 4x redis"] == (4.5, True)
    assert verdicts["stentor segments batched", "rate ≥ 1.5x nats"] == (2.25, True)
    console = Console(file=io.StringIO(), width=160)
    report.show(found, {"redis": "fsync"}, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for expected in ("450.0", "failed", "skipped rabbitmq: not here", "180 µs", "4.50x", "fsync"):
        assert expected in text
