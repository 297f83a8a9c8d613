"""What the network of a broker asks of the broker itself."""

from typing import Protocol

from stentor.model.messages import AdminRequest
from stentor.nodes.broker.link_session import LinkSession


class NetworkOwner(Protocol):
    """The broker that a network belongs to."""

    def on_charter_change(self, topic: str) -> None:
        """The charter of a topic is another one from now on."""
        ...

    def end_link(self, session: LinkSession, reason: str) -> None:
        """Close a link that is not needed any more."""
        ...

    def remember(self, request: AdminRequest) -> None:
        """Write down what the next start must do again; it is done already."""
        ...
