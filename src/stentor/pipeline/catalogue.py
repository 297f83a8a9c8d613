"""The catalogue: what a fabric has stored of the topics of a pattern, for a program without an event loop."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from stentor.blocking import Loop
from stentor.client import connect
from stentor.matching.topics import is_wild
from stentor.model.errors import InvalidInput, Refused, StentorError, Unreachable
from stentor.model.position import Position
from stentor.model.topic import matches
from stentor.pipeline.options import ReadOptions
from stentor.reading import PAGES, Available, Leaf, Reader
from stentor.registration import Registrar

_LOOK_AGAIN = 10.0  # seconds, for topics that are new
_CONNECT = 10.0


class Catalogue:
    """A connection that reads as an option says. Use it with `with`."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._loop = Loop()
        self._fabric = connect(options.url, tls=options.tls, wait=_CONNECT, window=PAGES)
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
            self._topics = tuple(sorted(topic for topic in found if matches(pattern, topic)))
            self._looked = time.monotonic()
        if not self._topics:
            raise InvalidInput(f'option "topic": no repository has a reliable topic that {pattern!r} means')
        return self._topics

    async def _find(self) -> set[str]:
        async with Registrar(self._fabric) as registrar:
            reports = await registrar.find()
        if not reports:
            raise Unreachable(f'option "url": no repository answers at {self._options.url}')
        traces = {report.traces.topic for report in reports.values() if report.traces is not None}
        return traces.union(*(report.topics for report in reports.values()))

    def stock(self, topic: str, **what: Any) -> Available:
        try:
            return self._loop.run(self._reader.stock(topic, where=self._options.where, **what))
        except Refused as refused:
            raise StentorError(f'option "subscriber": {refused}') from None
        except Unreachable as error:
            raise Unreachable(f'option "topic": {error}') from None

    def acknowledge(self, topic: str, done: Position) -> None:
        self._loop.run(self._reader.acknowledge(topic, done))

    def pages(self, topic: str, wanted: Position, repositories: tuple[str, ...]) -> Iterator[Leaf]:
        pages = self._reader.pages(topic, wanted, self._options.where, repositories)

        async def following() -> Leaf | None:
            return await anext(pages, None)

        while (leaf := self._loop.run(following())) is not None:
            yield leaf
