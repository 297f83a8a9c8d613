"""The holder of a name: what a named publisher and a named subscription have in common."""

import asyncio
import secrets
import shlex
import threading
import time
from collections.abc import Callable

from stentor.client.connection.first_connection import Access, FirstConnection
from stentor.client.connection.link_log import LinkLog
from stentor.client.connection.url import addresses_of
from stentor.machine import Effect, Input, StopRequested
from stentor.model.communication import Role, end_name
from stentor.model.errors import Closed, Fenced, Refusal, Refused, StentorError, Unresponsive
from stentor.model.ids import Incarnation
from stentor.nodes.application import Connect, Disconnect, Halt, Moved
from stentor.nodes.client import Settings
from stentor.nodes.end import End
from stentor.protocols.delivery.dialogue import Assure, Attach, Awaited, Complain, DrawLife, Forbid, LifeDrawn
from stentor.protocols.delivery.reliable_publisher import ReliablePublisher
from stentor.protocols.delivery.reliable_subscriber import ReliableSubscriber
from stentor.runtime.driver import Driver

_EPOCH = 1_577_836_800_000  # 2020-01-01 in milliseconds since 1970

LINGER = 5.0  # seconds that a client or a named end that is closed gives to what is not safe yet


class _Births:
    """Of lives in this process, each is newer than those before it, also within a millisecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest = 0

    def next(self) -> int:
        drawn = (time.time_ns() // 1_000_000 - _EPOCH) << 7 | secrets.randbits(7)
        with self._lock:
            self._newest = max(drawn, self._newest + 1)
            return self._newest


_births = _Births()


def incarnation() -> Incarnation:
    """48 bits that grow from life to life: milliseconds since 2020, and a draw for those born in the same one."""
    return Incarnation(_births.next())


class Holder:
    """Somebody with a link of its own, a steering repository, and an application that waits."""

    def __init__(self, access: Access, role: Role, topic: str, name: str, window: int) -> None:
        self.topic, self.name = topic, name
        self.repository = ""  # that steers us
        self._access = access
        self._settings = Settings(
            name=end_name(role, name, topic),
            addresses=addresses_of(access.url),
            incarnation=incarnation(),
            window=window,
            buffer=64 << 20,
            agent=f"stentor-python {role}",
            secure=access.tls is not None,
            can_move=not access.stay,
        )
        self._log = LinkLog("stentor.reliable", f"{role} {name!r} of {topic!r}")
        self._driver: Driver | None = None
        self._first: FirstConnection | None = None
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._tokens = 0
        self._error: Exception | None = None
        self.trouble = ""  # why no broker, or no repository, serves us
        self.node = ""  # the broker's name
        self.connected = False
        self._changed = asyncio.Event()

    async def _open(self, machine: ReliablePublisher | ReliableSubscriber, where: str | None = None) -> None:
        assert self._driver is None, "it is entered once"
        node = End(self._settings, self.topic, machine, where)
        first = self._first = FirstConnection(self._access)
        driver = self._driver = Driver(node, dialler=first.dialler, application=self._perform, window=1 << 32)
        driver.stopped.add_done_callback(lambda stopped: self._fail(StentorError(stopped.result())))
        driver.start()
        try:
            await first.wait(self._describe)
        except BaseException:
            await self._end()
            raise

    def _describe(self, within: float) -> str:
        trouble = f" ({self.trouble})" if self.trouble else ""
        hint = f"is it a reliable topic? `stentor topic create {shlex.quote(self.topic)} --reliable` makes it one"
        return f"no repository of {self.topic!r} within {within:g} s{trouble}: {hint}"

    async def _end(self) -> None:
        driver = self._driver
        if driver is not None and not isinstance(self._error, Closed):
            self._fail(Closed("this one was closed"))
            driver.tell(StopRequested())
            await driver.close()

    @property
    def is_open(self) -> bool:
        return self._driver is not None and self._error is None

    async def wait_until(self, *, connected: bool) -> None:
        """Return when the link to the broker is up, or down."""
        while self.connected is not connected:
            self._check()
            self._changed.clear()
            await self._changed.wait()

    def move(self, url: str) -> None:
        """Go to another broker; nothing is lost on the way."""
        self._check()
        addresses = addresses_of(url)
        self._access = self._access._replace(url=url)
        self._log.moving(url)
        self._tell(Moved(addresses))

    def _tell(self, happened: Input) -> None:
        assert self._driver is not None
        self._driver.tell(happened)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._driver is None:
            raise Closed("not open: use `async with`")

    async def _safe(self, copies: int, timeout: float | None) -> int:
        """Wait until everything said before is safe; on how many repositories it is."""
        return await self._assured(lambda token: Awaited(token, copies), timeout)

    async def _assured(self, question: Callable[[int], Input], timeout: float | None) -> int:
        """Tell the machine something, and wait for its Assure."""
        self._check()
        assert self._driver is not None
        self._tokens += 1
        token = self._tokens
        future = self._waiting[token] = self._driver.loop.create_future()
        try:
            self._tell(question(token))
            return await asyncio.wait_for(future, timeout)
        except TimeoutError:
            why = f": {self.trouble}" if self.trouble else ""
            raise Unresponsive(f"no repository of {self.topic!r} confirmed it within {timeout:g} s{why}") from None
        finally:
            self._waiting.pop(token, None)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Attach():
                self.repository, self.trouble = effect.repository, ""
                self._log.steered(effect.repository)
                if self._first is not None:
                    self._first.succeed()
            case Assure():
                future = self._waiting.get(effect.token)
                if future is not None and not future.done():
                    if effect.code is None:
                        future.set_result(effect.copies)
                    else:
                        future.set_exception(_refused(effect.code, effect.reason))
            case DrawLife():
                assert self._driver is not None
                self._driver.loop.call_soon(self._tell, LifeDrawn(incarnation()))
            case Complain():
                self.trouble = effect.reason
                self._log.unsteered(effect.reason)
            case Connect():
                self.node = effect.node
                self._set_connected(True)
                self._log.up(effect.node, self._access.url)
            case Disconnect():
                self.trouble = effect.reason
                self._set_connected(False)
                if self._first is None or self._first.on_disconnect(effect.reason):
                    self._log.down(effect.reason, self._access.url)
            case Forbid() | Halt():
                refused = _refused(effect.code, effect.reason)
                self._log.refused(refused)
                self._fail(refused)

    def _set_connected(self, connected: bool) -> None:
        self.connected = connected
        self._changed.set()

    def _fail(self, error: Exception) -> None:
        self._set_connected(False)
        if self._error is None or isinstance(error, Closed):
            self._error = error
        if self._first is not None:
            self._first.fail(error)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)


def _refused(code: Refusal, reason: str) -> Refused:
    return Fenced(code, reason) if code is Refusal.FENCED else Refused(code, reason)
