"""Break a mechanism on purpose, and a checker must see it: proof that the checkers can fail."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stentor.matching.pairs import PairIndex
from stentor.model.batch import Batch
from stentor.model.messages import Welcome
from stentor.nodes.client import Client
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.names import Names
from stentor.protocols.connection.outbox import Outbox
from stentor.simulation.disk import SimulatedDisk
from stentor.simulation.scenarios import SCENARIOS
from stentor.storage import segment
from stentor.storage.segment import SegmentLog
from stentor.wire.block import Block

Mutate = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 200


def no_duplicate_suppression(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Block, "last", lambda _: 0)


def no_checksum_of_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Block, "verify", lambda _: None)


def no_position_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "check_position", lambda *_: None)


def no_resubscription(patch: pytest.MonkeyPatch) -> None:
    original = Client._welcomed

    def forgetful(self: Client, now: int, welcome: Welcome) -> None:
        wishes, self.subscriber.wishes = self.subscriber.wishes, {}
        original(self, now, welcome)
        self.subscriber.wishes = wishes

    patch.setattr(Client, "_welcomed", forgetful)


def no_giving_up_on_silence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "silent", lambda *_: False)


def no_fencing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Names, "claim", lambda *_: None)


def no_content_filter(patch: pytest.MonkeyPatch) -> None:
    def everything(self: PairIndex, batch: Batch) -> tuple[Any, Any]:
        numbers = np.array(list(self._filters), np.int64)
        return np.repeat(np.arange(batch.count), len(numbers)), np.tile(numbers, batch.count)

    patch.setattr(PairIndex, "match_pairs", everything)


def no_bound_of_queues(patch: pytest.MonkeyPatch) -> None:
    original = Outbox.__init__

    def boundless(self: Outbox, link: Any, bound: int) -> None:
        original(self, link, bound << 20)

    patch.setattr(Outbox, "__init__", boundless)


def no_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentLog, "sync", lambda _: None)


def no_sync_of_the_directory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedDisk, "sync", lambda _: None)


def no_checksum_of_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment, "_checksum", lambda *_: 0)


def no_poison(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentLog, "_check_alive", lambda _: None)


def no_rewriting_of_the_tail(patch: pytest.MonkeyPatch) -> None:
    original = segment._scan

    def trusting(data: bytes) -> tuple[list[bytes], int, int]:
        records, end, _ = original(data)
        return records, end, end

    patch.setattr(segment, "_scan", trusting)


MUTATIONS: list[tuple[str, Mutate, set[str]]] = [
    ("broker", no_duplicate_suppression, {"duplicate", "nonmonotonic-poll"}),
    ("broker", no_checksum_of_events, {"corrupt"}),
    ("broker", no_position_check, {"poll-skip", "unsubscribed", "lost-write"}),
    ("broker", no_resubscription, {"unsubscribed"}),
    ("broker", no_giving_up_on_silence, {"poll-skip", "disconnected", "lost-write"}),
    ("broker", no_fencing, {"unfenced"}),
    ("broker", no_content_filter, {"unasked"}),
    ("broker", no_bound_of_queues, {"unbounded"}),
    ("log", no_sync, {"lost-write"}),
    ("log", no_sync_of_the_directory, {"lost-write"}),
    ("log", no_checksum_of_records, {"corrupt"}),
    ("log", no_poison, {"unsafe-ack"}),
    ("log", no_rewriting_of_the_tail, {"lost-write"}),
]


@pytest.mark.parametrize(("name", "mutate", "kinds"), MUTATIONS, ids=[mutate.__name__ for _, mutate, _ in MUTATIONS])
def test_a_broken_mechanism_is_seen(
    name: str, mutate: Mutate, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    for seed in range(MOST_SEEDS):
        if kinds & {anomaly.kind for anomaly in SCENARIOS[name].run(seed).anomalies}:
            return
    pytest.fail(f"nobody noticed within {MOST_SEEDS} seeds")
