"""What the tests of access stand on: charters as a broker would know them."""

from collections.abc import Mapping

import msgspec

from stentor.policies.access import AccessPolicy, AccessRule, AccessSettings
from stentor.policies.subject import Subject


class Chartered(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner of a reliable topic has laid down."""

    owner: str
    open: bool = False
    members: Mapping[str, str] = {}
    publishers: Mapping[str, str] = {}
    subscribers: Mapping[str, str] = {}


ORDERS = Chartered(
    owner="owner",
    members={"r1": "node"},
    publishers={"shop": "shop-principal", "any": ""},
    subscribers={"billing": "alice", "audit": "carol"},
)


def policy(
    *rules: AccessRule, is_open: bool = False, owns_names: bool = True, place: str = "north/b1", **charters: Chartered
) -> AccessPolicy:
    """With TLS, and topics whose names are keywords."""
    settings = AccessSettings(rules=rules, is_open=is_open, owns_names=owns_names)
    return AccessPolicy(settings, charters.get, place)


def client(principal: str, name: str = "", *attributes: str) -> Subject:
    return Subject(principal, name or principal, attributes=frozenset(attributes))


def node(name: str = "", principal: str = "node") -> Subject:
    return Subject(principal, name or principal, is_node=True)
