"""A reader of what a fabric has stored of the topics of a pattern, for a program without an event loop."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from stentor.admin.topics import Registrar, RepositoryReport
from stentor.client.fabric import connect
from stentor.client.loop_thread import Loop
from stentor.client.stored_reader import Availability, Reader, StoredPage
from stentor.matching.topic_tree import is_wild
from stentor.model.errors import InvalidInput, Refused, StentorError, Unreachable
from stentor.model.stored.position import Position
from stentor.model.topic import matches
from stentor.pipeline.options import OUTAGE, ReadOptions

_LOOK_AGAIN = 10.0  # seconds, for topics that are new
_LOOK = 10.0  # seconds without an answer after which nobody else is expected to give one
_CONNECT = 10.0  # seconds until there must be a broker when a query starts: a wrong address shall be told soon


class BlockingStoredReader:
    """A connection that reads as an option says. Use it with `with`.

    A query that starts is told soon that there is no fabric. One that is `running`, or was answered once, waits longer.
    """

    def __init__(self, options: ReadOptions, *, running: bool = False) -> None:
        self._options = options
        self._running = running
        self._loop = Loop()
        wait = options.wait or (OUTAGE if running else _CONNECT)
        self._fabric = connect(options.url, tls=options.tls, wait=wait)
        self._reader = Reader(self._fabric, options.subscriber)
        self._topics: tuple[str, ...] = ()
        self._looked = 0.0

    def __enter__(self) -> Self:
        try:
            self._loop.run(self._fabric.__aenter__())
            self._loop.run(self._reader.__aenter__())
        except BaseException as error:
            self._loop.close()
            if isinstance(error, Unreachable):
                raise Unreachable(f'option "url": {error}') from None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._loop.run(self._reader.__aexit__(None, None, None))
        self._loop.run(self._fabric.close())
        self._loop.close()

    def topics(self) -> tuple[str, ...]:
        """The topics that the option means; there may be more of them later."""
        pattern = self._options.topic
        if not is_wild(pattern):
            return (pattern,)
        if not self._topics or time.monotonic() - self._looked > _LOOK_AGAIN:
            found = self._loop.run(self._find())
            self._topics = tuple(sorted(topic for topic in found if matches(pattern, topic))) or self._topics
            self._looked = time.monotonic()
        if not self._topics:
            raise InvalidInput(f'option "topic": no repository has a reliable topic that {pattern!r} means')
        return self._topics

    async def _find(self) -> set[str]:
        """The topics of all repositories that answer: of none, if they are away and were known before."""
        reports: dict[str, RepositoryReport] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK), Registrar(self._fabric) as registrar:
                reports = await registrar.find()
        if not reports and not self._topics:
            raise self._away(f'option "url": no repository answers at {self._options.url}')
        traces = {report.traces.topic for report in reports.values() if report.traces is not None}
        return traces.union(*(report.topics for report in reports.values()))

    def stock(self, topic: str, **what: Any) -> Availability:
        ask = self._reader.stock(topic, where=self._options.where, patience=self._patience, **what)
        try:
            found = self._loop.run(ask)
        except Refused as refused:
            raise StentorError(f'option "subscriber": {refused}') from None
        except Unreachable as error:
            raise self._away(f'option "topic": {error}') from None
        self._running = True
        return found

    @property
    def _patience(self) -> float:
        return self._options.wait or (OUTAGE if self._running else 0.0)

    def _away(self, otherwise: str) -> Unreachable:
        """Nobody answers: the link to the broker says whether that is because there is no broker."""
        if self._fabric.connected:
            return Unreachable(otherwise)
        return Unreachable(
            f'option "url": no broker at {self._options.url} any more: is `stentor up` running there? '
            "A stream goes on where it was when it is started again"
        )

    def acknowledge(self, topic: str, done: Position) -> None:
        self._loop.run(self._reader.acknowledge(topic, done))

    def pages(self, topic: str, wanted: Position, repositories: tuple[str, ...]) -> Iterator[StoredPage]:
        pages = self._reader.pages(topic, wanted, self._options.where, repositories, self._patience)

        async def following() -> StoredPage | None:
            try:
                return await anext(pages, None)
            except Unreachable as error:
                raise self._away(str(error)) from None

        while (page := self._loop.run(following())) is not None:
            yield page
