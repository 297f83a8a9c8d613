"""Sync replication: a sync is durable on as many repositories as events must be on, before a subscriber is told of it.

Every repository tells what it has written down: the one that steers a subscriber to all, the others to that one. So a
sync costs one letter of each repository for each of its commits, however many subscribers and events are in it. One
that begins to steer asks the others first: they may know more of the subscriber than it does.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stentor.machine import MILLISECOND
from stentor.model.control import GossipSync, HandedOut, Recovery
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.replication.bundle import PeerRepository
from stentor.protocols.delivery.replication.membership import MembershipView
from stentor.protocols.delivery.repository.serving.steering_answers import SteeringAnswers
from stentor.protocols.delivery.repository.serving.subscriber_cursor import SubscriberCursor
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.storing.commit_queue import CommitQueue, Noted
from stentor.protocols.delivery.repository.topic_state import TopicState

_AGAIN = 250 * MILLISECOND  # before others are asked again


class _PendingSync(NamedTuple):
    """A sync that is durable here: others must have this too."""

    cursor: SubscriberCursor
    noted: Noted
    at: int  # when it was made


class _PendingCursor(NamedTuple):
    """A subscriber that is to be steered, as it asked."""

    event: Recovery
    answers: set[str]  # the repositories that have told what they know of it


class SyncReplication:
    """The syncs of the subscribers that one repository steers, and what others have of them."""

    def __init__(
        self,
        state: TopicState,
        feeds: SubscriberFeeds,
        membership: MembershipView,
        commits: CommitQueue,
        answers: SteeringAnswers,
    ) -> None:
        self._state, self._step = state, state.step
        self._table, self._bundle = state.table, state.bundle
        self._feeds, self._membership = feeds, membership
        self._commits, self._answers = commits, answers
        self._known: dict[str, dict[str, dict[StreamId, Spans]]] = {}  # by subscriber and repository
        self._handed: dict[str, dict[str, HandedOut]] = {}  # by subscriber and repository
        self._pending_syncs: dict[str, deque[_PendingSync]] = {}
        self._pending_cursors: dict[SubscriberCursor, _PendingCursor] = {}  # who is not steered yet
        self._stirred: dict[str, None] = {}  # of whom somebody knows more than before
        self._copies = 0
        self._asked = 0  # when others were last asked

    # ---- what is durable here

    def consult(self, cursor: SubscriberCursor, event: Recovery) -> None:
        """Steer a subscriber as it asked, once others have told what they know of it."""
        self._pending_cursors[cursor] = _PendingCursor(event, set())
        cursor.progress.renew()
        self._table.note_progress(cursor.progress.name)

    def committed(self, noted: Mapping[str, Noted]) -> None:
        """Tell what is written down to those who must know."""
        pending: dict[str, Noted] = {}
        others: dict[tuple[str | None, bool], dict[str, Noted]] = {}
        peers, mates = self._bundle.peers, self._bundle.same_unit_peers
        for name, note in noted.items():
            cursor = self._feeds.cursors.get(name)
            progress = self._table.destinations.get(name)
            if cursor is not None:
                self._pending_syncs.setdefault(name, deque()).append(_PendingSync(cursor, note, self._step.now))
                self._stirred[name] = None
                if cursor in self._pending_cursors:
                    pending[name] = note
                else:
                    others.setdefault((None, note.whole), {})[name] = note
            elif progress is not None and progress.steerer in (peers if note.whole else mates):
                others.setdefault((progress.steerer, note.whole), {})[name] = note
        if pending:
            self._state.say(self._tell(pending, asking=True))
        for (repository, whole), notes in others.items():
            self._state.say(self._tell(notes, whole=whole), repository)

    def abandon(self, stream: StreamId) -> None:
        """There will be nothing more of a stream: what others have of it does not matter."""
        for known in self._known.values():
            for theirs in known.values():
                theirs.pop(stream, None)

    def forget(self, name: str) -> None:
        """A subscriber is none any more. If the name subscribes again, nobody knows anything of that yet."""
        self._known.pop(name, None)
        self._handed.pop(name, None)

    def _tell(self, notes: Mapping[str, Noted], *, asking: bool = False, whole: bool = False) -> GossipSync:
        syncs = {name: note.done for name, note in notes.items()}
        handed = {name: note.handed for name, note in notes.items() if note.handed.life}
        registrations = {name: note.registration for name, note in notes.items() if note.registration}
        return GossipSync(
            self._state.topic,
            self._state.settings.name,
            syncs=syncs,
            asking=asking,
            whole=whole,
            handed=handed,
            registrations=registrations,
        )

    def tell_all(self, peer: PeerRepository) -> None:
        """Tell another repository, which knows something else of subscribers, what is written down here."""
        unwritten = self._commits.unwritten_subscribers()
        notes = {name: note for name, note in self._notes().items() if name not in unwritten}
        if notes:
            self._state.say(self._tell(notes, whole=True), peer)

    def _notes(self) -> dict[str, Noted]:
        """Return all that we know of each subscriber, written down or not."""
        return {
            name: Noted(each.sync, each.reached(), True, each.handed, each.registration)
            for name, each in self._table.destinations.items()
        }

    def hand_over(self, peers: Sequence[PeerRepository], copies: int) -> bool:
        """Return whether so many of these have written down all that we know of subscribers; tell those who have not.
        Whoever steers one next must know what it has acknowledged, and what its lives were handed.
        """
        notes = self._notes().items()
        lacking = [peer for peer in peers if not all(self._has(peer.name, name, note) for name, note in notes)]
        if len(peers) - len(lacking) >= copies:
            return True
        if self._step.now - self._asked >= _AGAIN:
            self._asked = self._step.now
            for peer in lacking:
                self.tell_all(peer)
        return False

    # ---- what others have

    def on_sync(self, peer: PeerRepository, gossip: GossipSync) -> None:
        """Note what another repository has written down of subscribers."""
        for name, told in gossip.syncs.items():
            progress = self._table.destinations.get(name)
            if progress is None or gossip.registrations.get(name, 0) != progress.registration:
                continue
            done = self._table.streams.current(told)
            known = self._known.setdefault(name, {}).setdefault(peer.name, {})
            for held in done:
                spans = known.setdefault((held.publisher, held.incarnation), Spans())
                spans.update(((1, held.floor), *held.spans))
            handed = gossip.handed.get(name, HandedOut())
            theirs = self._handed.setdefault(name, {})
            theirs[peer.name] = theirs.get(peer.name, HandedOut()).newest(handed)
            self._stirred[name] = None
            cursor = self._feeds.cursors.get(name)
            if gossip.whole and cursor is not None and cursor in self._pending_cursors:
                self._pending_cursors[cursor].answers.add(peer.name)
            learnt = progress.learn(handed)
            if progress.advance(done) or learnt:
                self._table.note_progress(name)
            if gossip.asking:
                if cursor is None:
                    progress.steerer = peer.name
                else:
                    cursor.was_elsewhere = True  # it is steered there, and we have not heard that it moved
                progress.renew()
                self._table.note_progress(name)

    def _has(self, peer: str, name: str, noted: Noted) -> bool:
        known = self._known.get(name, {}).get(peer, {})
        handed = self._handed.get(name, {}).get(peer, HandedOut())
        nothing = Spans()
        return handed.newest(noted.handed) == handed and all(
            known.get((held.publisher, held.incarnation), nothing).covers(*span)
            for held in noted.done
            if not self._table.streams.is_closed((held.publisher, held.incarnation))
            for span in ((1, held.floor), *held.spans)
        )

    # ---- what follows

    def confirm_replicated(self, copies: int) -> None:
        """Tell what as many repositories have as must."""
        if not self._stirred and copies == self._copies:
            return
        names = list(self._stirred) if copies == self._copies else list(self._pending_syncs)
        self._stirred, self._copies = {}, copies
        for name in names:
            claims = self._pending_syncs.get(name)
            while claims and self._is_agreed(claims[0], copies):
                self._agree(claims.popleft())
            if not claims:
                self._pending_syncs.pop(name, None)

    def _is_agreed(self, claim: _PendingSync, copies: int) -> bool:
        name = claim.cursor.progress.name
        if self._feeds.cursors.get(name) is not claim.cursor:
            return True  # nobody waits for it
        having = [peer for peer in self._bundle.same_unit_peers if self._has(peer, name, claim.noted)]
        if claim.cursor in self._pending_cursors:
            living = [peer.name for peer in self._membership.living]
            return len(having) >= copies - 1 and self._pending_cursors[claim.cursor].answers.issuperset(living)
        return len(having) >= copies - 1

    def _agree(self, claim: _PendingSync) -> None:
        cursor = claim.cursor
        pending = self._pending_cursors.pop(cursor, None)
        if self._feeds.cursors.get(cursor.progress.name) is not cursor:
            return
        cursor.safe = max(cursor.safe, claim.noted.sync)
        handed = claim.noted.handed
        if handed.life == cursor.incarnation and handed.ended:
            self._feeds.part(cursor.progress.name, cursor.inbox, cursor.attempt)
            return
        if pending is not None:
            if cursor.doubt is None and pending.answers >= self._bundle.peers.keys():
                self._feeds.judge(cursor, cursor.given_before())
            self._answers.begin(cursor, pending.event)
        elif cursor.is_active:
            self._feeds.tell_sync(cursor)
        if handed.life == cursor.incarnation:
            self._feeds.ask_known(cursor)

    def tick(self) -> bool:
        """Ask again for what others have; return whether anybody waits for it."""
        now, settings = self._step.now, self._state.settings
        # Whoever handed something to an earlier life tells that it exists, unless it is silent.
        self._feeds.judge_after(settings.suspicion if self._membership.is_here else settings.absence)
        for cursor, pending in list(self._pending_cursors.items()):
            if self._feeds.cursors.get(cursor.progress.name) is not cursor:
                del self._pending_cursors[cursor]
            elif now - cursor.began >= settings.suspicion and not self._commits.failure:
                # it may begin; what it has acknowledged is told when others have it too
                del self._pending_cursors[cursor]
                self._answers.begin(cursor, pending.event)
        self._stirred |= dict.fromkeys(self._pending_syncs)
        overdue = {name: claims[0] for name, claims in self._pending_syncs.items() if now - claims[0].at >= _AGAIN}
        if overdue and now - self._asked >= _AGAIN:
            self._asked = now
            self._state.say(self._tell({name: claim.noted for name, claim in overdue.items()}, asking=True))
        return bool(self._pending_syncs or self._pending_cursors)
