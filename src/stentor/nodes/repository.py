"""A repository node: all reliable topics that a repository manages, over one link to a broker."""

from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from stentor.machine import (
    MILLISECOND,
    SECOND,
    CloseLedger,
    Commit,
    CommitFailed,
    Committed,
    Effect,
    Input,
    Measured,
    Open,
    Opened,
    Recalled,
    Scanned,
    Serve,
    Started,
    StartTimer,
    Step,
    Stop,
    StopRequested,
    Timer,
    TimerFired,
)
from stentor.model.communication import REPOSITORIES, bundle_of, inbox_of, repository_name, within_of
from stentor.model.control import ControlEvent, GossipFacts, Registration, RegistrationReceipt, TopicTask
from stentor.model.errors import Refusal, Refused
from stentor.model.ids import publisher_id
from stentor.model.mail import MAIL
from stentor.model.reports.status import TopicHealth
from stentor.model.reports.trace import TRACE, kept_of
from stentor.model.trust.access import TopicTerms
from stentor.model.trust.request_topic import requests_pattern
from stentor.nodes.broker.admin.admin_requests import LEFT
from stentor.nodes.client import Settings
from stentor.nodes.conclusion import Conclude, Concluded
from stentor.nodes.containment import FATAL, Offenders, senders_of
from stentor.nodes.letter_transport import LetterTransport
from stentor.nodes.topics.managed_topic import ManagedTopic, ToldTraces
from stentor.nodes.topics.missing_traces import MissingTraces
from stentor.nodes.topics.repository_report import RepositoryReporter
from stentor.nodes.topics.sleeping_topics import SleepingTopics, wake_later
from stentor.nodes.topics.topic_room import NO_FILES, TopicRoom, owner_in, version_in
from stentor.nodes.topics.unserved_topics import UnservedTopics
from stentor.policies.access import AccessRule
from stentor.protocols.delivery.authentication import introduced, is_forged
from stentor.protocols.delivery.repository.repository import TopicRepository, TopicTick
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.transport import (
    AccessShared,
    EventsReceived,
    Founded,
    Greeted,
    LetterReceived,
    LinkDown,
    LinkUp,
    Listening,
    NameRefused,
    SendLetter,
    ShareAccess,
    Vouched,
)
from stentor.wire.block import Block

_LEDGER_INPUTS = (Opened, Measured, Committed, CommitFailed, Scanned, Recalled)
_KEEP_TRACES = 86_400  # seconds
_MOST_TRACES = 10_000_000
_WRITE_TRACES = SECOND  # between commits of them
_MOST_HEARD = 1024  # letters and batches that wait for a ledger: it is open in moments, or cannot be opened at all
_TRACES_KEPT_WITHIN = 10 * SECOND  # traces that were told so long ago are kept by now, or never will be


class TracesHeard(Timer, frozen=True, gc=False, tag="traces heard"):
    """The traces that were heard have waited long enough to be written."""


class RepositoryNode:
    """One repository; `topics` are those whose ledgers it has."""

    def __init__(
        self, link: Settings, settings: RepositorySettings, topics: Iterable[str] = (), rules: Iterable[AccessRule] = ()
    ) -> None:
        assert link.name == repository_name(settings.name)
        self._settings = settings
        self._step = Step()
        self._post = LetterTransport(link, self._step)
        self._kept = kept_of(settings.name)  # the traces that we hear
        self._missing_traces = MissingTraces(settings.name)
        self._incarnation = int(link.incarnation)
        self._told_traces: deque[ToldTraces] = deque()  # that may not be kept yet
        self._kept_traces = 0  # the number of the last one that is
        self._is_concluding = False  # only traces are still stored
        self._is_concluded = False  # we have said so
        self._managed: dict[str, ManagedTopic] = {}
        self._sleeping = SleepingTopics(settings)  # Invariant: no topic is both here and in `_managed`.
        self._room = TopicRoom(settings, self._managed, self._sleeping, tuple(rules))
        self._unserved = UnservedTopics(sorted(topics, key=lambda topic: topic != self._kept), self._room)
        self._reporter = RepositoryReporter(settings, self._managed, self._sleeping, self._unserved)
        self._deleted: dict[str, int] = {}  # versions of topics that are not joined again because of a late invitation
        self._offenders = Offenders()
        self._principal = ""
        self._id = 0

    @property
    def linked(self) -> bool:
        """Whether a broker hears it, and it hears all that it listens to."""
        return self._post.linked

    def step(self, now: int, happened: Input) -> list[Effect]:
        self._step.now = now
        if isinstance(happened, Started):
            self._start()
        if isinstance(happened, Conclude):
            self._conclude()
        elif isinstance(happened, _LEDGER_INPUTS):
            managed = self._managed.get(happened.ledger)
            if managed is not None and not managed.is_stale(happened):
                self._tell_one(happened.ledger, happened)
        elif not self._post.is_mine(happened):
            assert isinstance(happened, TimerFired)
            if isinstance(happened.timer, TracesHeard):
                self._write_traces()
            else:
                assert isinstance(happened.timer, TopicTick)
                self._tick(happened.timer.topic, happened)
        else:
            self._take(self._post.handle(happened))
        self._take(self._post.send())
        self._found_traces()
        self._watch_traces()
        if self._room.is_retiring and self._managed.keys() <= {self._kept}:
            self._step.emit(Stop(LEFT))
        done = self._step.end()
        if isinstance(happened, StopRequested):
            done = [effect for effect in done if not isinstance(effect, Commit)]
        return done

    def _start(self) -> None:
        self._post.listen(inbox_of(repository_name(self._settings.name)))
        self._post.listen(requests_pattern(self._settings.name))
        self._post.listen(REPOSITORIES)
        self._serve_more()
        for topic in self._unserved:
            self._post.listen(bundle_of(topic))  # whoever asks is served at once, or told why not
        if reason := self._unserved.trouble:
            count = len(self._unserved)
            self._step.report("error", "topics are not served", topics=count, reason=reason)
        self._step.emit(Serve())

    def _serve_more(self) -> None:
        """Take up topics that have a ledger here, as many as there is room for."""
        for topic in self._unserved.take(self._step.now):
            self._manage(topic)

    def _manage(self, topic: str, owner: str = "") -> ManagedTopic:
        """Take up a topic, whose ledger is there or is made."""
        self._deleted.pop(topic, None)
        managed = self._managed[topic] = ManagedTopic(self._machine(topic), owner)
        if topic != self._kept:
            self._post.listen(topic, letters=False)
            self._post.watch_bundle(topic)
        if not self._post.hears(bundle_of(topic)):
            self._post.listen(bundle_of(topic))
        self._step.emit(Open(topic))
        return managed

    def _tick(self, topic: str, happened: TimerFired) -> None:
        self._wake(topic)
        self._tell_one(topic, happened)
        self._let_sleep(topic)

    def _let_sleep(self, topic: str) -> None:
        """Close a topic to its ledger if nothing happens there."""
        managed = self._managed.get(topic)
        if managed is not None and self._sleeping.can_take(self._step.now, managed.machine) and not self._is_concluding:
            self._step.emit(self._sleeping.put(self._step.now, managed.machine))
            self._step.emit(CloseLedger(topic))
            managed.machine.log.release()
            del self._managed[topic]
        self._serve_more()

    def _wake(self, topic: str) -> bool:
        """Open a topic if it sleeps, or waits to be served; return whether it does not sleep any more."""
        if self._unserved.take_one(topic):
            self._manage(topic)
        if topic not in self._sleeping:
            return True
        if not self._room.has_ledger():
            self._step.emit(wake_later(self._step.now, topic))
            return False
        machine = self._machine(topic)
        self._managed[topic] = ManagedTopic(machine, self._sleeping.hand_over(topic, machine).owner)
        self._step.emit(Open(topic))
        return True

    # ---- traces

    def _hear_traces(self) -> None:
        """Keep them, if we serve everyone and they are on."""
        if not self._post.client.traces or self._settings.unit:
            self._post.ignore(TRACE)
        elif not self._room.is_retiring:
            if not self._post.hears(TRACE):
                self._post.listen(TRACE, letters=False)
            if self._kept not in self._managed and self._room.has_ledger():
                self._manage(self._kept)

    def _found_traces(self) -> None:
        managed = self._managed.get(self._kept)
        if managed is None or managed.machine.registry.known:
            return
        if managed.machine.is_open and self._post.linked:
            terms = TopicTerms(self._principal, 1, _KEEP_TRACES, _KEEP_TRACES, open=True, most=_MOST_TRACES)
            self._tell_one(self._kept, Founded(terms, self._post.wall() // MILLISECOND))

    def _hear_later(self, managed: ManagedTopic, inputs: Sequence[Input]) -> list[Input]:
        """Keep traces until it is time to write them; return the rest. All nodes tell some every second, and a commit
        for each would cost more than they are worth. The topic's own ticks do not come while it rests.
        """
        arrived = [each for each in inputs if isinstance(each, EventsReceived)]
        if arrived and not managed.heard:
            self._step.emit(StartTimer(TracesHeard(), self._step.now + _WRITE_TRACES))
        managed.heard += arrived
        streams = managed.machine.log.streams
        self._take(self._post.send(self._missing_traces.hear(self._step.now, inputs, streams)))
        return [each for each in inputs if not isinstance(each, EventsReceived)]

    def _write_traces(self) -> None:
        """Hand what was heard to the ledger; one that is being opened gets it when it is open."""
        managed = self._managed.get(self._kept)
        if managed is not None and managed.machine.is_open:
            self._take(self._post.send(self._missing_traces.ask(self._step.now)))
            heard, managed.heard = managed.heard, []
            self._tell_one(self._kept, *heard)
            if self._missing_traces.is_asking:
                self._step.emit(StartTimer(TracesHeard(), self._step.now + _WRITE_TRACES))

    def _watch_traces(self) -> None:
        """See which of our own traces are kept: their numbers are those of the events on the topic of traces."""
        traces = self._post.traces
        newest = self._told_traces[-1].number if self._told_traces else self._kept_traces
        if traces.told == newest and not self._told_traces and not self._is_concluding:
            return
        if traces.told > newest and not traces.rows:
            horizons = {topic: managed.machine.tracer.traced_upto for topic, managed in self._managed.items()}
            self._told_traces.append(ToldTraces(traces.told, self._step.now, horizons))
        durable = self._durable_traces()
        while self._told_traces and (
            self._told_traces[0].number <= durable or self._step.now - self._told_traces[0].at > _TRACES_KEPT_WITHIN
        ):
            self._kept_traces, _, horizons = self._told_traces.popleft()
            for topic, horizon in horizons.items():
                if topic in self._managed:
                    self._managed[topic].machine.tracer.keep(horizon)
        if self._is_concluding and not self._is_concluded and (durable >= traces.told or not self._can_keep_traces):
            self._is_concluded = True
            self._step.emit(Concluded())

    def _durable_traces(self) -> int:
        """Return the number of the last of our own traces that we keep durably ourselves."""
        managed = self._managed.get(self._kept)
        stream = None if managed is None else managed.machine.log.streams.get((self._id, self._incarnation))
        return 0 if stream is None else stream.durable.last

    @property
    def _can_keep_traces(self) -> bool:
        managed = self._managed.get(self._kept)
        if managed is None or not self._post.linked:
            return False
        return managed.machine.is_open and not managed.machine.commits.failure

    def _conclude(self) -> None:
        """Tell the last traces. They come back to us behind all that others told before, and are stored at once."""
        self._is_concluding = True
        for topic, managed in self._managed.items():
            if topic != self._kept:
                managed.machine.conclude(self._step.now)
        self._take(self._post.conclude())
        kept = self._managed.get(self._kept)
        if kept is not None and kept.machine.is_open and kept.heard:
            heard, kept.heard = kept.heard, []
            self._tell_one(self._kept, *heard)

    # ---- inputs

    def _take(self, told: Sequence[Input]) -> None:
        """Hand what the transport tells to the machines; what they say to that may bring more."""
        if not told:
            return
        told_by_topic: dict[str, list[Input]] = {}
        for each in self._offenders.admit(self._step.now, told):
            match each:
                case Greeted():
                    self._principal = self._room.operator = each.principal
                    self._id = publisher_id(each.principal, repository_name(self._settings.name))
                    self._hear_traces()
                case NameRefused():
                    self._step.emit(Stop(each.reason))
                case AccessShared():
                    self._tell_one(each.topic, each)
                case LinkUp():
                    told_by_topic.update({topic: [*told_by_topic.get(topic, ()), each] for topic in self._managed})
                    self._announce_sleeping()
                case EventsReceived():
                    self._arrived(each, told_by_topic)
                case LetterReceived():
                    if not self._is_concluding:
                        self._heard(each, told_by_topic)
                case Vouched():
                    if not self._sleeping.ignores(each):
                        told_by_topic.setdefault(each.topic, []).append(each)
                case _:
                    assert isinstance(each, Listening | LinkDown), each
        for topic, inputs in told_by_topic.items():
            self._hand(topic, inputs)

    def _announce_sleeping(self) -> None:
        """Tell the broker on a new link what topics would tell it if they were awake."""
        for topic, facts in self._sleeping.notices():
            self._post.share(ShareAccess(topic, facts, 0))

    def _tell_one(self, topic: str, *happened: Input) -> None:
        managed = self._managed.get(topic)
        if managed is None or (self._is_concluding and topic != self._kept):
            return
        machine = managed.machine
        opened = machine.is_open
        self._take(self._step_topic(topic, managed, happened))
        if machine.is_open and not opened:
            if self._post.linked:
                self._take(self._post.send(machine.step(self._step.now, LinkUp(self._principal))))
            heard, managed.heard = managed.heard, []
            self._take(self._step_topic(topic, managed, heard))
        if machine.is_gone and self._managed.get(topic) is managed:
            self._let_go(topic)

    def _step_topic(self, topic: str, managed: ManagedTopic, happened: Sequence[Input]) -> list[Input]:
        """Step the machine of a topic, and say what it wants to be said. If that fails at what a peer said, the rest is
        not done, another machine begins with what is durable, and the peer is not heard for a while.
        """
        machine = managed.machine
        try:
            return self._post.send(machine.step(self._step.now, *happened))
        except FATAL:
            raise
        except Exception as error:
            senders = senders_of(happened if machine.handling is None else (machine.handling,))
            if not senders:
                raise
            for effect in self._offenders.blame(self._step.now, senders, error, topic):
                self._step.emit(effect)
        managed.renew(self._machine(topic))
        self._post.ignore(within_of(self._settings.unit, topic))  # a new machine asks for it again
        if topic != self._kept and not self._post.hears(topic):
            self._post.listen(topic, letters=False)
        self._post.forget_shares(topic)
        for told in self._told_traces:
            told.horizons.pop(topic, None)
        self._step.emit(Open(topic))
        return []

    def _machine(self, topic: str) -> TopicRepository:
        """Return a machine that knows nothing yet; what becomes of traces and of mail is not traced."""
        traces = None if topic in (self._kept, MAIL) else self._post.traces
        return TopicRepository(topic, self._settings, traces, self._room.recent)

    def _let_go(self, topic: str) -> None:
        managed = self._managed.pop(topic)
        managed.machine.log.release()
        if managed.machine.registry.deleted:
            self._deleted[topic] = managed.machine.registry.version
        for name in (topic, bundle_of(topic), within_of(self._settings.unit, topic)):
            self._post.ignore(name)
        self._serve_more()

    def _arrived(self, arrived: EventsReceived, told: dict[str, list[Input]]) -> None:
        """Each topic's events go to its machine."""
        by_topic: dict[str, list[Block]] = {}
        for block in arrived.blocks:
            topic = self._post.client.topics[block.topic].removeprefix(within_of(self._settings.unit, ""))
            topic = self._kept if topic == TRACE else topic
            by_topic.setdefault(topic, []).append(block)
        for topic, blocks in by_topic.items():
            told.setdefault(topic, []).append(EventsReceived(blocks))

    def _hand(self, topic: str, inputs: list[Input]) -> None:
        self._wake(topic)
        managed = self._managed.get(topic)
        if managed is not None and not managed.machine.is_open:
            if len(managed.heard) < _MOST_HEARD:  # what is dropped comes again
                managed.heard += [each for each in inputs if not isinstance(each, LinkUp)]
            inputs = [each for each in inputs if isinstance(each, LinkUp)]
        elif managed is not None and topic == self._kept and not self._is_concluding:
            inputs = self._hear_later(managed, inputs)
        if inputs:
            self._tell_one(topic, *inputs)

    def _heard(self, heard: LetterReceived, told: dict[str, list[Input]]) -> None:
        if heard.sender == self._id:
            return  # bundles include ourselves
        by_topic: dict[str, list[ControlEvent]] = {}
        for event in heard.events:
            if is_forged(heard, event) or not self._wake(event.topic):
                continue
            if isinstance(event, Registration) and self._answered(heard, event):
                continue
            if event.topic not in self._managed and not self._is_invitation(heard.sender, event):
                continue
            by_topic.setdefault(event.topic, []).append(event)
        for topic, events in by_topic.items():
            told.setdefault(topic, []).append(LetterReceived(heard.sender, events, heard.blocks, heard.requester))

    def _is_invitation(self, sender: int, event: ControlEvent) -> bool:
        """Another repository, which its facts name as one of the topic, says that we are to manage it too."""
        if isinstance(event, GossipFacts) and introduced(event.facts).wrote(sender, event.sender):
            mine = f"member/{self._settings.name}"
            wanted = not self._room.is_retiring and version_in(event.facts) > self._deleted.get(event.topic, -1)
            if wanted and any(key == mine and value for key, _, _, value in event.facts):
                return self._accept(event.topic, owner_in(event.facts))
        return False

    def _accept(self, topic: str, owner: str) -> bool:
        """Take up a topic to which another repository invites us, if there is room for it."""
        if topic in self._unserved:
            return False
        try:
            self._room.check(topic, owner)
        except Refused as refused:
            self._step.report("warning", "an invitation is refused", topic=topic, owner=owner, reason=refused.reason)
            return False
        self._manage(topic, owner)
        return True

    # ---- operators

    def _answered(self, heard: LetterReceived, event: Registration) -> bool:
        """Whether an operator's wish concerns no topic of ours alone."""
        try:
            if event.task is TopicTask.STATUS:
                status = {"unwilling": self._room.unwillingness(event.topic, event.principal)}
                self._reply(event, report=msgspec.json.encode(status | self.status(self._step.now, event.topic)))
                return True
            if event.task in (TopicTask.DRAIN, TopicTask.RETIRE):
                self._drain(heard, event)
                return True
            if event.topic in self._managed:
                if reason := self._managed[event.topic].machine.state.unopened:
                    raise Refused(Refusal.BUSY, f"{self._settings.name} cannot open {event.topic}: {reason}")
                return False
            if event.topic in self._unserved:
                raise Refused(Refusal.BUSY, f"{self._settings.name} cannot serve {event.topic} now: {NO_FILES}")
            if event.task is not TopicTask.CREATE:
                raise Refused(Refusal.UNKNOWN, f"{self._settings.name} does not manage {event.topic!r}")
            self._room.check_creation(event, self._post.wall() // MILLISECOND)
            self._manage(event.topic, event.principal)
        except Refused as refused:
            self._reply(event, refused)
            return True
        return False

    def _drain(self, heard: LetterReceived, event: Registration) -> None:
        """Leave all bundles; refused if we are the last of one. Only whoever runs us, or an operator, may do so."""
        name = self._settings.name
        self._room.check_operator(event.sender, event.principal)
        self._wake(next(iter(self._sleeping), ""))  # one that sleeps has its topic alone: it must be asked, too
        bundles = {topic: managed for topic, managed in self._managed.items() if topic != self._kept}
        for topic, managed in bundles.items():
            machine = managed.machine
            if not machine.is_open:
                raise Refused(Refusal.BUSY, f"{name} is still opening {topic}")
            machine.registry.check_remaining(topic, (name,))
        self._room.is_retiring = event.task is TopicTask.RETIRE
        for topic in bundles:
            removal = msgspec.structs.replace(
                event, topic=topic, task=TopicTask.REMOVE_REPOSITORY, repositories=(name,), token=0
            )
            self._tell_one(topic, LetterReceived(heard.sender, [removal], requester=heard.requester))
        self._reply(event, report=msgspec.json.encode(self.status(self._step.now)))

    def _reply(self, event: Registration, refused: Refused | None = None, report: bytes = b"") -> None:
        code, reason = (refused.code, refused.reason) if refused is not None else (None, "")
        me, token = self._settings.name, event.token
        receipt = RegistrationReceipt(event.topic, me, token=token, code=code, reason=reason, report=report)
        self._take(self._post.send([SendLetter(inbox_of(event.sender), (receipt,))]))

    def health(self) -> dict[str, TopicHealth]:
        """Return whether each topic is served, without what takes long to count."""
        return self._reporter.health()

    def status(self, now: int, only: str = "") -> dict[str, object]:
        """Return what an operator wants to see, of all topics or of one."""
        return self._reporter.status(now, self._principal, only)
