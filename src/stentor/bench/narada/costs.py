"""What single operations of a repository cost, as in table 1 of the paper: timed in one process, over real ledgers."""

import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from stentor.bench.lines import say
from stentor.bench.narada.bundle import TOPIC, LocalBundle, Member
from stentor.bench.narada.topologies import OTHERS, PUBLISHER, SUBSCRIBER
from stentor.model.communication import Role, end_name
from stentor.model.control import GossipRequest, GossipState, Recovery, TopicTask
from stentor.model.ids import publisher_id
from stentor.model.stored.record import Record, RecordHeader, RecordKind
from stentor.protocols.delivery.transport import LetterReceived, SendLetter
from stentor.storage.ledger_store import open_ledger
from stentor.wire import letter

_AUDIENCE = dict.fromkeys(range(19), b"")
_FAR, _NEAR = "r2", "r1"


class CostTrial(msgspec.Struct):
    """So many runs of everything, of events of this size."""

    folder: str
    storage: str
    size: int
    runs: int
    missed: int
    rounds: int  # of recovery, which takes long


class Costs(msgspec.Struct):
    """In ms, in the order of the runs."""

    store: list[float]
    retrieve: list[float]
    publisher_response: list[float]
    subscriber_response: list[float]
    repository_response: list[float]
    gossip_generation: list[float]
    gossip_processing: list[float]


def measure(trial: CostTrial) -> Costs:
    folder = Path(trial.folder)
    store, retrieve = _storage(folder / "storage", trial)
    answers: list[float] = []
    for number in range(trial.rounds):
        bundle = _populated(folder / f"bundle-{number}", trial)
        answers.append(_answer(bundle, trial))
        if number + 1 < trial.rounds:
            bundle.close()
    generation, processing = _gossip(bundle, trial.runs)
    found = Costs(
        store,
        retrieve,
        _responses(bundle, "publisher", trial.runs),
        _responses(bundle, "subscriber", trial.runs),
        answers,
        generation,
        processing,
    )
    bundle.close()
    return found


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - begin) / 1e6


def _storage(folder: Path, trial: CostTrial) -> tuple[list[float], list[float]]:
    """One event as one record, durably; and one of them, anywhere."""
    ledger = open_ledger(f"{trial.storage}:{folder}", _NEAR, TOPIC)
    ledger.load()
    body = random.randbytes(trial.size)
    stored = []
    for number in range(1, trial.runs + 1):
        record = Record(
            RecordHeader(number, 1, 1, 1, number, RecordKind.EVENTS, number), body, _AUDIENCE, time.time_ns()
        )
        stored.append(_timed(partial(ledger.commit, [record])))
    numbers = random.sample(range(1, trial.runs + 1), trial.runs)
    found = [_timed(partial(ledger.scan, number, 1)) for number in numbers]
    ledger.close()
    return stored, found


def _populated(folder: Path, trial: CostTrial) -> LocalBundle:
    """Two repositories and 20 clients; the one has what the other missed."""
    bundle = LocalBundle(folder, trial.storage, (_NEAR, _FAR))
    bundle.order(_NEAR, TopicTask.GRANT, role="publisher", client=PUBLISHER)
    _recover(bundle, "publisher", PUBLISHER, 1)
    for name in (SUBSCRIBER, *OTHERS):
        bundle.order(_NEAR, TopicTask.GRANT, role="subscriber", client=name)
        _recover(bundle, "subscriber", name, 1)
    bundle.publish(PUBLISHER, 1, 1, 10, trial.size)
    bundle.deaf = {_FAR}
    bundle.publish(PUBLISHER, 1, 11, trial.missed, trial.size)
    bundle.deaf = set()
    return bundle


def _recover(bundle: LocalBundle, role: Role, name: str, incarnation: int) -> None:
    bundle.hear(_NEAR, role, name, Recovery(TOPIC, name, role, incarnation, "", incarnation))


def _answer(bundle: LocalBundle, trial: CostTrial) -> float:
    """How long the one works on its answers, all in all, until the other has everything again."""
    near, far = bundle.members[_NEAR], bundle.members[_FAR]
    bundle.pass_time(60_000, lambda: _held(far) >= trial.missed + 10)
    assert _held(far) >= trial.missed + 10, "it did not get everything"
    return near.spent[GossipRequest] / 1e6


def _held(member: Member) -> int:
    return max((stream.stored.last for stream in member.machine.log.streams.values()), default=0)


def _responses(bundle: LocalBundle, role: Role, runs: int) -> list[float]:
    """A client that comes back without memory, until the answer may be sent, when what it changes is durable."""
    name = PUBLISHER if role == "publisher" else SUBSCRIBER
    near, sender = bundle.members[_NEAR], publisher_id("", end_name(role, name, TOPIC))
    taken = []
    for number in range(2, runs + 2):
        recovery = Recovery(TOPIC, name, role, number, "", number)
        taken.append(_timed(partial(near.step, bundle.now, LetterReceived(sender, [recovery]))))
    return taken


def _gossip(bundle: LocalBundle, runs: int) -> tuple[list[float], list[float]]:
    """A state of all that one has, and what the other does upon it."""
    near, far = bundle.members[_NEAR], bundle.members[_FAR]
    generation, processing = [], []
    for _ in range(runs):
        bundle.now += 500_000_000
        begin = time.perf_counter_ns()
        state = near.machine.state
        state.step.now = bundle.now
        near.machine.gossip.tell_state(state.bundle.peers[_FAR])
        (post,) = state.step.end()
        assert isinstance(post, SendLetter)
        body = letter.write(post.events)
        generated = time.perf_counter_ns()
        said = letter.read(body)
        assert isinstance(said.events[0], GossipState)
        far.step(bundle.now, LetterReceived(near.id, said.events, said.blocks))
        processed = time.perf_counter_ns()
        generation.append((generated - begin) / 1e6)
        processing.append((processed - generated) / 1e6)
    return generation, processing


if __name__ == "__main__":
    say(measure(msgspec.json.decode(sys.stdin.buffer.readline(), type=CostTrial)))
