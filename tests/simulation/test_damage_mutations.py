"""Break what heals a loaded network on purpose, and the scenario `damage` must see that events are lost."""

from collections.abc import Callable

import pytest
from tests.simulation.killers import find_killer

from stentor.model.errors import Refusal
from stentor.nodes.broker.link_audit import LinkAudit
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.broker.link_sessions import LinkSessions
from stentor.nodes.broker.subscription_lease import SubscriptionLease
from stentor.protocols.dissemination.filed_subscriptions import FiledSubscriptions
from stentor.protocols.dissemination.member_interests import InterestIndex
from stentor.protocols.dissemination.routes import RouteTable

Mutate = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 30


def heartbeats_of_clients_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriptionLease, "compare", lambda *_: None)


def routes_are_not_worked_out_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RouteTable, "renew", lambda *_: None)


def filters_are_not_indexed_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FiledSubscriptions, "renew", lambda *_: None)
    patch.setattr(InterestIndex, "renew", lambda *_: None)


def subscriptions_are_not_filed_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FiledSubscriptions, "repair", lambda *_: False)


def one_broken_link_ends_all(patch: pytest.MonkeyPatch) -> None:
    original = LinkSessions.refuse

    def rash(self: LinkSessions, session: LinkSession, code: Refusal, reason: str) -> None:
        original(self, session, code, reason)
        for each in list(self) if code is Refusal.CORRUPT else ():
            original(self, each, Refusal.CLOSING, reason)

    patch.setattr(LinkSessions, "refuse", rash)


def links_are_not_audited(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LinkAudit, "run", lambda *_, **__: None)


MUTATIONS: list[tuple[Mutate, set[str]]] = [
    (heartbeats_of_clients_are_not_compared, {"lost-write"}),
    (routes_are_not_worked_out_anew, {"lost-write", "invalid-state", "unasked"}),
    (filters_are_not_indexed_anew, {"lost-write", "unasked"}),
    (subscriptions_are_not_filed_again, {"lost-write", "unasked"}),
    (one_broken_link_ends_all, {"collateral"}),
    (links_are_not_audited, {"lost-write"}),
]


@pytest.mark.req("CO-01")
@pytest.mark.parametrize(("mutate", "kinds"), MUTATIONS, ids=[mutate.__name__ for mutate, _ in MUTATIONS])
def test_what_is_lost_after_damage_or_beside_it_is_seen(
    mutate: Mutate, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert find_killer(mutate.__name__, "damage", kinds, MOST_SEEDS) is not None, "nobody noticed"
