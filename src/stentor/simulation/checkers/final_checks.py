"""Final checks: what must be true of everyone who is left when a run of reliable delivery is over."""

from collections.abc import Iterable

from stentor.machine import SECOND
from stentor.model.stored.epoch import Epoch
from stentor.model.stored.position import Position
from stentor.protocols.delivery.repository.registry import PublisherRecord
from stentor.protocols.delivery.repository.storing.streams import Streams
from stentor.protocols.delivery.steering import life_of
from stentor.simulation.checkers.delivery_history import EntrustedEvent, Key, SubscriberHistory
from stentor.simulation.delivery.participants import Participants
from stentor.simulation.delivery.repository import SimRepository
from stentor.simulation.delivery.subscriber import SimSubscriber

_MOST = 5  # complaints of one kind
_DROPPED_WITHIN = SECOND  # after it expired: repositories look for it now and then


class FinalChecks:
    """Compares the machines as they are with the history of the run."""

    def __init__(self, participants: Participants) -> None:
        self._participants, self._history = participants, participants.world.history

    # ---- whether all is quiet

    def troubles(self) -> list[str]:
        """Why it is not over yet."""
        return [
            *self._unfinished(),
            *self._different(),
            *self._unforgotten(),
            *self._holders(),
            *self._kept_in_vain(),
            *self._strayed(),
            *self._unclosed(),
            *(
                f"{subscriber.short} lacks {key}"
                for subscriber in self._readers()
                for key in self._lacks(subscriber)[:_MOST]
            ),
            *self._unread(),
        ]

    def _readers(self) -> list[SimSubscriber]:
        return [
            subscriber
            for subscriber in self._participants.subscribers
            if not subscriber.ended and not subscriber.revoked
        ]

    def _unfinished(self) -> list[str]:
        requests = sum(len(each.requests) for each in (self._participants.owner, *self._participants.leavers))
        found = [f"{requests} requests"] if requests else []
        found += [f"{publisher.short} is not done" for publisher in self._participants.publishers if not publisher.done]
        for subscriber in self._readers():
            if subscriber.subscriber is None or not subscriber.subscriber.steering.steered:
                found.append(f"{subscriber.short} is not steered")
            elif subscriber.told:
                found.append(f"{subscriber.short} is at work")
        return found

    def _different(self) -> list[str]:
        """Repositories of one bundle are equal in the end; those for a unit may have begun at different places."""
        found: list[str] = []
        firsts: dict[str, SimRepository] = {}  # by the unit that they serve
        for process in self._participants.repositories.values():
            repository = process.repository
            if not process.member or process.dead or process.left:
                continue
            if process.leaving and repository is not None and not repository.registry.created:
                continue  # it never heard that it was a member, nor that it is none
            if repository is None or not repository.gossip.ready or process.leaving:
                found.append(f"{process.short} is not ready")
                continue
            found += self._lagging(process)
            found += self._overdue(process)
            first = firsts.setdefault(process.settings.unit, process)
            if first.repository is not None:
                if first.repository.registry.digest != repository.registry.digest:
                    found.append(f"{first.short} and {process.short} have different registries")
                mine, theirs = _held(first), _held(process)
                if mine != theirs and not process.settings.unit:
                    found.append(f"{first.short} has {mine}, {process.short} has {theirs}")
        return found

    def _unforgotten(self) -> list[str]:
        """What one that stores all has forgotten, another one has a record of, or it does not wait for it."""
        found: list[str] = []
        repositories = [each for each in self._participants.serving() if not each.settings.unit and not each.leaving]
        stores = {each.short: each.repository.log for each in repositories if each.repository is not None}
        for name, log in stores.items():
            for key, stream in log.streams.items():
                floor = max(other.streams[key].floor for other in stores.values() if key in other.streams)
                if stream.floor < floor and stream.locate(stream.floor + 1) is None:
                    found.append(f"{name} holds on to {key} after {stream.floor}: all up to {floor} is forgotten")
        return found

    def _holders(self) -> list[str]:
        """Names that two processes hold, or of which a repository serves an older life."""
        found: list[str] = []
        holders: dict[str, list[str]] = {}
        for subscriber in self._participants.subscribers:
            if subscriber.subscriber is not None and subscriber.subscriber.steering.steered:
                holders.setdefault(subscriber.name, []).append(subscriber.seat)
        found += [f"{name} is held by {', '.join(seats)}" for name, seats in holders.items() if len(seats) > 1]
        for process in self._participants.serving():
            assert process.repository is not None
            for publisher in process.repository.holders.publishers.values():
                newest = self._newest_publisher(publisher.name)
                if newest and life_of(publisher.attempt) != newest:
                    found.append(f"{process.short} steers an older {publisher.name}")
        return found

    def _newest_publisher(self, name: str) -> int:
        """Return the newest life of a publisher that lives: no repository need have heard of those that crashed."""
        publishers = [each for each in self._participants.publishers if each.short == name and not each.ended]
        return max((life_of(each.publisher.steering.attempt) for each in publishers if each.publisher), default=0)

    def _strayed(self) -> list[str]:
        """Clients that are not where they chose to be, although that repository is well; with units, others decide."""
        if self._participants.plan.nodes:
            return []
        readers = [
            (each.seat, each.subscriber.steering)
            for each in self._participants.subscribers
            if each.subscriber is not None
        ]
        publishers = [
            (each.seat, each.publisher.steering) for each in self._participants.publishers if each.publisher is not None
        ]
        homes = {process.short for process in self._participants.serving() if not process.leaving}
        return [
            f"{seat} is at {steering.repository}, not at {steering.homing.home}"
            for seat, steering in (*readers, *publishers)
            if steering.steered and steering.homing.home in homes - {steering.repository}
        ]

    def _kept_in_vain(self) -> list[str]:
        """Who was told that nothing is kept for it any more, or has no grant, and where something is. With one copy,
        whoever alone had written down that it left may have died; one that is away may know of a newer grant.
        """
        disks = self._history.disks
        left = [
            page.name
            for page in self._history.pages.values()
            if page.unsubscribed_at == [] or any(not disks[name].dead for name in page.unsubscribed_at or ())
        ]
        everyone = self._all_members_serve()
        return [
            f"{each.short} keeps what {name} does not want any more, or may not have"
            for each in self._participants.serving()
            if each.repository is not None and each.repository.registry.created
            for name in each.repository.table.destinations
            if name in left or (everyone and not each.repository.registry.admits("subscriber", name))
        ]

    def _all_members_serve(self) -> bool:
        members = self._participants.repositories.values()
        return all(each.serves for each in members if each.member and not each.left)

    def _unclosed(self) -> list[str]:
        """Streams that are still there although everyone has forgotten all of them, and their publisher goes on; and
        events of such streams that wait for an order, which nobody sends any more.
        """
        if self._participants.plan.close_after > SECOND or not self._all_members_serve():
            return []  # it is not time yet, or somebody who does not come back may have some of it
        members = self._participants.serving()
        machines = [repository.repository for repository in members if repository.repository is not None]
        everyone = [machine.log.streams for machine in machines]
        publishers = machines[0].registry.publishers.items() if machines else ()
        left = {known.name: _past_lives(publisher, known, everyone) for publisher, known in publishers}
        found = [f"{name}: {lives} are not closed" for name, lives in left.items() if lives]
        for machine in machines:
            waiting = [key for key, stream in machine.log.streams.items() if stream.waiting]
            found += [f"{key} waits for an order" for key in waiting if machine.registry.is_outlived(*key)]
        return found

    def _lagging(self, process: SimRepository) -> list[str]:
        repository = process.repository
        assert repository is not None
        log = repository.log
        found = [f"{process.short} shows {log.horizon} of {log.next - 1}"] if log.horizon < log.next - 1 else []
        for subscriber in self._readers():
            progress = repository.table.destinations.get(subscriber.short)
            if progress is None:
                found.append(f"{process.short} does not know {subscriber.short}")
            elif progress.served and (reached := log.beginning(progress.done)) < log.next - 1:
                found.append(f"{subscriber.short} lags at {process.short}: {reached} of {log.next - 1}")
        return found

    def _overdue(self, process: SimRepository) -> list[str]:
        """What should have expired long ago; a publisher that may still send what is void keeps what is behind it."""
        assert process.repository is not None
        streams = process.repository.log.streams
        if any(stream.voids for stream in streams.values()):
            return []
        is_overdue = self._history.stored_times.is_overdue
        keys = (
            (*stream, number)
            for stream, spans in process.contents.durable.items()
            for first, last in spans
            for number in range(first, last + 1)
        )
        return [f"{process.short} still has {key}" for key in keys if is_overdue(process.short, key, _DROPPED_WITHIN)]

    def _unread(self) -> list[str]:
        """What a stored reader has not read although it is there."""
        found: list[str] = []
        for stored_reader in self._participants.stored_readers:
            left = [key for key in self._history.promises if not _has(stored_reader.done, key) and self._is_there(key)]
            found += [f"{stored_reader.short} has not read {key}" for key in left[:_MOST]]
            if (
                not stored_reader.idle
                and stored_reader.plan is not None
                and all(map(self._is_there, _keys(stored_reader.plan.end)))
            ):
                found.append(f"{stored_reader.short} is at work")
        return found

    def _is_there(self, key: Key) -> bool:
        """Whether it can be read; what was collected before a stored reader came is not for it."""
        disks = [disk for disk in self._history.disks.values() if not disk.unit and disk.keeps(key)]
        return any(disk.durable.has(key) for disk in disks)

    # ---- who lacks what

    def _lacks(self, reader: SimSubscriber) -> list[Key]:
        """What was promised, to its publisher or by giving it to somebody else, and never came."""
        return [key for key in {**self._history.promises, **self._history.released} if self._is_due(reader.page, key)]

    def _is_due(self, page: SubscriberHistory, key: Key) -> bool:
        told = self._history.published[key[:2]].get(key[2])
        if told is None or key in page.released or key in page.acknowledged or not self._wants(page, key, told):
            return False
        if self._history.has_expired(key):
            return False
        holders = {**self._history.promises.get(key, {}), **self._history.released.get(key, {})}
        return self._history.is_kept(key, holders)

    def _wants(self, page: SubscriberHistory, key: Key, told: EntrustedEvent) -> bool:
        since = self._participants.plan.mail or told.time > page.confirmed > 0
        if not self._participants.plan.keep:
            since = since or page.since == "beginning" or self._is_behind_epoch(page, key)
        return since and page.must(told)

    def _is_behind_epoch(self, page: SubscriberHistory, key: Key) -> bool:
        """Whether it asked to begin with a number of a repository that this one has, or with an earlier one."""
        epoch = Epoch.parse(page.since.removeprefix("epoch "))
        return epoch is not None and self._history.disks[epoch.repository].sequences.get(key, 0) >= epoch.number

    # ---- judgement

    def judge(self) -> None:
        history = self._history
        for subscriber in self._readers():
            for key in self._lacks(subscriber)[:_MOST]:
                kind = "lost-write" if key in history.promises else "not-all-or-none"
                told = history.published[key[:2]][key[2]]
                history.accuse(kind, f"{subscriber.short} never got {key}, published at {told.time / 1e9:.6f}")
            self._judge_losses(subscriber.page)
            self._judge_skips(subscriber.page)
            self._judge_frontier(subscriber.page)
        for trouble in self._unforgotten()[:_MOST]:
            history.accuse("not-forgotten", trouble)
        for trouble in self._holders():
            history.accuse("two-holders", trouble)
        for trouble in self._kept_in_vain():
            history.accuse("kept-in-vain", trouble)
        for trouble in self._strayed():
            history.accuse("strayed", trouble)
        for trouble in [*self._unfinished(), *self._different(), *self._unclosed(), *self._unread()][:_MOST]:
            history.accuse("not-converged", trouble)

    def _judge_losses(self, page: SubscriberHistory) -> None:
        """What was promised and rotted where it was stored is an error that was shown, and its readers were told."""
        for key, holders in self._history.promises.items():
            told = self._history.published[key[:2]].get(key[2])
            there = [self._participants.repositories[name] for name in holders]
            rotten = [each.contents for each in there if each.rotten and not (each.dead or each.left)]
            if told is None or key in page.released or not self._wants(page, key, told) or not rotten:
                continue
            if not self._history.is_kept(key, holders) and not page.lost.has(key):
                shown = any(disk.told_damaged.has(key) for disk in rotten)
                what = "was told by nobody that it is lost" if shown else "and no repository has shown that it is lost"
                self._history.accuse("lost-in-silence", f"{page.name} never got {key}, {what}")

    def _judge_skips(self, page: SubscriberHistory) -> None:
        """Between two events of a stream that it got there is none that it wanted and did not get."""
        bounds: dict[tuple[int, int], tuple[int, int]] = {}
        for publisher, incarnation, number in page.released:
            low, high = bounds.get((publisher, incarnation), (number, number))
            bounds[publisher, incarnation] = min(low, number), max(high, number)
        for stream, (low, high) in bounds.items():
            for number in range(low, high):
                key = (*stream, number)
                told = self._history.published[stream].get(number)
                if told is None or key in page.released or key in page.acknowledged or not page.must(told):
                    continue
                if self._history.has_expired(key) or page.forgotten.has(key):
                    continue
                if any(disk.keeps(key) for disk in self._history.disks.values()):
                    self._history.accuse("poll-skip", f"{page.name} got {high} of {stream} and never {number}")

    def _judge_frontier(self, page: SubscriberHistory) -> None:
        for repository in self._participants.serving():
            assert repository.repository is not None
            progress = repository.repository.table.destinations.get(page.name)
            if progress is not None:
                repository.check_sync(page.name, progress.reached())


def _has(position: Position, key: Key) -> bool:
    spans = position.streams.get(key[:2])
    return spans is not None and key[2] in spans


def _keys(position: Position) -> list[Key]:
    streams = position.streams.items()
    return [(*stream, number) for stream, spans in streams for low, high in spans for number in range(low, high + 1)]


def _past_lives(publisher: int, known: PublisherRecord, everyone: Iterable[Streams]) -> list[int]:
    """Lives before the newest of which nothing is left at any repository, as nothing is of all lives before them."""
    found: list[int] = []
    for life in sorted({life for streams in everyone for life in streams.lives(publisher)} - {*known.resumed}):
        there = [(streams, streams.lives(publisher).get(life)) for streams in everyone]
        is_over = all(stream is None or streams.is_collected(stream) for streams, stream in there)
        if not is_over or life >= known.incarnation:
            break
        found.append(life)
    return found


def _held(process: SimRepository) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """What a repository has of each stream. What is void is like what is there, unless it is the last: of that nobody
    who came later knows.
    """
    assert process.repository is not None
    found = {}
    for key, stream in sorted(process.repository.log.streams.items()):
        if process.repository.log.streams.is_over(key):
            continue  # it is about to be dropped, or would be if everyone were here
        spans = stream.durable.copy()
        spans.add(1, stream.floor)
        spans.update(stream.voids.within(1, spans.last))
        if spans:
            found[key] = list(spans)
    return found
