"""A simulated publisher that writes down what it will send, and after a crash goes on with the same numbers."""

from collections.abc import Mapping

from stentor.model.attribute import Value
from stentor.model.ids import Incarnation
from stentor.protocols.delivery.endpoint_api import TurnEnded
from stentor.protocols.delivery.publisher.publisher import Resumption
from stentor.simulation.clients.typed_calls import ReliablePublishCalled
from stentor.simulation.delivery.process import DeliveryWorld
from stentor.simulation.delivery.publisher import SimPublisher


class SimResumingPublisher(SimPublisher):
    """Sends the events that it wrote down, the same in all its lives, in batches that differ between them."""

    def __init__(self, world: DeliveryWorld, name: str, events: int, pause: int) -> None:
        super().__init__(world, name, events, pause)
        self._written_stream: Incarnation | None = None
        self._written: list[tuple[Mapping[str, Value], bytes, int]] = []
        self._safe = 0  # so many of them are stored, as it was told
        self._after = 0

    def start(self) -> None:
        if self.alive or self.ended:
            return
        random = self.world.random
        self._after = random.choice((self._safe, self._safe, random.randint(0, self._safe)))
        super().start()
        if self.life > 1:
            self.world.seen["resumed"] += 1
        for attributes, body, time in self._written[self._after :]:
            self.handle(ReliablePublishCalled(attributes, body, time))
            if random.random() < 0.3:
                self.handle(TurnEnded())

    def _resumption(self, life: Incarnation) -> Resumption:
        self._written_stream = self._written_stream or life
        return Resumption(self._written_stream, self._after)

    def _compose(self, body: bytes, attributes: Mapping[str, Value]) -> None:
        super()._compose(body, attributes)
        self._written.append((attributes, body, self._time))

    def _assured(self, said: int) -> None:
        self._safe = max(self._safe, said)
