"""Reading what is stored of reliable topics, at rest: in any order, several at once, from any repository that has it.

    async with Reader(fabric, name="reports") as reader:
        stock = await reader.stock("orders", since="beginning")        # what there is, in parts that can be read apart
        async for leaf in reader.pages("orders", stock.parts[0]):
            for block in leaf.blocks: ...

A reader keeps its position itself. With `enrol` repositories keep for it what it has not acknowledged.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Protocol, Self

from stentor.client.connection.first_connection import Access
from stentor.client.connection.link_log import LinkLog
from stentor.client.connection.own_name import made_up_name
from stentor.client.machine_runner import MachineRunner
from stentor.machine import SECOND, Effect
from stentor.model.errors import Refusal, Refused, StentorError, Unreachable
from stentor.model.stored.position import Position
from stentor.model.stored.reading import StockRequest
from stentor.nodes.client_api import Connect
from stentor.nodes.reliable_endpoint import StoredReadEndpoint
from stentor.protocols.delivery.stored.read_client import (
    Availability,
    AvailabilityRequested,
    DeliverPage,
    Fail,
    PageConsumed,
    PagesRequested,
    ReadAcknowledged,
    ReadCancelled,
    ReportAvailable,
    StoredPage,
    StoredReadClient,
    StoredReadSettings,
)

__all__ = ["Availability", "Reader", "StoredPage"]

_PAGES = 8 * StoredReadSettings().page  # bytes that may be under way to a reader
_LETTERS = 1 << 20  # bytes of requests that may wait for a broker
_KNOWN_WITHIN = 1.0  # seconds: a broker tells its clients at once which repositories it knows

_Answers = asyncio.Queue[ReportAvailable | DeliverPage | Fail | Exception]


class FabricClient(Protocol):
    """A client of the fabric in which a reader reads, too."""

    @property
    def _access(self) -> Access: ...


class Reader(MachineRunner):
    """Reads under a name that the owners of topics have granted, or their own topics without a name.

    Use it with `async with`. A reader has a link of its own, because pages are large and must not delay anything else.
    """

    _unopened = "not open: use `async with Reader(…) as reader`"

    def __init__(self, fabric: FabricClient, name: str = "") -> None:
        access = fabric._access
        # whoever is connected already waits for a broker that is restarted meanwhile
        super().__init__(
            access._replace(wait=max(access.timeout, access.wait)), LinkLog("stentor.reliable", f"reader {name!r}")
        )
        self.name = name
        self._answers: dict[int, _Answers] = {}  # what is asked for, by token
        self._members: dict[str, tuple[str, ...]] = {}  # the repositories of topics, as far as they have answered
        self._tokens = 0

    async def __aenter__(self) -> Self:
        sender = made_up_name(self._access.tls)
        link = self._access.settings(sender, window=_PAGES, buffer=_LETTERS, agent="stentor-python reader")
        await self._start(StoredReadEndpoint(link, StoredReadClient(sender, self.name)))
        return self

    def _perform(self, effect: Effect) -> None:
        match effect:
            case ReportAvailable() | DeliverPage() | Fail():
                if effect.token in self._answers:
                    self._answers[effect.token].put_nowait(effect)
            case _:
                super()._perform(effect)
                if isinstance(effect, Connect) and self._first is not None:
                    self._first.succeed()

    def _fail(self, error: Exception) -> None:
        super()._fail(error)
        for answers in self._answers.values():
            answers.put_nowait(error)

    def _expect(self) -> tuple[int, _Answers]:
        """Return a token for a question, and where its answers come."""
        self._check()
        self._tokens += 1
        answers = self._answers[self._tokens] = asyncio.Queue()
        return self._tokens, answers

    def _forget(self, token: int) -> None:
        del self._answers[token]
        if self._error is None:
            self._tell(ReadCancelled(token))

    # ---- the application

    async def stock(
        self,
        topic: str,
        *,
        since: str = "",
        done: Position | None = None,
        upto: Position | None = None,
        most: int = 0,
        size: int = 0,
        parts: int = 1,
        enrol: bool = False,
        where: str = "",
        patience: float = 0.0,
    ) -> Availability:
        """Return what can be read after `done`, or from a beginning: "beginning", "now", "epoch R:N", "time
        NANOSECONDS".

        Unreachable if nobody answers for `patience` seconds; 0 is what is usual.
        """
        token, answers = self._expect()
        request = StockRequest(
            topic=topic,
            sender="",  # who asks and the token are completed by the machine
            token=0,
            name="",
            principal="",
            since=since,
            done=(done or Position()).held,
            upto=(upto or Position()).held,
            most=most,
            size=size,
            parts=parts,
            enrol=enrol,
            where=where,
        )
        try:
            self._tell(AvailabilityRequested(token, request, int(patience * SECOND)))
            answer = await _answered(answers)
        finally:
            self._forget(token)
        assert isinstance(answer, ReportAvailable), "that is what was asked for"
        self._members[topic] = answer.available.members
        return answer.available

    async def pages(
        self,
        topic: str,
        wanted: Position,
        where: str = "",
        repositories: Sequence[str] = (),
        patience: float = 0.0,
    ) -> AsyncIterator[StoredPage]:
        """All of these events that a filter takes, each once; from one repository after the other if need be.

        An error if nothing comes for `patience` seconds; 0 is what is usual.
        """
        order = list(repositories) or list(self._members.get(topic, ()))
        if not order:
            raise Unreachable(f"the repositories of {topic!r} are not known: ask for its stock first")
        token, answers = self._expect()
        rest = wanted
        try:
            self._tell(
                PagesRequested(
                    token=token,
                    topic=topic,
                    wanted=wanted,
                    where=where,
                    repositories=order,
                    patience=int(patience * SECOND),
                )
            )
            while rest.streams:
                answer = await _answered(answers)
                assert isinstance(answer, DeliverPage), "that is what was asked for"
                rest = answer.rest
                yield answer.leaf
                self._tell(PageConsumed(token))
        finally:
            self._forget(token)

    async def acknowledge(self, topic: str, done: Position) -> None:
        """Repositories need not keep these for us any more. What is lost of that is made good by a later one."""
        if topic not in self._members:
            with suppress(StentorError):  # each of its repositories is told, as soon as somebody says who they are
                await self.stock(topic, since="now", patience=_KNOWN_WITHIN)
        self._tell(ReadAcknowledged(topic, done))


async def _answered(answers: _Answers) -> ReportAvailable | DeliverPage:
    """Return the next answer, or raise why there is none."""
    answer = await answers.get()
    if isinstance(answer, Fail):
        raise Unreachable(answer.reason) if answer.code is Refusal.SILENT else Refused(answer.code, answer.reason)
    if isinstance(answer, Exception):
        raise answer
    return answer
