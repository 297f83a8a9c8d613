"""`stentor topic peek`: look at the stored events of a reliable topic, and leave no trace of having done so."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import typer
from rich.console import Console

from stentor.admin.topics import Registrar
from stentor.cli.terminal.options import FromOption, TlsOption, UrlOption, WaitOption, parse_from
from stentor.cli.terminal.output import Output, as_json, as_line
from stentor.cli.terminal.printable import printable
from stentor.client.event import Batch
from stentor.client.fabric import connect
from stentor.client.reliable_subscription import since_of
from stentor.client.stored_reader import Availability, Reader, StoredPage
from stentor.model.filter import Filter
from stentor.model.stored.epoch import Epoch
from stentor.model.stored.position import Position

_LAST = 10
# A repository cuts what it has into so many parts, in its order. Of a million events that is 4,000 each, so that the
# last ten cost one page; more parts would keep it from its work for longer.
_PARTS = 256


def peek(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The topic.")],
    where: Annotated[str | None, typer.Option(help="Only events that this filter takes.")] = None,
    last: Annotated[
        int | None, typer.Option(min=1, help="The last so many.", show_default="10, or all with --from")
    ] = None,
    from_: FromOption = None,
    reader: Annotated[
        str, typer.Option("--name", help="A subscriber's name that was granted, for those who do not own the topic.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Show stored events, in the order in which a repository stored them: the last ones, or all from a place on.

    Nothing is acknowledged and nobody is registered. The owner of the topic may do it, and with --name whoever may
    subscribe under that name.
    """
    begin = "" if from_ is None else since_of(parse_from(from_))
    most = _LAST if last is None and from_ is None else last
    where = str(Filter(where)) if where else ""

    async def run() -> int:
        async with connect(url, tls=tls, wait=wait) as fabric:
            async with Registrar(fabric) as registrar:
                await registrar.show(name)  # says what is wrong with a topic that is none
            async with Reader(fabric, reader) as reading:
                stock = await reading.stock(name, since=begin, parts=_PARTS, where=where)
                stored = StoredEvents(reading, name, where, stock, json)
                return await _print(stored.all() if most is None else stored.last(most))

    try:
        shown = asyncio.run(run())
    except BrokenPipeError:
        return  # the reader of our output left: that is no error
    if not shown:
        Console(stderr=True, highlight=False).print(printable(f"{name} has no such events"), markup=False)


async def _print(lines: AsyncIterator[Sequence[bytes]]) -> int:
    """Return how many lines were printed."""
    output, printed = Output(), 0
    async for some in lines:
        await output.write(b"".join(some))
        printed += len(some)
    return printed


class StoredEvents:
    """What a repository has of a topic, as lines."""

    def __init__(self, reader: Reader, topic: str, where: str, stock: Availability, json: bool) -> None:
        self._reader = reader
        self._topic = topic
        self._where = where
        self._json = json
        self._parts = stock.parts
        # The parts are in the order of whoever told them: it is read from first, and others only if it goes away
        self._repositories = (stock.repository, *(name for name in stock.members if name != stock.repository))

    def all(self) -> AsyncIterator[Sequence[bytes]]:
        """Read all of it, page by page."""
        return self._read(self._parts)

    async def last(self, most: int) -> AsyncIterator[Sequence[bytes]]:
        """Read backwards, twice as many parts each time, until there are so many lines; these and a page are kept."""
        found: deque[bytes] = deque()
        parts, count = self._parts, 1
        while parts and len(found) < most:
            earlier: deque[bytes] = deque(maxlen=most - len(found))
            async for lines in self._read(parts[-count:]):
                earlier.extend(lines)
            found.extendleft(reversed(earlier))
            parts, count = parts[:-count], 2 * count
        yield found

    async def _read(self, parts: Sequence[Position]) -> AsyncIterator[Sequence[bytes]]:
        wanted = Position()
        for part in parts:
            wanted = wanted.plus(part)
        async for page in self._reader.pages(self._topic, wanted, self._where, self._repositories):
            yield self._lines(page)

    def _lines(self, page: StoredPage) -> list[bytes]:
        names = {f"{number:016x}": name for number, name in page.publishers}
        lines = []
        for block, base in zip(page.blocks, page.bases, strict=True):
            for event in Batch(self._topic, block):
                sequence = max(base + event.number, 0)  # what came from a lake has none
                name = names.get(event.publisher, event.publisher)
                epoch = str(Epoch(page.repository, sequence)) if sequence else ""
                if self._json:
                    place = {"repository": page.repository, "sequence": sequence, "epoch": epoch}
                    lines.append(as_json(event, name=name, **place))
                else:
                    time = event.time.isoformat(timespec="milliseconds")
                    lines.append(as_line(event, epoch or "-", time, name))
        return lines
