"""Break what whole nodes add to their machines, one mechanism at a time: scenario `fabric` must see it.

The table is in docs/protocols/reliable-delivery-proof.md.
"""

from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.simulation.killers import find_killer
from tests.simulation.test_delivery_mutations import names

from stentor.machine import Input, Open
from stentor.model.communication import repository_name
from stentor.model.ids import publisher_id
from stentor.model.messages import Subscription
from stentor.nodes.broker.subscription_lease import SubscriptionLease
from stentor.nodes.client import Client
from stentor.nodes.client_api import Deliver
from stentor.nodes.letter_transport import LetterTransport
from stentor.nodes.repository import RepositoryNode
from stentor.nodes.topics.managed_topic import ManagedTopic
from stentor.nodes.topics.missing_traces import MissingTraces
from stentor.protocols.delivery.transport import LetterReceived
from stentor.simulation.delivery.repository import keeper_of

Mutate = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 120


def a_failed_topic_is_not_opened_again(patch: pytest.MonkeyPatch) -> None:
    original = RepositoryNode._step_topic

    def step(self: RepositoryNode, topic: str, managed: ManagedTopic, happened: Sequence[Input]) -> list[Input]:
        told = original(self, topic, managed, happened)
        self._step.effects = [each for each in self._step.effects if each != Open(topic)]
        return told

    patch.setattr(RepositoryNode, "_step_topic", step)


def a_new_link_does_not_resubscribe(patch: pytest.MonkeyPatch) -> None:
    original = Client._requests

    def requests(self: Client) -> Iterator[Subscription]:
        return original(self) if self._links == 1 else iter(())

    patch.setattr(Client, "_requests", requests)
    patch.setattr(SubscriptionLease, "compare", lambda *_: None)  # which would mend it


def letters_are_believed_to_be_from_whom_they_name(patch: pytest.MonkeyPatch) -> None:
    original = LetterTransport._open

    def read(self: LetterTransport, deliver: Deliver) -> list[Input]:
        found = original(self, deliver)
        return [_as_signed(each) if isinstance(each, LetterReceived) else each for each in found]

    patch.setattr(LetterTransport, "_open", read)


def _as_signed(heard: LetterReceived) -> LetterReceived:
    named = getattr(heard.events[0], "sender", "") if heard.events else ""
    if named not in ("a", "b", "c", "d", "e", "f"):
        return heard
    return LetterReceived(
        publisher_id(keeper_of(named), repository_name(named)), heard.events, heard.blocks, heard.requester
    )


def nobody_asks_for_lost_traces(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MissingTraces, "ask", lambda *_: [])


MUTATIONS: list[tuple[Mutate, set[str]]] = [
    (a_failed_topic_is_not_opened_again, {"not-converged"}),
    (a_new_link_does_not_resubscribe, {"not-converged", "refused"}),
    (letters_are_believed_to_be_from_whom_they_name, {"stored-by-nobody", "phantom", "refused", "not-converged"}),
    (nobody_asks_for_lost_traces, {"lost-traces"}),
]


@pytest.mark.parametrize(("mutate", "kinds"), MUTATIONS, ids=names(MUTATIONS))
def test_a_broken_node_is_seen(mutate: Mutate, kinds: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    assert find_killer(mutate.__name__, "fabric", kinds, MOST_SEEDS) is not None, "nobody noticed"
