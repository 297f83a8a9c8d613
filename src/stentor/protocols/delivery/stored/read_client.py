"""Read client: gets what is stored of a topic, at rest.

The client asks the bundle what there is, and then one repository after the other for it, page by page. Each event comes
once, whatever is lost on the way and whoever dies meanwhile.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from stentor.machine import MILLISECOND, SECOND, Effect, Input, StartTimer, Step, Timer, TimerFired
from stentor.model.control import ControlEvent
from stentor.model.errors import Refusal
from stentor.model.stored.position import Position
from stentor.model.stored.reading import Page, PageRequest, ReaderAck, Stock, StockRequest
from stentor.model.trust.request_topic import request_topic
from stentor.model.wording.count import counted
from stentor.protocols.delivery.authentication import BundleMembers
from stentor.protocols.delivery.retry_timer import NEVER
from stentor.protocols.delivery.transport import LetterReceived, LinkDown, LinkUp, SendLetter, Vouched
from stentor.wire.block import Block

_TRY_ELSEWHERE = (Refusal.BUSY, Refusal.UNKNOWN)


class RetrievalTick(Timer, frozen=True, gc=False, tag="retrieval"):
    """A repository that was asked may be silent: ask again, or another one."""


class StoredReadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in nanoseconds, sizes in bytes."""

    silence: int = 2 * SECOND  # without a letter, until somebody else is asked
    again: int = 200 * MILLISECOND  # until everyone is asked again
    patience: int = 30 * SECOND  # without any progress, until it is given up
    page: int = 2 << 20


class Availability(NamedTuple):
    """What can be read of a topic, beyond `done`."""

    repository: str  # that says so
    number: int  # its sequence number at the end of all that it shows to readers
    members: tuple[str, ...]  # the repositories that store all of the topic
    done: Position
    parts: tuple[Position, ...]
    gone: Position  # what was not read and is forgotten

    @property
    def end(self) -> Position:
        """Where one is who has read all parts."""
        end = self.done
        for part in self.parts:
            end = end.plus(part)
        return end


class StoredPage(NamedTuple):
    """Some stored events. The sequence number of one is its catenation number and the base of its block."""

    repository: str
    blocks: Sequence[Block]
    bases: Sequence[int]
    publishers: Sequence[tuple[int, str]]  # their names
    lost: Position  # what was to be here, is forgotten, and is in no lake


# ---- what the application says, and is told


class AvailabilityRequested(Input, frozen=True, tag="enquired"):
    """What is there to be read? The request is completed here: who asks, and its token."""

    token: int
    request: StockRequest
    patience: int = 0  # nanoseconds; 0 is what the settings say


class PagesRequested(Input, frozen=True, kw_only=True, tag="sought"):
    """Get these events, from these repositories."""

    token: int
    topic: str
    wanted: Position
    where: str
    repositories: Sequence[str]
    patience: int = 0  # nanoseconds; 0 is what the settings say


class PageConsumed(Input, frozen=True, gc=False, tag="taken"):
    """The application has taken a page of this, and wants another one."""

    token: int


class ReadCancelled(Input, frozen=True, gc=False, tag="dropped"):
    """The application wants no more of this."""

    token: int


class ReadAcknowledged(Input, frozen=True, tag="finished"):
    """The application is done with these."""

    topic: str
    done: Position


class ReportAvailable(Effect, frozen=True, tag="tell stock"):
    """This is there."""

    token: int
    available: Availability


class DeliverPage(Effect, frozen=True, tag="give"):
    """Some of what was sought."""

    token: int
    leaf: StoredPage
    rest: Position  # what is still to come


class Fail(Effect, frozen=True, tag="fail"):
    """It cannot be had."""

    token: int
    code: Refusal
    reason: str


class _Enquiry:
    """Somebody wants to know what there is."""

    def __init__(self, request: StockRequest, now: int, patience: int) -> None:
        self.request = request
        self.patience = patience
        self.began = now
        self.due = now  # when the repositories are asked, for the first time or again
        self.refusal: Stock | None = None


class _Search:
    """Somebody wants events."""

    def __init__(self, sought: PagesRequested, now: int, patience: int) -> None:
        self.sought = sought
        self.patience = patience
        self.wanted = sought.wanted  # that nobody has given yet
        self.turn = -1  # whose it is to be asked
        self.asked = 0  # the token of the page that is under way; 0 is none
        self.letters: dict[int, tuple[Page, Sequence[Block]]] = {}  # of that page; Invariant: none without a token
        self.room = 1  # pages that the application can take
        self.progress = now  # when a page last came, or was taken
        self.due = now  # when a repository is asked; NEVER until the application takes a page
        self.trouble = "they do not have them"

    @property
    def repository(self) -> str:
        return self.sought.repositories[self.turn % len(self.sought.repositories)]

    def give_up_page(self) -> None:
        self.asked = 0
        self.letters = {}


class StoredReadClient:
    """A machine: all that one client reads under one name."""

    def __init__(self, sender: str, name: str, settings: StoredReadSettings | None = None) -> None:
        """`sender` is the name under which it is connected."""
        self._sender = sender
        self._name = name
        self._settings = settings or StoredReadSettings()
        self._step = Step()
        self._principal = ""
        self._node = ""
        self._linked = False
        self._believed: dict[str, BundleMembers] = {}  # by topic, as our broker has told
        self._enquiries: dict[int, _Enquiry] = {}
        self._searches: dict[int, _Search] = {}
        self._pages: dict[int, int] = {}  # which search a page under way is for; Invariant: `_searches` has it
        self._tokens = 0
        self._inputs: dict[type[Input], Callable[[Any], None]] = {
            LinkUp: self._on_link_up,
            LinkDown: self._on_link_down,
            Vouched: self._on_vouched,
            LetterReceived: self._on_letter,
            TimerFired: lambda _: None,
            AvailabilityRequested: self._on_availability_requested,
            PagesRequested: self._on_pages_requested,
            PageConsumed: self._on_page_consumed,
            ReadCancelled: self._on_cancelled,
            ReadAcknowledged: self._on_acknowledged,
        }

    def step(self, now: int, happened: Input) -> list[Effect]:
        self._step.now = now
        self._inputs[type(happened)](happened)
        self._pursue()
        return self._step.end()

    # ---- the link

    def _on_link_up(self, linked: LinkUp) -> None:
        self._principal = linked.principal
        self._node = linked.node
        self._linked = True
        for enquiry in self._enquiries.values():
            enquiry.due = self._step.now
        for search in self._searches.values():
            if search.asked:
                self._give_up_page(search)
                search.turn -= 1  # nothing is wrong with whom it asked
                search.due = self._step.now

    def _on_link_down(self, _: LinkDown) -> None:
        self._linked = False

    def _on_vouched(self, vouched: Vouched) -> None:
        """Ask again: whoever answered before it was known that it may was not believed."""
        self._believed[vouched.topic] = BundleMembers(vouched.members)
        for enquiry in self._enquiries.values():
            if enquiry.request.topic == vouched.topic:
                enquiry.due = self._step.now

    def _send(self, repository: str, event: ControlEvent) -> None:
        self._step.emit(SendLetter(request_topic(self._sender, repository), (event,)))

    def _send_to_all(self, event: ControlEvent) -> None:
        """Tell the repositories of a topic; as long as we do not know them, we could not believe their answers."""
        believed = self._believed.get(event.topic)
        for name in believed.principals if believed is not None else ():
            self._send(name, event)

    # ---- the application

    def _on_availability_requested(self, requested: AvailabilityRequested) -> None:
        patience = requested.patience or self._settings.patience
        self._enquiries[requested.token] = _Enquiry(requested.request, self._step.now, patience)

    def _on_pages_requested(self, requested: PagesRequested) -> None:
        patience = requested.patience or self._settings.patience
        self._searches[requested.token] = _Search(requested, self._step.now, patience)

    def _on_page_consumed(self, consumed: PageConsumed) -> None:
        search = self._searches.get(consumed.token)
        if search is not None:
            search.room += 1
            search.progress = self._step.now
            if search.due == NEVER:
                self._request(consumed.token, search)

    def _on_cancelled(self, cancelled: ReadCancelled) -> None:
        search = self._searches.pop(cancelled.token, None)
        if search is not None:
            self._pages.pop(search.asked, None)
        self._enquiries.pop(cancelled.token, None)

    def _on_acknowledged(self, acknowledged: ReadAcknowledged) -> None:
        done = acknowledged.done.held
        self._send_to_all(ReaderAck(acknowledged.topic, self._sender, self._name, self._principal, done))

    # ---- asking

    def _pursue(self) -> None:
        """Ask where it is time to, and give up what is of no use."""
        if self._linked:
            for token, enquiry in list(self._enquiries.items()):
                if enquiry.due <= self._step.now:
                    self._enquire(token, enquiry)
            for token, search in list(self._searches.items()):
                if search.due <= self._step.now:
                    self._ask(token, search)
        dues = [each.due for each in self._enquiries.values()] + [each.due for each in self._searches.values()]
        if self._linked and min(dues, default=NEVER) < NEVER:
            self._step.emit(StartTimer(RetrievalTick(), min(dues)))

    def _enquire(self, token: int, enquiry: _Enquiry) -> None:
        now, refusal = self._step.now, enquiry.refusal
        if now - enquiry.began > enquiry.patience or (refusal is not None and refusal.code not in _TRY_ELSEWHERE):
            del self._enquiries[token]
            code, reason = (refusal.code, refusal.reason) if refusal is not None else (None, "")
            topic = enquiry.request.topic
            hint = f"no repository of {topic!r} answers: is it a reliable topic, and are they there?"
            self._step.emit(Fail(token, code or Refusal.SILENT, reason or hint))
            return
        enquiry.due = now + self._settings.silence
        who = {"sender": self._sender, "token": token, "name": self._name}
        request = msgspec.structs.replace(enquiry.request, **who, principal=self._principal, node=self._node)
        self._send_to_all(request)

    def _ask(self, token: int, search: _Search) -> None:
        """Ask for a page: somebody else if the last one was silent."""
        if self._step.now - search.progress > search.patience:
            del self._searches[token]
            self._pages.pop(search.asked, None)
            topic, names = search.sought.topic, ", ".join(search.sought.repositories)
            reason = (
                f"{counted(len(search.wanted), 'event')} of {topic!r} cannot be read from {names}: {search.trouble}"
            )
            self._step.emit(Fail(token, Refusal.SILENT, reason))
            return
        if search.asked:
            search.trouble = f"{search.repository} does not answer"
        self._give_up_page(search)
        search.turn += 1
        self._request(token, search)

    def _give_up_page(self, search: _Search) -> None:
        self._pages.pop(search.asked, None)
        search.give_up_page()

    def _request(self, token: int, search: _Search) -> None:
        self._tokens += 1
        search.asked = self._tokens
        self._pages[search.asked] = token
        search.due = self._step.now + self._settings.silence
        request = PageRequest(
            topic=search.sought.topic,
            sender=self._sender,
            token=search.asked,
            name=self._name,
            principal=self._principal,
            wanted=search.wanted.held,
            where=search.sought.where,
            budget=self._settings.page,
        )
        self._send(search.repository, request)

    # ---- answers

    def _on_letter(self, letter: LetterReceived) -> None:
        for event in letter.events:
            if isinstance(event, Stock) and event.token in self._enquiries:
                if self._is_believed(letter.sender, event, self._enquiries[event.token].request.topic):
                    self._on_stock(event)
            elif isinstance(event, Page) and event.token in self._pages:
                token = self._pages[event.token]
                search = self._searches[token]
                if self._is_believed(letter.sender, event, search.sought.topic):
                    self._on_page(token, search, event, letter.blocks)

    def _is_believed(self, sender: int, event: ControlEvent, topic: str) -> bool:
        """Return whether a repository of the topic that was asked about has sent this."""
        believed = self._believed.get(topic)
        return event.topic == topic and believed is not None and believed.wrote(sender, event.sender)

    def _on_stock(self, stock: Stock) -> None:
        if stock.code is not None:
            enquiry = self._enquiries[stock.token]
            enquiry.refusal = stock
            if stock.code not in _TRY_ELSEWHERE:
                enquiry.due = self._step.now  # nobody else would say anything else
            return
        del self._enquiries[stock.token]
        available = Availability(
            repository=stock.sender,
            number=stock.number,
            members=stock.members,
            done=Position.of(stock.done),
            parts=tuple(Position.of(part) for part in stock.parts),
            gone=Position.of(stock.gone),
        )
        self._step.emit(ReportAvailable(stock.token, available))

    def _on_page(self, token: int, search: _Search, page: Page, blocks: Sequence[Block]) -> None:
        if page.code is not None:
            if page.code in _TRY_ELSEWHERE:
                search.trouble = page.reason
                self._pass_on(search)
            else:
                del self._searches[token], self._pages[search.asked]
                self._step.emit(Fail(token, page.code, page.reason))
            return
        search.due = self._step.now + self._settings.silence
        search.letters[page.index] = page, blocks
        if len(search.letters) == page.count:
            self._complete(token, search)

    def _pass_on(self, search: _Search) -> None:
        """This repository does not have it: ask the next one at once, unless everyone was asked."""
        self._give_up_page(search)
        everyone = not (search.turn + 1) % len(search.sought.repositories)
        search.due = self._step.now + self._settings.again if everyone else self._step.now

    def _complete(self, token: int, search: _Search) -> None:
        letters = [search.letters[index] for index in sorted(search.letters)]
        covered = Position.of(letters[0][0].covered)
        rest = search.wanted.minus(covered)
        if rest == search.wanted:
            self._pass_on(search)
            return
        leaf = StoredPage(
            repository=search.repository,
            blocks=[block for _, blocks in letters for block in blocks],
            bases=[base for page, _ in letters for base in page.bases],
            publishers=sorted({pair for page, _ in letters for pair in page.publishers}),
            lost=Position.of(letters[0][0].lost),
        )
        search.wanted = rest
        search.progress = self._step.now
        search.room -= 1
        self._step.emit(DeliverPage(token, leaf, rest))
        if not rest.streams:
            del self._searches[token], self._pages[search.asked]
            return
        self._give_up_page(search)
        if search.room >= 0:
            self._request(token, search)
        else:
            search.due = NEVER  # until it is taken
