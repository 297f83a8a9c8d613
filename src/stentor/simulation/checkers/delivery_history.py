"""The history of a run of reliable delivery: who said, stored, promised, handed out and acknowledged what.

It checks each of these as it happens: a promise that the disks do not bear out is an anomaly at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from stentor.machine import MILLISECOND
from stentor.model.attribute import Value
from stentor.model.control import RecoveryResponse, RepositoryAck, SequenceRun, StreamRanges
from stentor.model.stored.epoch import Epoch
from stentor.model.stored.record import RecordHeader, RecordKind, StreamId
from stentor.model.stored.span import Span, Spans
from stentor.protocols.delivery.repository.registry import top_of
from stentor.protocols.delivery.repository.registry_records import subscription_values
from stentor.simulation.checkers.heard_acknowledgements import HeardAcknowledgements
from stentor.simulation.checkers.stored_times import Key as Key
from stentor.simulation.checkers.stored_times import StoredTimes
from stentor.simulation.clients.workload import Condition
from stentor.simulation.outcome import Anomaly
from stentor.simulation.schedule import Schedule
from stentor.wire.block import Block

_stored = msgspec.msgpack.Decoder(tuple[int, str, bytes])  # of a fact: its version, who wrote it, and its value
GIVEN_UP = 500 * MILLISECOND  # for at least so long a gap must be waited for


class EntrustedEvent(NamedTuple):
    """An event as its application published it, and when."""

    body: bytes
    attributes: Mapping[str, Value]
    time: int


class Numbers(dict[StreamId, Spans]):
    """Catenation numbers by stream."""

    def __missing__(self, stream: StreamId) -> Spans:
        spans = self[stream] = Spans()
        return spans

    def has(self, key: Key) -> bool:
        spans = self.get(key[:2])
        return spans is not None and key[2] in spans

    def copy(self) -> "Numbers":
        return Numbers({stream: spans.copy() for stream, spans in self.items()})


class DiskContents:
    """What a repository really has on its disk."""

    def __init__(self, unit: str = "") -> None:
        self.unit = unit  # that it serves
        self.durable = Numbers()
        self.stored = Numbers()  # what it stored at any time
        self.sequences: dict[Key, int] = {}  # the first sequence number of each: one that left and came back has others
        self.skipped = Numbers()  # nobody in the unit that it serves wants them
        self.voided: dict[Key, int] = {}  # since when it does not wait for these any more
        self.facts: dict[str, bytes] = {}
        self.answered: set[str] = set()  # keys of those of which it has said, rightly, that they are registered
        self.progress: dict[str, Numbers] = {}  # what it has noted that subscribers are done with
        self.noted: dict[str, Numbers] = {}  # what it ever noted, also of lives that are closed by now
        self.noted_before: dict[str, Numbers] = {}  # the same, of subscribers that unsubscribed since
        self.collected = Numbers()  # forgotten, since everybody had it
        self.doubtful = Numbers()  # of these some may have been damaged
        self.told_damaged = Numbers()  # that its status has shown to be damaged, at any time
        self.dead = False  # for ever
        self.is_former = False  # it is that of a topic of the same name which was deleted

    def store(self, lines: Iterable[RecordHeader], now: int) -> None:
        for line in lines:
            if line.kind is RecordKind.EVENTS:
                self.durable[line.stream].add(line.first, line.last)
                self.stored[line.stream].add(line.first, line.last)
                for offset in range(line.length):
                    self.sequences.setdefault((*line.stream, line.first + offset), line.sequence + offset)
                self.doubtful[line.stream].remove(line.first, line.last)
            elif line.kind is RecordKind.SKIPPED:
                self.skipped[line.stream].add(line.first, line.last)
            elif line.kind is RecordKind.VOID:
                for number in range(line.first, line.last + 1):
                    self.voided.setdefault((*line.stream, number), now)
            elif line.kind is RecordKind.RESERVED:
                self.durable[line.stream].remove(line.first, line.last)

    def open(self, lines: Iterable[RecordHeader], now: int) -> Key | None:
        """What is found on the disk: nothing may be missing, but there may be more than was known to be written."""
        before, self.durable = self.durable, Numbers()
        self.store((line for line in lines if line.kind is not RecordKind.RESERVED), now)
        for stream, spans in before.items():
            for first, last in spans:
                for gap in self.durable[stream].missing(first, last):
                    if not self.doubtful[stream].covers(*gap):
                        return (*stream, gap[0])
        return None

    def unsubscribe(self, name: str) -> None:
        """What it has noted of a subscriber is not about whoever subscribes under this name from now on."""
        self.progress.pop(name, None)
        for stream, spans in self.noted.pop(name, Numbers()).items():
            self.noted_before.setdefault(name, Numbers())[stream].update(spans)

    def has_noted(self, name: str, stream: StreamId, spans: Iterable[Span]) -> bool:
        """Whether it has written down, at any time, that a subscriber of this name is done with these."""
        noted = Spans()
        for each in (self.noted, self.noted_before):
            noted.update(each.get(name, Numbers())[stream])
        return all(noted.covers(*span) for span in spans)

    def wipe(self) -> None:
        self.durable = Numbers()
        self.doubtful = Numbers()

    def settles(self, line: RecordHeader) -> bool:
        """Whether it has all of this, or nobody whom it serves wants it."""
        spans = self.stored[line.stream].copy()
        spans.update(self.skipped[line.stream])
        return spans.covers(line.first, line.last)

    def has_all_of(self, other: "DiskContents") -> bool:
        """Whether every event that is on another disk is on this one, too."""
        return all(self.durable[stream].covers(*span) for stream, spans in other.durable.items() for span in spans)

    def keeps(self, key: Key) -> bool:
        """Whether it can be relied upon for this."""
        there = self.durable.has(key) or self.collected.has(key)
        return there and not self.dead and not self.doubtful.has(key)

    def forget(self, stream: StreamId, floor: int) -> None:
        for there in (self.durable, self.doubtful):  # what is damaged is collected, too, when nobody needs it
            self.collected[stream].update(there[stream].within(1, floor))
        self.durable[stream].remove(1, floor)


class ApplicationRun:
    """One life of a subscriber's application."""

    def __init__(self) -> None:
        self.released: dict[Key, None] = {}
        self.last: dict[StreamId, int] = {}
        self.is_over = False  # repositories know for sure what it was handed: it never asked, or said how it ended


class SubscriberHistory:
    """What one subscriber was given and has acknowledged, over all its lives."""

    def __init__(self, name: str, end: str, since: str) -> None:
        self.name = name
        self.end = end
        self.since = since
        self.conditions: list[Condition | None] = []  # that it ever had; None is everything
        self.first_life = 0  # what is registered of earlier ones is about a subscription that it has ended
        self.confirmed = 0  # when it was first steered; 0 is never
        self.forgotten = Numbers()  # … and what some repository had forgotten by then: nobody keeps that for it
        self.has_begun = False  # a repository has written down where it begins
        self.ended = False  # it has no right to anything any more
        # It was told that nothing is kept for it, by then written down at these repositories; None is that it was not.
        self.unsubscribed_at: list[str] | None = None
        self.runs: list[ApplicationRun] = []
        self.released: dict[Key, int] = {}  # when each event was first released to any of its lives
        self.lost = Numbers()  # that it was told to be lost
        self.acknowledged: dict[Key, None] = {}
        self.synced: dict[Key, None] = {}  # that it was told to be acknowledged, durably
        self.checked = Numbers()  # that any repository believes it is done with

    def may(self, told: EntrustedEvent) -> bool:
        return any(each is None or each.holds(told.attributes) for each in self.conditions)

    def must(self, told: EntrustedEvent) -> bool:
        return all(each is None or each.holds(told.attributes) for each in self.conditions)


class DeliveryHistory:
    """Records what happens, and reports an anomaly as soon as one can be seen."""

    def __init__(self, anomalies: list[Anomaly], schedule: Schedule) -> None:
        self._anomalies, self._schedule = anomalies, schedule
        self.entrusted: dict[bytes, Mapping[str, Value]] = {}  # by body, which are all different
        self.published: dict[StreamId, dict[int, EntrustedEvent]] = {}
        self.disks: dict[str, DiskContents] = {}
        self.promises: dict[Key, dict[str, None]] = {}  # to publishers, and who had it
        self.released: dict[Key, dict[str, None]] = {}  # to anybody, and who had it
        self.receipts: set[tuple[str, int]] = set()  # that repositories gave to the owner, by its tokens
        self.pages: dict[str, SubscriberHistory] = {}
        self.former: set[StreamId] = set()  # what was published before the topic was deleted and created again
        self.stored_times = StoredTimes(self.accuse)
        self.acknowledgements = HeardAcknowledgements(self.accuse, self._is_kept_elsewhere)
        self.calm = False  # nothing keeps repositories from hearing each other
        self.hold = False  # events must not be seen outside of a top-level unit before they are stored in it
        self.accepted: set[Key] = set()  # whose loss somebody accepted
        # What had been acknowledged of earlier lives when a life was first answered, at whoever answered: by both.
        self.earlier: dict[tuple[int, int], dict[int, int]] = {}
        self.issued: dict[Key, set[str]] = {}  # in which units their publishers sent them

    def accuse(self, kind: str, detail: str) -> None:
        self._anomalies.append(Anomaly(kind, f"{self._schedule.now / 1e9:.6f} {detail}"))

    # ---- publishers

    def publish(self, block: Block) -> None:
        numbers = self.published.setdefault((block.publisher, block.incarnation), {})
        for offset, body in zip(block.offsets(), block.bodies(), strict=True):
            number = block.catenation + offset
            known = numbers.get(number)
            if known is None:
                numbers[number] = EntrustedEvent(body, self.entrusted[body], self._schedule.now)
            elif known.body != body:
                self.accuse("two-bodies", f"{number} is {known.body!r} and {body!r}")

    def send(self, block: Block, unit: str) -> None:
        """A publisher sends these, for the first time or again, in a unit."""
        for offset in block.offsets():
            self.issued.setdefault((block.publisher, block.incarnation, block.catenation + offset), set()).add(unit)

    def watch(self, who: str, node: str, blocks: Sequence[Block]) -> None:
        """Somebody at this broker is sent these."""
        if not self.hold:
            return
        storages = [disk for disk in self.disks.values() if disk.unit and "/" not in disk.unit]
        for block in blocks:
            for offset in block.offsets():
                key = block.publisher, block.incarnation, block.catenation + offset
                inside = top_of(node) in self.issued[key]
                if not inside and not any(disk.stored.has(key) for disk in storages):
                    self.accuse("left-its-unit", f"{key} was sent to {who} at {node}, and no system storage has it")

    def acknowledge(self, repository: str, publisher: int, ack: RepositoryAck) -> None:
        """A repository says that events are stored, and on how many repositories."""
        stream = publisher, ack.incarnation
        spans = [(1, ack.upto), *ack.singles]
        if self.disks[repository].is_former:
            self.accuse("former-topic", f"{repository} acknowledges {spans} of {stream} into a topic that was deleted")
        own, unit = self.disks[repository].stored[stream], self.disks[repository].unit
        for number in [number for first, last in spans for number in range(first, last + 1)]:
            key = (*stream, number)
            elsewhere = bool(unit and self._holders(key))  # nobody in the unit wants it, or everyone has it
            elsewhere |= any(disk.collected.has(key) for disk in self.disks.values())
            if number not in own and not elsewhere and key not in self.promises:
                self.accuse("acknowledged-before-durable", f"{repository} said {spans} of {stream} without {number}")
            self.promises.setdefault(key, {}).update(dict.fromkeys(self._holders(key)))
        for extra, upto in enumerate(ack.copies):
            gone = max(disk.collected[stream].last for disk in self.disks.values())  # nobody needs these any more
            for number in range(gone + 1, upto + 1):
                having = sum(number in disk.stored[stream] for disk in self._current())
                if having <= extra:
                    detail = f"{repository} said {ack.copies}: only {having} have {number} of {stream}"
                    self.accuse("acknowledged-before-durable", detail)

    def recover(
        self, repository: str, publisher: int, asking: int, response: RecoveryResponse, heard: Sequence[str]
    ) -> None:
        """A publisher that came back is told up to where an earlier life of it need not be repeated, by a repository
        that has `heard` what others have.
        """
        streams = [stream for stream in self.published if stream[0] == publisher]
        if (publisher, asking) not in self.earlier:
            before = [stream for stream in streams if stream[1] < asking]
            self.earlier[publisher, asking] = {stream[1]: self._acknowledged_upto(stream, heard) for stream in before}
        lives = [life for _, life in streams if life >= response.incarnation]
        for life in lives if response.incarnation != asking else [asking]:
            stored = self._stored_upto(repository, (publisher, life), heard)
            if stored > (response.last if life == response.incarnation else 0):
                detail = f"{repository} said {response.last} of {response.incarnation}: {stored} of {life} are stored"
                self.accuse("told-too-little", detail)
        for number in range(1, response.last + 1):
            key = publisher, response.incarnation, number
            if key not in self.promises and not any(disk.stored.has(key) for disk in self.disks.values()):
                detail = f"{repository} said {response.last} of {key[:2]}, and nobody has {number}"
                self.accuse("acknowledged-before-durable", detail)
            self.promises.setdefault(key, {}).update(dict.fromkeys(self._holders(key)))

    def _acknowledged_upto(self, stream: StreamId, heard: Sequence[str]) -> int:
        """Up to where all was acknowledged, and one of these repositories has it."""
        number = 1
        while (key := (*stream, number)) in self.promises and self.is_kept(key, heard):
            number += 1
        return number - 1

    def _stored_upto(self, repository: str, stream: StreamId, heard: Sequence[str]) -> int:
        """Up to where all was acknowledged, and this repository has it or has heard that it is forgotten."""
        number = 1
        while (key := (*stream, number)) in self.promises and (
            self.disks[repository].keeps(key) or any(self.disks[name].collected.has(key) for name in heard)
        ):
            number += 1
        return number - 1

    def _holders(self, key: Key) -> list[str]:
        return [name for name, disk in self.disks.items() if disk.durable.has(key) and not disk.is_former]

    def _current(self) -> list[DiskContents]:
        return [disk for disk in self.disks.values() if not disk.is_former]

    def is_kept(self, key: Key, holders: Iterable[str]) -> bool:
        """Whether any of those that had it must still have it."""
        return any(self.disks[name].keeps(key) for name in holders)

    def _is_kept_elsewhere(self, repository: str, key: Key) -> bool:
        return key not in self.accepted and self.is_kept(key, [name for name in self.disks if name != repository])

    # ---- repositories

    def delete(self) -> None:
        """The topic is deleted with all that is stored of it: nothing that was said of it holds any more."""
        self.former.update(self.published)
        self.promises.clear()
        self.released.clear()

    def check_topic(self, repository: str, line: RecordHeader) -> None:
        """A repository stores something of the topic that was created again."""
        if line.stream in self.former:
            self.accuse("former-topic", f"{repository} stores {line}, which was deleted")

    def leave(self, repository: str) -> None:
        """It throws away all that it has: others must have it."""
        for stream, spans in self.disks[repository].durable.items():
            for number in [number for first, last in spans for number in range(first, last + 1)]:
                key = (*stream, number)
                others = [name for name in self.disks if name != repository]
                if key in self.promises and not self.is_kept(key, others) and not self.has_expired(key):
                    self.accuse("lost-write", f"{repository} left with the only copy of {key}")
        self.disks[repository].wipe()
        self.acknowledgements.forget(repository)

    def collect(self, repository: str, stream: StreamId, floor: int) -> None:
        """It forgets what it has of a stream up to here. Whoever lags may do so because another one has."""
        disk, others = self.disks[repository], [each for name, each in self.disks.items() if name != repository]
        for first, last in disk.durable[stream].within(1, floor):
            keys = [(*stream, number) for number in range(first, last + 1)]
            fresh = [key for key in keys if not any(other.collected.has(key) for other in others)]
            self.stored_times.collect(repository, fresh)
        disk.forget(stream, floor)

    def begin(self, repository: str, fact: str, value: bytes) -> None:
        """It writes down where a subscriber begins, who may have named an epoch: behind that nothing is left out."""
        page = self.pages.get(fact.removeprefix("subscription/"))
        epoch = None if page is None else Epoch.parse(page.since.removeprefix("epoch "))
        if page is None or epoch is None or page.has_begun or self.stored_times.keep:  # what is forgotten is left out
            return
        record = _stored.decode(value)[2]
        registered = subscription_values.decode(record) if record else None
        if registered is None or registered.incarnation < page.first_life:
            return
        page.has_begun = True
        sequences = self.disks[epoch.repository].sequences
        for publisher, life, last in registered.frontier:
            for key in ((publisher, life, number) for number in range(1, last + 1)):
                gone = any(disk.collected.has(key) or key in disk.voided for disk in self.disks.values())
                if sequences.get(key, 0) >= epoch.number and not gone:
                    self.accuse("began-late", f"{page.name} asked for {epoch}: {repository} leaves out {key}")

    def has_expired(self, key: Key) -> bool:
        """Whether nobody can count on it any more, whoever has not got it."""
        gone = self.stored_times.expire and any(disk.collected.has(key) for disk in self.disks.values())
        return bool(gone) or self.stored_times.has_expired(key)

    def answer(self, repository: str, keys: Iterable[str], required: int = 1) -> None:
        """It says that these are registered, at as many repositories as are required when it says so first: one that
        comes later, and is heard for a moment, need not have them before it says so again.
        """
        answered = self.disks[repository].answered
        for key in keys:
            having = [name for name, disk in self.disks.items() if key in disk.facts]
            if repository in having and (len(having) >= required or key in answered):
                answered.add(key)
            else:
                detail = f"{repository} says that {key} is registered: {having} have written it down, of {required}"
                self.accuse("answered-before-durable", detail)

    def reveal(self, repository: str, line: RecordHeader, required: int) -> None:
        """Readers may be told of this."""
        if line.kind is not RecordKind.EVENTS or self.disks[repository].is_former:
            return
        disks = self.disks
        if not disks[repository].stored[line.stream].covers(line.first, line.last):
            self.accuse("released-before-persistent", f"{repository} shows {line}, which it does not have")
        having = sum(disk.settles(line) for disk in self._current())
        if having < required:
            self.accuse("released-before-persistent", f"{repository} shows {line}, on {having} of {required}")

    def sync(self, repository: str, name: str, start: Mapping[StreamId, int], done: Iterable[StreamRanges]) -> None:
        """A repository believes that a subscriber is done with these."""
        page = self.pages[name]
        for held in done:
            stream = held.publisher, held.incarnation
            told = self.published.get(stream, {})
            page.checked[stream].add(1, start.get(stream, 0))
            for first, last in ((1, held.floor), *held.spans):
                for gap in page.checked[stream].missing(first, last):
                    for number in range(gap[0], gap[1] + 1):
                        if number in told:
                            self._check_sync(repository, page, (*stream, number), told[number])
                page.checked[stream].add(first, last)

    def confirm_sync(self, repository: str, page: SubscriberHistory, key: Key, required: int) -> None:
        """A subscriber is told that its acknowledgement is durable."""
        having = [name for name, disk in self.disks.items() if page.name in disk.progress]
        having = [name for name in having if self.disks[name].progress[page.name].has(key)]
        if repository not in having or len(having) < required:
            detail = f"{repository} told {page.name} that {key} is done with: {having} know it, of {required}"
            self.accuse("synced-before-durable", detail)

    def _check_sync(self, repository: str, page: SubscriberHistory, key: Key, told: EntrustedEvent) -> None:
        if (not page.confirmed or told.time < page.confirmed) and any(
            disk.collected.has(key) for disk in self.disks.values()
        ):
            return  # it came when this was forgotten
        stored = any(disk.stored.has(key) for disk in self.disks.values())
        is_done = key in page.acknowledged or page.lost.has(key)  # who is told of a loss acknowledges what is around it
        if stored and not is_done and page.must(told) and not self.has_expired(key):
            self.accuse("sync-passed-unacked", f"{repository}: {page.name} never acknowledged {key}")

    # ---- subscribers

    def announce(self, repository: str, name: str, stretches: Iterable[SequenceRun]) -> None:
        """A repository tells a subscriber of events. Once it has told, it may hear that the subscriber has had them."""
        done = self.disks[repository].noted.get(name)
        if done is None:
            return
        for run in stretches:
            for number in range(run.first, run.first + run.count):
                key = run.publisher, run.incarnation, number
                if done.has(key):
                    self.accuse("duplicate", f"{repository} tells {name} of {key}, and knows that it is done with it")

    def confirm(self, page: SubscriberHistory) -> None:
        """A subscriber is steered."""
        if not page.confirmed:
            page.confirmed = self._schedule.now
            for disk in self.disks.values():
                for stream, spans in disk.collected.items():
                    page.forgotten[stream].update(spans)

    def unsubscribe(self, page: SubscriberHistory) -> None:
        """A subscriber is told that its subscription is ended."""
        key = f"subscription/{page.name}"
        written = {name: _stored.decode(disk.facts[key])[2] for name, disk in self.disks.items() if key in disk.facts}
        page.unsubscribed_at = [name for name, value in written.items() if not value]
        if written and not page.unsubscribed_at:
            self.accuse("answered-before-durable", f"{page.name} was told that it has left: {list(written)} know it")

    def release(self, name: str, run: ApplicationRun, repository: str, block: Block, redelivered: bool) -> list[Key]:
        """Events are given to an application in this life of it."""
        page = self.pages[name]
        keys: list[Key] = []
        for offset, body in zip(block.offsets(), block.bodies(), strict=True):
            key = block.publisher, block.incarnation, block.catenation + offset
            keys.append(key)
            self._check(page, run, key, body, redelivered)
            self._check_repository(page, self.disks[repository], key)
        return keys

    def _check(self, page: SubscriberHistory, run: ApplicationRun, key: Key, body: bytes, redelivered: bool) -> None:
        who, is_newest = f"{page.name} in life {page.runs.index(run) + 1}", run is page.runs[-1]
        told = self.published.get(key[:2], {}).get(key[2])
        if told is None or told.body != body:
            self.accuse("phantom", f"{who}: {key} {body!r} was never published")
        elif not page.may(told):
            self.accuse("phantom", f"{who}: {key} {dict(told.attributes)} is not what it asked for")
        if key in run.released:
            self.accuse("duplicate", f"{who}: {key} again")
        elif key in page.released and not redelivered and is_newest:
            self.accuse("duplicate", f"{who}: {key} again, and not marked")
        elif redelivered and key not in page.released and self.calm and all(each.is_over for each in page.runs[:-1]):
            self.accuse("marked-in-vain", f"{who}: {key} is marked, and no earlier life was handed it")
        if key[2] > run.last.get(key[:2], 0):
            run.last[key[:2]] = key[2]
        elif not self._was_given_up(key):
            self.accuse("nonmonotonic-poll", f"{who}: {key} after {run.last[key[:2]]}")
        self._check_lives(run, key, who)
        run.released[key] = None
        if is_newest:  # what a life gets that has lost its name without knowing it counts once it is acknowledged
            page.released[key] = self._schedule.now
        holders = self.released.setdefault(key, {})
        holders.update(dict.fromkeys(self._holders(key)))

    def _check_lives(self, run: ApplicationRun, key: Key, who: str) -> None:
        """What was acknowledged in one life of a publisher comes before what a later one has sent."""
        publisher, life, number = key
        for later in [stream[1] for stream in run.last if stream[0] == publisher and stream[1] > life]:
            if number <= self.earlier.get((publisher, later), {}).get(life, 0) and key not in self.accepted:
                self.accuse("lives-out-of-order", f"{who}: {key} after life {later}")

    def _was_given_up(self, key: Key) -> bool:
        """Whether a repository had waited for it long enough: then it may come late."""
        times = [disk.voided[key] for disk in self.disks.values() if key in disk.voided]
        return bool(times) and min(times) - self.published[key[:2]][key[2]].time >= GIVEN_UP

    def _check_repository(self, page: SubscriberHistory, contents: DiskContents, key: Key) -> None:
        if contents.is_former:
            self.accuse("former-topic", f"{page.name} got {key} of one whose topic was deleted")
        if not contents.stored.has(key):
            self.accuse("released-before-persistent", f"{page.name} got {key} of one who never had it")
