"""Publication: a batch that is written down goes to its topics, under its numbers, and is there once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from stentor.admin.topics import Registrar
from stentor.client.fabric import connect
from stentor.client.reliable_publisher import Publisher, Resume
from stentor.model.errors import Fenced, InvalidInput, Refused, StentorError, Unreachable, Unresponsive
from stentor.pipeline.options import OUTAGE, WriteOptions
from stentor.pipeline.sink.staging import Identity, Manifest, Staging

_CONNECT = 10.0  # seconds until there must be a broker, and a repository, when a query starts


def introduce(options: WriteOptions, query: str, resumes: bool) -> Identity:
    """A new query, which may or may not be resumed: see whether it may publish, before it computes anything."""
    stream = largest = 0

    async def see() -> None:
        nonlocal stream, largest
        await _look(options)
        fabric = connect(options.url, tls=options.tls)
        stream = fabric.publisher(options.topic or "any", name=options.publisher).incarnation  # a life of its own
        if not options.topic:
            return  # only rows will tell
        resume = (stream, 0) if resumes else None
        async with _publisher(options, options.topic, resume, options.wait or _CONNECT) as publisher:
            largest = publisher.largest_body

    asyncio.run(_explained(see, options, options.wait or _CONNECT))
    return Identity(options.topic, options.publisher, stream, query, largest)


class WrongCheckpoint(InvalidInput):
    """What is stored is not what the checkpoint says."""


def publish(
    options: WriteOptions, staging: Staging, manifest: Manifest, stream: int | None, fresh: bool = False
) -> None:
    """Return when all of it is stored; in this stream, or in one that nobody will resume.

    Of a batch that is fresh nothing can be stored yet: WrongCheckpoint, with nothing sent, if it is so all the same.
    """
    wait = options.wait or OUTAGE

    async def say() -> None:
        for place, topic in enumerate(manifest.topics):
            after = manifest.after.get(topic, 0)
            resume = None if stream is None else (stream, after)
            async with _publisher(options, topic, resume, wait) as publisher:
                if stream is not None:
                    upto = after if fresh and not place else manifest.upto[topic]
                    _check(publisher, topic, stream, after, upto)
                await _send(publisher, staging, manifest, topic, wait)

    asyncio.run(_explained(say, options, wait))


async def _send(publisher: Publisher, staging: Staging, manifest: Manifest, topic: str, wait: float) -> None:
    for staged in manifest.files:
        if staged.topic != topic:
            continue
        for batch in staging.batches(staged):
            bodies, *columns = (column.to_pylist() for column in batch.columns)
            attributes = dict(zip(batch.schema.names[1:], columns, strict=True))
            async with asyncio.timeout(wait):
                await publisher.send_many(bodies, attributes, manifest.time)
    await publisher.flush(wait)


def _check(publisher: Publisher, topic: str, stream: int, after: int, upto: int) -> None:
    """The fabric has of this stream what the checkpoint says, and not more than it can have sent."""
    known, last = publisher.recovered or (0, 0)
    if known != stream and after:
        raise WrongCheckpoint(
            f'option "checkpointLocation": {after} events were published from there on {topic!r}, of which this fabric '
            'knows nothing: option "url" means another fabric, or the topic was deleted. Begin with another checkpoint'
        )
    if known == stream and last > upto:
        raise WrongCheckpoint(
            f'option "checkpointLocation": it knows of {upto} events on {topic!r}, and {last} were published from it: '
            "it is an old copy. Begin with another checkpoint, or the newest copy"
        )


@asynccontextmanager
async def _publisher(options: WriteOptions, topic: str, resume: Resume | None, wait: float) -> AsyncIterator[Publisher]:
    try:
        async with (
            connect(options.url, tls=options.tls, wait=wait) as fabric,  # says it if there is no broker
            fabric.publisher(topic, name=options.publisher, resume=resume) as publisher,
        ):
            yield publisher
    except Fenced:
        raise StentorError(
            f'option "publisher": another one publishes as {options.publisher!r} on {topic!r}; each needs its own name'
        ) from None
    except Refused as refused:
        raise StentorError(f'option "publisher": {refused}') from None


async def _look(options: WriteOptions) -> None:
    """Whether there is a broker, and such a topic."""
    wait = options.wait or _CONNECT
    async with connect(options.url, tls=options.tls, wait=wait) as fabric, Registrar(fabric) as registrar:
        try:
            if options.topic:
                await registrar.show(options.topic)
        except InvalidInput as error:
            raise InvalidInput(f'option "topic": {error}') from None


async def _explained(work: Callable[[], Awaitable[None]], options: WriteOptions, wait: float) -> None:
    try:
        await work()
    except TimeoutError:
        raise Unresponsive(
            f"nothing was stored at {options.url} for {wait:g} s: is `stentor up` running there? What is staged is "
            "published when the query starts again"
        ) from None
    except Unreachable as error:
        raise Unreachable(f'option "url": {error}') from None
