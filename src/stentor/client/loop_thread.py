"""An event loop on a thread of its own, for programs that have none or whose own must not be disturbed."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from stentor.model.errors import Closed, Unresponsive

T = TypeVar("T")

CLOSED = "this client was closed: use it inside its `with`, or connect again"


class Work(Generic[T]):
    """A coroutine that somebody on another thread waits for. Ctrl-C may come at any moment of that, so it can be
    cancelled from the moment that it exists: it must not go on behind a wait that was interrupted.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.future: Future[T] = Future()
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(self._done)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:  # whoever asked was interrupted before this could begin
            self._coroutine.close()

    def abandon(self) -> None:
        """The loop has ended: if this did not begin, it never will."""
        if self._task is None:
            self._coroutine.close()
        self.future.cancel()

    def _done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.cancel()
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())


class Loop:
    """An event loop that runs on a thread until it is closed."""

    def __init__(self) -> None:
        self._ending: asyncio.Task[None] | None = None
        self._works: set[Work[Any]] = set()  # that somebody waits for
        begun = threading.Event()
        self._thread = threading.Thread(target=self._live, args=(begun,), name="stentor", daemon=True)
        self._thread.start()
        begun.wait()

    def _live(self, begun: threading.Event) -> None:
        asyncio.run(self._serve(begun))
        for work in list(self._works):  # asked for when the loop had ended already
            work.abandon()

    async def _serve(self, begun: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        begun.set()
        await self._stopping.wait()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        work = Work(coroutine)
        self._works.add(work)
        try:
            self._schedule(work.begin)
            return work.future.result()
        except CancelledError:  # the loop ended meanwhile
            raise Closed(CLOSED) from None
        except Closed:
            coroutine.close()  # if it could not even be scheduled
            raise
        except BaseException:  # Ctrl-C, or whatever else a signal's handler raises
            with suppress(Closed):
                self._schedule(work.cancel)
            raise
        finally:
            self._works.discard(work)

    def _schedule(self, function: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop has ended
            raise Closed(CLOSED) from None

    def call(self, function: Callable[..., T], *arguments: Any, **more: Any) -> T:
        """Call a function on the loop's thread."""

        async def calling() -> T:
            return function(*arguments, **more)

        return self.run(calling())

    def close(self) -> None:
        with suppress(Closed):
            self._schedule(self._stopping.set)
        self._thread.join()

    def end(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Close after a last piece of work; also from the loop's thread, where garbage may be collected."""
        if threading.current_thread() is self._thread:
            self._ending = self._loop.create_task(coroutine)
            self._ending.add_done_callback(lambda _: self._stopping.set())
            return
        try:
            self.run(coroutine)
        finally:
            self.close()


async def within(wait: Callable[[], Awaitable[None]], timeout: float | None, otherwise: str) -> None:
    """Wait for this; after `timeout` seconds it is Unresponsive, with these words."""
    try:
        async with asyncio.timeout(timeout) as limit:
            await wait()
    except TimeoutError:
        if not limit.expired():
            raise
        raise Unresponsive(f"{otherwise} {timeout:g} s") from None
