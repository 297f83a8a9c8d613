"""What a client is told when it is made."""

import msgspec

from stentor.model.errors import InvalidInput
from stentor.model.ids import Incarnation
from stentor.model.messages import Hello
from stentor.model.ranges import check_client_name
from stentor.protocols.connection.connection import SMALLEST_WINDOW


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Who this client is and how much it holds."""

    name: str
    addresses: tuple[str, ...]  # of brokers that are as good as each other
    incarnation: Incarnation
    window: int = 4 << 20
    buffer: int = 16 << 20
    heartbeat: float = 5.0
    agent: str = ""
    secure: bool = False
    can_move: bool = False  # it follows a broker that asks it to go to another one

    def __post_init__(self) -> None:
        if not self.addresses:
            raise InvalidInput("a client needs the address of a broker")
        if self.window < SMALLEST_WINDOW or self.buffer <= 0:
            raise InvalidInput(f"a window has at least {SMALLEST_WINDOW} bytes, a buffer at least one")
        check_client_name(self.name)

    def hello(self, attempt: int, *, is_placed: bool = False) -> Hello:
        """Return what a client says of itself on this one of its links; who is placed was told to come here."""
        return Hello(
            name=self.name,
            incarnation=self.incarnation,
            window=self.window,
            heartbeat=self.heartbeat,
            agent=self.agent,
            attempt=attempt,
            can_move=self.can_move,
            is_placed=is_placed,
        )
