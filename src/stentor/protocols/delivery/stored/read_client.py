"""Read client: gets what is stored of a topic, at rest. Asks the bundle what there is, and then one repository after
the other for it, page by page; each event comes once, whatever is lost on the way and whoever dies meanwhile.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from stentor.machine import MILLISECOND, SECOND, Effect, Input, StartTimer, Timer, TimerFired
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
    number: int  # … its sequence number at the end of all that it shows to readers
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


class PagesRequested(Input, frozen=True, tag="sought"):
    """Get these events, from these repositories."""

    token: int
    topic: str
    wanted: Position
    where: str
    repositories: Sequence[str]
    patience: int = 0  # nanoseconds; 0 is what the settings say


class PageConsumed(Input, frozen=True, gc=False, tag="taken"):
    """The application has taken a leaf of this, and wants another one."""

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
        self.began, self.due = now, now
        self.refusal: Stock | None = None


class _Search:
    """Somebody wants events."""

    def __init__(self, sought: PagesRequested, now: int, patience: int) -> None:
        self.sought = sought
        self.patience = patience
        self.wanted = sought.wanted  # that nobody has given yet
        self.turn = -1  # whose it is to be asked
        self.asked = 0  # the token of the page that is under way; 0 is none
        self.letters: dict[int, tuple[Page, Sequence[Block]]] = {}
        self.room = 1  # leaves that the application can take
        self.progress, self.due = now, now
        self.trouble = "they do not have them"

    @property
    def repository(self) -> str:
        return self.sought.repositories[self.turn % len(self.sought.repositories)]


class StoredReadClient:
    """All that one client reads under one name."""

    def __init__(self, sender: str, name: str, settings: StoredReadSettings | None = None) -> None:
        """`sender` is the name under which it is connected."""
        self._sender, self._name = sender, name
        self._settings = settings or StoredReadSettings()
        self._principal = self._node = ""
        self._linked = False
        self._believed: dict[str, BundleMembers] = {}  # by topic, as our broker has told
        self._enquiries: dict[int, _Enquiry] = {}
        self._searches: dict[int, _Search] = {}
        self._pages: dict[int, int] = {}  # the search that a page belongs to
        self._tokens = 0
        self._effects: list[Effect] = []
        self._inputs: dict[type[Input], Callable[[int, Any], None]] = {
            LinkUp: self._link_made,
            LinkDown: self._link_lost,
            Vouched: self._vouched,
            LetterReceived: self._heard,
            TimerFired: lambda *_: None,
            AvailabilityRequested: self._enquired,
            PagesRequested: self._sought,
            PageConsumed: self._taken,
            ReadCancelled: self._dropped,
            ReadAcknowledged: self._finished,
        }

    def step(self, now: int, happened: Input) -> list[Effect]:
        self._inputs[type(happened)](now, happened)
        self._pursue(now)
        effects, self._effects = self._effects, []
        return effects

    # ---- the link

    def _link_made(self, now: int, linked: LinkUp) -> None:
        self._principal, self._node, self._linked = linked.principal, linked.node, True
        for enquiry in self._enquiries.values():
            enquiry.due = now
        for search in self._searches.values():
            if search.asked:
                self._give_up(search)
                search.turn, search.due = search.turn - 1, now  # nothing is wrong with whom it asked

    def _link_lost(self, now: int, lost: LinkDown) -> None:  # noqa: ARG002
        self._linked = False

    def _vouched(self, now: int, vouched: Vouched) -> None:
        """Whoever answered before it was known that it may is asked again."""
        self._believed[vouched.topic] = BundleMembers(vouched.members)
        for enquiry in self._enquiries.values():
            if enquiry.request.topic == vouched.topic:
                enquiry.due = now

    def _post(self, repository: str, event: ControlEvent) -> None:
        self._effects.append(SendLetter(request_topic(self._sender, repository), (event,)))

    def _post_to_all(self, event: ControlEvent) -> None:
        """Tell the repositories of a topic; as long as we do not know them, we could not believe their answers."""
        believed = self._believed.get(event.topic)
        for name in believed.principals if believed is not None else ():
            self._post(name, event)

    # ---- the application

    def _enquired(self, now: int, enquired: AvailabilityRequested) -> None:
        self._enquiries[enquired.token] = _Enquiry(enquired.request, now, enquired.patience or self._settings.patience)

    def _sought(self, now: int, sought: PagesRequested) -> None:
        self._searches[sought.token] = _Search(sought, now, sought.patience or self._settings.patience)

    def _taken(self, now: int, taken: PageConsumed) -> None:
        search = self._searches.get(taken.token)
        if search is not None:
            search.room, search.progress = search.room + 1, now
            if search.due == NEVER:
                self._request(now, taken.token, search)

    def _dropped(self, now: int, dropped: ReadCancelled) -> None:  # noqa: ARG002
        search = self._searches.pop(dropped.token, None)
        if search is not None:
            self._pages.pop(search.asked, None)
        self._enquiries.pop(dropped.token, None)

    def _finished(self, now: int, finished: ReadAcknowledged) -> None:  # noqa: ARG002
        ack = ReaderAck(finished.topic, self._sender, self._name, self._principal, finished.done.held)
        self._post_to_all(ack)

    # ---- asking

    def _pursue(self, now: int) -> None:
        """Ask where it is time to, and give up what is of no use."""
        if self._linked:
            for token, enquiry in list(self._enquiries.items()):
                if enquiry.due <= now:
                    self._enquire(now, token, enquiry)
            for token, search in list(self._searches.items()):
                if search.due <= now:
                    self._ask(now, token, search)
        dues = [each.due for each in self._enquiries.values()] + [each.due for each in self._searches.values()]
        if self._linked and min(dues, default=NEVER) < NEVER:
            self._effects.append(StartTimer(RetrievalTick(), min(dues)))

    def _enquire(self, now: int, token: int, enquiry: _Enquiry) -> None:
        refusal = enquiry.refusal
        if now - enquiry.began > enquiry.patience or (refusal is not None and refusal.code not in _TRY_ELSEWHERE):
            del self._enquiries[token]
            code, reason = (refusal.code, refusal.reason) if refusal is not None else (None, "")
            topic = enquiry.request.topic
            hint = f"no repository of {topic!r} answers: is it a reliable topic, and are they there?"
            self._effects.append(Fail(token, code or Refusal.SILENT, reason or hint))
            return
        enquiry.due = now + self._settings.silence
        who = {"sender": self._sender, "token": token, "name": self._name}
        request = msgspec.structs.replace(enquiry.request, **who, principal=self._principal, node=self._node)
        self._post_to_all(request)

    def _ask(self, now: int, token: int, search: _Search) -> None:
        """Ask for a page: somebody else if the last one was silent."""
        if now - search.progress > search.patience:
            del self._searches[token]
            self._pages.pop(search.asked, None)
            topic, names = search.sought.topic, ", ".join(search.sought.repositories)
            reason = (
                f"{counted(len(search.wanted), 'event')} of {topic!r} cannot be read from {names}: {search.trouble}"
            )
            self._effects.append(Fail(token, Refusal.SILENT, reason))
            return
        if search.asked:
            search.trouble = f"{search.repository} does not answer"
        self._give_up(search)
        search.turn += 1
        self._request(now, token, search)

    def _give_up(self, search: _Search) -> None:
        self._pages.pop(search.asked, None)
        search.asked, search.letters = 0, {}

    def _request(self, now: int, token: int, search: _Search) -> None:
        self._tokens += 1
        search.asked, search.letters = self._tokens, {}
        self._pages[search.asked] = token
        search.due = now + self._settings.silence
        sought = search.sought
        request = PageRequest(
            sought.topic, self._sender, search.asked, self._name, self._principal, search.wanted.held, sought.where,
            self._settings.page,
        )  # fmt: skip
        self._post(search.repository, request)

    # ---- answers

    def _heard(self, now: int, heard: LetterReceived) -> None:
        for event in heard.events:
            if isinstance(event, Stock) and event.token in self._enquiries:
                if self._is_believed(heard.sender, event, self._enquiries[event.token].request.topic):
                    self._told(now, event)
            elif isinstance(event, Page) and event.token in self._pages:
                token = self._pages[event.token]
                search = self._searches[token]
                if self._is_believed(heard.sender, event, search.sought.topic):
                    self._turned(now, token, search, event, heard.blocks)

    def _is_believed(self, sender: int, event: ControlEvent, topic: str) -> bool:
        """Whether a repository of the topic that was asked about has sent this."""
        believed = self._believed.get(topic)
        return event.topic == topic and believed is not None and believed.wrote(sender, event.sender)

    def _told(self, now: int, stock: Stock) -> None:
        if stock.code is not None:
            enquiry = self._enquiries[stock.token]
            enquiry.refusal = stock
            if stock.code not in _TRY_ELSEWHERE:
                enquiry.due = now  # nobody else would say anything else
            return
        del self._enquiries[stock.token]
        parts = tuple(Position.of(part) for part in stock.parts)
        gone, done = Position.of(stock.gone), Position.of(stock.done)
        available = Availability(stock.sender, stock.number, stock.members, done, parts, gone)
        self._effects.append(ReportAvailable(stock.token, available))

    def _turned(self, now: int, token: int, search: _Search, page: Page, blocks: Sequence[Block]) -> None:
        if page.code is not None:
            if page.code in _TRY_ELSEWHERE:
                search.trouble = page.reason
                self._pass_on(now, search)
            else:
                del self._searches[token], self._pages[search.asked]
                self._effects.append(Fail(token, page.code, page.reason))
            return
        search.due = now + self._settings.silence
        search.letters[page.index] = page, blocks
        if len(search.letters) == page.count:
            self._complete(now, token, search)

    def _pass_on(self, now: int, search: _Search) -> None:
        """It does not have it: the next one, at once, unless everyone was asked."""
        self._give_up(search)
        everyone = not (search.turn + 1) % len(search.sought.repositories)
        search.due = now + self._settings.again if everyone else now

    def _complete(self, now: int, token: int, search: _Search) -> None:
        letters = [search.letters[index] for index in sorted(search.letters)]
        covered = Position.of(letters[0][0].covered)
        rest = search.wanted.minus(covered)
        if rest == search.wanted:
            self._pass_on(now, search)
            return
        leaf = StoredPage(
            search.repository,
            [block for _, blocks in letters for block in blocks],
            [base for page, _ in letters for base in page.bases],
            sorted({pair for page, _ in letters for pair in page.publishers}),
            Position.of(letters[0][0].lost),
        )
        search.wanted, search.progress = rest, now
        search.room -= 1
        self._effects.append(DeliverPage(token, leaf, rest))
        if not rest.streams:
            del self._searches[token], self._pages[search.asked]
            return
        self._give_up(search)
        if search.room >= 0:
            self._request(now, token, search)
        else:
            search.due = NEVER  # until it is taken
