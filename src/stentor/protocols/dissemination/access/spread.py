"""How brokers come to know the same of reliable topics: what one learns it writes down and tells its neighbours.

On a new link both ends tell digests of what they know, and then each other what the other lacks. What is news later is
passed on at once, on every link but the one that it came from. Digests of everything are compared with every heartbeat,
in case that all of this has a fault.
"""

from collections.abc import Callable, Iterable
from itertools import count

from stentor.machine import Step
from stentor.model.messages import Message
from stentor.model.trust.access_messages import AccessFacts, AccessInventory, AccessReceipt
from stentor.protocols.dissemination.access.access_log import AccessLog
from stentor.protocols.dissemination.access.charters import Charters
from stentor.protocols.dissemination.access.transfer import Transfer
from stentor.protocols.dissemination.access.waves import Waves
from stentor.protocols.neighbours import MessagePort, Neighbours


class AccessSpread:
    """What one broker does so that all know the same. `on_change` is told whose charter is another one from now on."""

    def __init__(self, name: str, neighbours: Neighbours, step: Step, on_change: Callable[[str], None]) -> None:
        self.charters = Charters(on_change)
        self._log = AccessLog(self.charters, step)
        self._transfers: dict[str, Transfer] = {}  # by neighbour
        self._tokens = count(1)
        self._waves = Waves(name, neighbours, self._tokens)
        self._neighbours = neighbours
        self._differing: dict[str, tuple[int, int]] = {}  # their digest and ours, where they were not the same
        self.is_restless = False  # something is to be written or told at the end of this step

    @property
    def waves(self) -> int:
        """How many waves this broker takes part in."""
        return len(self._waves)

    @property
    def unwritten(self) -> int:
        """How many news are not durable."""
        return self._log.noted - self._log.durable

    def begin(self, boot: int) -> None:
        self._waves.boot = boot

    def recall(self, records: Iterable[bytes]) -> None:
        """Learn what the disk holds."""
        self._log.recall(records)
        self.is_restless = True

    # ---- links

    def link_up(self, name: str) -> None:
        self._transfers[name] = Transfer()
        self._send_inventories(name)

    def link_down(self, name: str) -> None:
        self._transfers.pop(name, None)  # damage may have made up the neighbour
        self._differing.pop(name, None)
        self._waves.link_down(name)

    # ---- what is told

    def tell(self, repository: MessagePort, told: AccessFacts) -> bool:
        """Take facts from a repository; return whether it will get the receipt that it asked for."""
        news = self._learn(told)
        is_confirmed = bool(told.token) and not self._waves.is_full(repository)
        if is_confirmed:
            self._waves.tell(repository, told, self._log.noted)
        else:
            self._pass_on(told.topic, news)
        return is_confirmed or not told.token

    def forget(self, repository: MessagePort) -> None:
        """A repository is gone."""
        self._waves.forget(repository)

    def hear(self, name: str, message: Message) -> bool:
        """A neighbour says something. Return whether all that it knows is known here, too, as it has just confirmed."""
        match message:
            case AccessFacts():
                self._hear_facts(name, message)
            case AccessReceipt(token=0):
                return True
            case AccessReceipt():
                self._waves.answered(name, message)
                self._transfers[name].confirm(message.token)
                self.is_restless = True
            case AccessInventory():
                transfer = self._transfers[name]
                for topic in self.charters.differing(message):
                    transfer.add(topic)
                transfer.has_compared |= not message.last
                self.is_restless = True
        return False

    def _hear_facts(self, name: str, told: AccessFacts) -> None:
        news = self._learn(told)
        if told.wave:
            self._waves.hear(name, told, self._log.noted)
            return
        self._pass_on(told.topic, news, heard_from=name)
        if told.token:
            self._waves.await_disk(name, told.token, self._log.noted)

    def _learn(self, told: AccessFacts) -> list[str]:
        """Return the keys of what is new."""
        news = self.charters.learn(told.topic, told.facts)
        if news:
            self._log.note(told.topic, news)
            self.is_restless = True
        return news

    def _pass_on(self, topic: str, news: list[str], heard_from: str = "") -> None:
        for name, transfer in self._transfers.items():
            if news and name != heard_from:
                transfer.add(topic, news)

    # ---- comparing

    @property
    def digest(self) -> int:
        return self.charters.digest

    def compare(self, name: str, digest: int) -> None:
        """A neighbour tells the digest of what it knows. News may be under way, so another one means something only if
        it stays: both ends see that, and tell each other what they know as on a new link.
        """
        pair = digest, self.digest
        if digest == self.digest:
            self._differing.pop(name, None)
        elif self._differing.get(name) != pair or not self._transfers[name].is_idle:
            self._differing[name] = pair
        else:
            del self._differing[name]
            self._send_inventories(name)

    def _send_inventories(self, name: str) -> None:
        for inventory in self.charters.inventories():
            self._neighbours.say(name, inventory)

    # ---- the disk, and time

    def appended(self) -> None:
        self._log.appended()
        self._waves.written(self._log.durable)
        self.is_restless = True

    def append_failed(self, reason: str) -> None:
        self._log.failed(reason)

    def beat(self) -> None:
        self._log.retry()
        self.is_restless = True

    def end_step(self) -> None:
        """Write and tell what this step brought."""
        self.is_restless = False
        self._log.begin_write()
        for name, transfer in self._transfers.items():
            for message in transfer.send(self.charters, self._tokens):
                self._neighbours.say(name, message)
            if transfer.has_compared and not transfer.has_concluded and transfer.is_idle:
                transfer.has_concluded = True
                self._neighbours.say(name, AccessReceipt(0))
