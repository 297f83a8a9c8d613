"""Events and batches as an application sees them: views of the bytes that came, decoded when asked for."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from stentor.model.attribute import Value
from stentor.model.column import Column
from stentor.model.errors import InvalidInput
from stentor.model.stored.epoch import Epoch
from stentor.protocols.delivery.endpoint_api import ReleasedBatch
from stentor.wire.block import Block


class Batch:
    """Events of one topic and publisher that travelled together. Iterate it, or take its columns and bodies whole."""

    __slots__ = ("_block", "_rows", "missed_before", "topic")

    def __init__(self, topic: str, block: Block, missed_before: int = 0) -> None:
        self.topic = topic
        self.missed_before = missed_before  # events dropped right before this batch because we were too slow
        self._block = block
        self._rows: list[dict[str, Value]] | None = None

    def __len__(self) -> int:
        return self._block.count

    def __iter__(self) -> Iterator["Event"]:
        return (Event(self, index) for index in range(self._block.count))

    def __getitem__(self, index: int) -> "Event":
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return Event(self, index % len(self))

    @property
    def bodies(self) -> list[bytes]:
        return self._block.bodies()

    def column(self, name: str) -> Column | None:
        """One attribute of all events, as arrays; None if no event of the batch has it."""
        return self._block.column(name)

    @property
    def publisher(self) -> str:
        """Who published it, as a stable number in hexadecimal digits."""
        return f"{self._block.publisher:016x}"

    @property
    def times(self) -> list[datetime]:
        """When each event was published, by the publisher's clock."""
        return [datetime.fromtimestamp(time / 1e9, UTC) for time in self._block.times()]

    @property
    def numbers(self) -> list[int]:
        """The catenation number of each event: it grows by one per publisher and topic."""
        return [self._block.catenation + offset for offset in self._block.offsets()]

    def number_of(self, index: int) -> int:
        return self._block.catenation + self._block.offsets()[index]

    def time_of(self, index: int) -> datetime:
        return datetime.fromtimestamp(self._block.times()[index] / 1e9, UTC)

    def attributes_of(self, index: int) -> Mapping[str, Value]:
        if self._rows is None:
            self._rows = self._block.rows()
        return self._rows[index]

    def body_of(self, index: int) -> bytes:
        return self._block.body(index)


class Event:
    """One event. `event["name"]` is an attribute, `event.body` the bytes that were published."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def topic(self) -> str:
        return self._batch.topic

    @property
    def body(self) -> bytes:
        return self._batch.body_of(self._index)

    @property
    def attributes(self) -> Mapping[str, Value]:
        return self._batch.attributes_of(self._index)

    @property
    def publisher(self) -> str:
        return self._batch.publisher

    @property
    def number(self) -> int:
        """Its catenation number: grows by one per publisher and topic."""
        return self._batch.number_of(self._index)

    @property
    def time(self) -> datetime:
        """When it was published, by the publisher's clock."""
        return self._batch.time_of(self._index)

    def __getitem__(self, name: str) -> Value:
        return self.attributes[name]

    def get(self, name: str, default: Value | None = None) -> Value | None:
        return self.attributes.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self.attributes

    def __repr__(self) -> str:
        body = self.body
        shown = repr(body) if len(body) <= 32 else f"{body[:32]!r}… ({len(body)} bytes)"
        pairs = "".join(f", {name}={value!r}" for name, value in self.attributes.items())
        return f"Event({self.topic!r}, {shown}{pairs})"


class StoredBatch(Batch):
    """Events of a reliable topic that were released together."""

    __slots__ = ("_acknowledge", "_portion")

    def __init__(self, topic: str, portion: ReleasedBatch, acknowledge: Callable[[int, int], None]) -> None:
        super().__init__(topic, portion.block)
        self._portion = portion
        self._acknowledge = acknowledge

    def __iter__(self) -> Iterator["StoredEvent"]:
        return (StoredEvent(self, index) for index in range(len(self)))

    @property
    def redelivered(self) -> bool:
        """Whether an earlier life of this name may have had them."""
        return self._portion.redelivered

    @property
    def position(self) -> int:
        """Where the first of them stands among all events that this life was given, from 1; of the past, below 0."""
        return self._portion.position

    @property
    def epochs(self) -> tuple[str, int, int]:
        """The repository that steers us, and its first and last sequence number of these."""
        return self._portion.repository, self._portion.first, self._portion.last

    def sequence_of(self, index: int) -> int:
        for first, last in self._portion.sequences:
            if index <= last - first:
                return first + index
            index -= last - first + 1
        return 0

    def ack(self) -> None:
        """All of them are done with."""
        self._acknowledge(self._portion.position, self._portion.position + len(self) - 1)

    def acknowledge(self, index: int) -> None:
        self._acknowledge(self._portion.position + index, self._portion.position + index)


class StoredEvent(Event):
    """One event of a reliable topic."""

    __slots__ = ()
    _batch: StoredBatch

    @property
    def redelivered(self) -> bool:
        """Whether an earlier life of this name may have had it."""
        return self._batch.redelivered

    @property
    def position(self) -> int:
        """Where it stands among all events that this life was given, from 1; of the past, below 0."""
        return self._batch.position + self._index

    @property
    def repository(self) -> str:
        """The repository that it came from."""
        return self._batch.epochs[0]

    @property
    def sequence(self) -> int:
        """Its sequence number at this repository; 0 if it came from a lake."""
        return self._batch.sequence_of(self._index)

    @property
    def epoch(self) -> str:
        """Both, such as r1:107: where a new name begins that is to get this event and what follows; "" if it came from
        a lake.
        """
        return str(Epoch(self.repository, self.sequence)) if self.sequence else ""

    def ack(self) -> None:
        """It is done with: it never comes again."""
        self._batch.acknowledge(self._index)


def check_body(body: object) -> bytes:
    """Whatever holds bytes, as bytes."""
    if type(body) is bytes:
        return body
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise InvalidInput(f"a body is bytes, not {type(body).__name__}: encode it first")


def check_time(time_ns: object) -> int:
    """One time for all events of a call, in nanoseconds since 1970."""
    if isinstance(time_ns, int):
        return time_ns
    raise InvalidInput(f"time_ns is one time for all of them, in nanoseconds since 1970, not {type(time_ns).__name__}")
