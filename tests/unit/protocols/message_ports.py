"""Ports that keep what is posted to them, in the place of links."""

from collections.abc import Callable

from stentor.model.messages import Message


class KeepingPort:
    """One peer's port; `keep` is given its name and each message."""

    def __init__(self, name: str, keep: Callable[[str, Message], None]) -> None:
        self._name = name
        self._keep = keep

    def post(self, message: Message) -> None:
        self._keep(self._name, message)

    post_behind = post  # no events wait
