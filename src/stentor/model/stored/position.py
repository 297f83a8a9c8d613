"""A position: what somebody has read of a topic, as numbers of its streams. It means the same at every repository."""

from collections.abc import Iterable, Mapping

from stentor.model.control import StreamRanges
from stentor.model.errors import InvalidInput
from stentor.model.stored.record import StreamId
from stentor.model.stored.span import Spans


class Position:
    """A set of events. What is void stays out of it: if it is found after all, it is read then."""

    __slots__ = ("streams",)

    def __init__(self, streams: Mapping[StreamId, Spans] | None = None) -> None:
        self.streams = {stream: spans for stream, spans in (streams or {}).items() if spans}

    def __len__(self) -> int:
        return sum(len(spans) for spans in self.streams.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self.streams == other.streams

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Position({self.to_text()})"

    def minus(self, other: "Position") -> "Position":
        nothing = Spans()
        return Position(
            {
                stream: Spans(rest for span in spans for rest in other.streams.get(stream, nothing).missing(*span))
                for stream, spans in self.streams.items()
            }
        )

    def plus(self, other: "Position") -> "Position":
        streams = {stream: spans.copy() for stream, spans in self.streams.items()}
        for stream, spans in other.streams.items():
            streams.setdefault(stream, Spans()).update(spans)
        return Position(streams)

    @classmethod
    def before(cls, frontier: Iterable[tuple[int, int, int]]) -> "Position":
        """All up to these numbers of streams."""
        return cls({(publisher, incarnation): Spans([(1, last)]) for publisher, incarnation, last in frontier})

    # ---- on the wire

    @classmethod
    def of(cls, held: Iterable[StreamRanges]) -> "Position":
        return cls({(each.publisher, each.incarnation): Spans(((1, each.floor), *each.spans)) for each in held})

    @property
    def held(self) -> tuple[StreamRanges, ...]:
        return tuple(
            StreamRanges(*stream, spans.upto(), tuple(spans.within(spans.upto() + 1, spans.last)))
            for stream, spans in sorted(self.streams.items())
        )

    # ---- for people, and in checkpoints

    def to_text(self) -> dict[str, str]:
        """By publisher and incarnation: "1-5,8"."""
        return {
            f"{publisher:016x}/{incarnation}": ",".join(
                f"{first}-{last}" if last > first else str(first) for first, last in spans
            )
            for (publisher, incarnation), spans in sorted(self.streams.items())
        }

    @classmethod
    def from_text(cls, text: Mapping[str, str]) -> "Position":
        try:
            return cls({_stream(name): Spans(map(_span, numbers.split(","))) for name, numbers in text.items()})
        except (ValueError, AttributeError) as error:
            raise InvalidInput(f"this is no position in a topic: {error}") from None


def _stream(name: str) -> StreamId:
    publisher, _, incarnation = name.partition("/")
    return int(publisher, 16), int(incarnation)


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)
