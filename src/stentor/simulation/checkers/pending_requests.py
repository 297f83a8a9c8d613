"""Pending requests: what a receipt of a repository says to be registered.

An owner that gets no receipt asks again with the same token, and gets one for each time. A receipt stands for what was
registered when the owner asked for it, and not for what came to that until the owner asked again.
"""

from collections import deque

from stentor.model.control import RegistrationReceipt


class PendingRequests:
    """Those of owners to one repository, as long as its machine lives."""

    def __init__(self) -> None:
        self._registered: dict[int, deque[tuple[str, ...]]] = {}  # keys, for each time that is not answered, by token

    def add(self, token: int, registered: tuple[str, ...]) -> None:
        """An owner asks for something; these keys are registered with that."""
        self._registered.setdefault(token, deque()).append(registered)

    def take(self, receipt: RegistrationReceipt) -> tuple[str, ...]:
        """Remove the request to which this is the answer; return the keys that were registered with it. A refusal
        leaves in the step that hears the request. Other receipts wait until all is durable and shared, in their order.
        """
        requests = self._registered[receipt.token]
        return requests.popleft() if receipt.code is None else requests.pop()

    def clear(self) -> None:
        """The machine that was to answer them is no more."""
        self._registered.clear()
