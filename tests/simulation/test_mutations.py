"""Break a mechanism on purpose, and a checker must see it: proof that the checkers can fail."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.simulation.killers import find_killer

from stentor.matching.pairs.pair_index import PairIndex
from stentor.model.batch import Batch
from stentor.model.messages import NEVER, MarkReceipt, Presence, ProfileChange, Welcome
from stentor.model.trust.access import TOPIC, SharedFact
from stentor.model.trust.charter import Charter
from stentor.nodes.arrival import Arrival
from stentor.nodes.broker import tracer
from stentor.nodes.broker.subscription_lease import SubscriptionLease
from stentor.nodes.client import Client
from stentor.nodes.network import shortcuts
from stentor.nodes.network.anti_entropy import AntiEntropy
from stentor.nodes.network.shortcuts import Shortcuts
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.name_registry import NameRegistry
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.delivery.repository import registry
from stentor.protocols.dissemination import profiles, relay
from stentor.protocols.dissemination.access.access_log import AccessLog
from stentor.protocols.dissemination.access.spread import AccessSpread
from stentor.protocols.dissemination.access.waves import Waves
from stentor.protocols.dissemination.mask_plans import HopShares, MaskPlan, MaskPlans
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.dissemination.settlement import Settlement
from stentor.protocols.overlay import gateways
from stentor.protocols.overlay.connectivity_graph import ConnectivityGraph, Links
from stentor.protocols.overlay.gateways import Gateways
from stentor.simulation.disk import SimulatedDisk
from stentor.storage import segment
from stentor.storage.segment import SegmentLog
from stentor.wire import block, letter
from stentor.wire.block import Block
from stentor.wire.parcel import label

Mutate = Callable[[pytest.MonkeyPatch], None]
MOST_SEEDS = 400  # some mechanisms are needed by one world in a hundred


def no_duplicate_suppression(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Block, "last", lambda _: 0)


def no_checksum_of_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Block, "verify", lambda _: None)


def no_position_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "check_heartbeat", lambda *_: None)
    patch.setattr(SubscriptionLease, "compare", lambda *_: None)  # which would mend some of it


def no_resubscription(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriptionLease, "compare", lambda *_: None)  # which would mend it
    original = Client._welcomed

    def forgetful(self: Client, welcome: Welcome) -> None:
        subscriptions, self.subscriber.subscriptions = self.subscriber.subscriptions, {}
        original(self, welcome)
        self.subscriber.subscriptions = subscriptions

    patch.setattr(Client, "_welcomed", forgetful)


def no_giving_up_on_silence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "silent", lambda *_: False)


def no_fencing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NameRegistry, "claim", lambda *_: None)


def no_content_filter(patch: pytest.MonkeyPatch) -> None:
    def everything(self: PairIndex, batch: Batch) -> tuple[Any, Any]:
        numbers = np.array(list(self._filters), np.int64)
        return np.repeat(np.arange(batch.count), len(numbers)), np.tile(numbers, batch.count)

    patch.setattr(PairIndex, "match_pairs", everything)


def no_bound_of_queues(patch: pytest.MonkeyPatch) -> None:
    original = Outbox.__init__

    def boundless(self: Outbox, link: Any, bound: int, *more: Any) -> None:
        original(self, link, bound << 20, *more)

    patch.setattr(Outbox, "__init__", boundless)


def no_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentLog, "sync", lambda _: None)


def no_sync_of_the_directory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedDisk, "sync", lambda _: None)


def no_checksum_of_records(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment, "_checksum", lambda *_: 0)


def no_poison(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentLog, "_check_alive", lambda _: None)


def no_rewriting_of_the_tail(patch: pytest.MonkeyPatch) -> None:
    original = segment._scan

    def trusting(data: bytes) -> tuple[list[bytes], int, int]:
        records, end, _ = original(data)
        return records, end, end

    patch.setattr(segment, "_scan", trusting)


def no_two_way_check(patch: pytest.MonkeyPatch) -> None:
    def believes(self: ConnectivityGraph, unit: str, speaker: str, level: int) -> Links:
        other = self.members[level].get(unit)
        return {} if other is None or other.left else self._advertised.get(speaker, {}).get(unit, {})

    patch.setattr(ConnectivityGraph, "_answered", believes)


def no_resynchronisation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AntiEntropy, "on_inventory", lambda *_: None)


def no_resynchronisation_of_profiles(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Profiles, "compare", lambda *_: None)


def own_bit_stays(patch: pytest.MonkeyPatch) -> None:
    """It needs a second fault to do harm: who does not know that a bit is its own has a next hop for it."""
    original, original_plan = MaskPlans.__init__, relay.Relay._plan

    def init(self: MaskPlans[Any], *given: Any) -> None:
        original(self, *given)
        for hop, masks in self.hops[:1]:
            masks[hop.level] = masks.get(hop.level, 0) | self.states[hop.level].own

    def plan(self: relay.Relay[Any], hop: Any, key: bytes, parcel: Any, masks: dict[int, int]) -> MaskPlan[Any]:
        found = original_plan(self, hop, key, parcel, masks)
        found = self._by_label[key] = found._replace(onward=masks, shares=found.plans.split_by_hop(masks))
        return found

    patch.setattr(MaskPlans, "__init__", init)
    patch.setattr(relay.Relay, "_plan", plan)


def masks_are_not_divided(patch: pytest.MonkeyPatch) -> None:
    original = MaskPlans.split_by_hop

    def divide(self: MaskPlans[Any], masks: dict[int, int]) -> HopShares[Any]:
        found = []
        for share in original(self, masks).hops:
            all_of_them = {level: mask for level, mask in masks.items() if level >= share.hop.level}
            found.append(share._replace(masks=all_of_them, label=label(all_of_them, share.stamp)))
        return HopShares(tuple(found), 0)

    patch.setattr(MaskPlans, "split_by_hop", divide)


def removals_are_not_spread(patch: pytest.MonkeyPatch) -> None:
    original = Profiles._spread

    def spread(self: Profiles, level: int, change: ProfileChange, heard_from: str) -> None:
        original(self, level, msgspec.structs.replace(change, removed=()), heard_from)

    patch.setattr(Profiles, "_spread", spread)


def no_handing_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gateways, "_first", lambda self, level: self.context.units[level])


def one_hop_is_too_many(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(relay, "MOST_HOPS", 1)


def no_order_of_presences(patch: pytest.MonkeyPatch) -> None:
    original = Gateways.hear

    def hear(self: Gateways, name: str, presence: Presence) -> None:
        known = self.graph.find(presence.unit)
        if known is not None and presence.version < known.version:
            presence = msgspec.structs.replace(presence, version=known.version + 1)
        original(self, name, presence)

    patch.setattr(Gateways, "hear", hear)


def changes_of_profiles_build_on_anything(patch: pytest.MonkeyPatch) -> None:
    original = Profiles.hear

    def hear(self: Profiles, name: str, change: ProfileChange) -> None:
        level = self.context.level(change.unit)
        known = None if level is None else self.members[level].get(change.unit)
        if known is not None and change.before != NEVER:
            change = msgspec.structs.replace(change, before=known.stamp)
        original(self, name, change)

    patch.setattr(Profiles, "hear", hear)


def lives_are_not_told_apart(patch: pytest.MonkeyPatch) -> None:
    for module in (gateways, profiles):
        patch.setattr(module, "next_version", lambda version, _: version + 1)


def letters_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(letter._decoder, "_check", lambda _: None)


def facts_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry, "is_sound", lambda *_: True)


def any_number_is_traced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tracer, "LAST_FIRST", 2**64)


def any_number_is_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(block, "LAST_FIRST", 2**64)


def receipts_do_not_wait_for_disks(patch: pytest.MonkeyPatch) -> None:
    original = Waves._await_disk

    def hasty(self: Waves, number: int, waits: Any) -> None:
        self._durable = max(self._durable, number)
        original(self, number, waits)

    patch.setattr(Waves, "_await_disk", hasty)


def receipts_do_not_wait_for_neighbours(patch: pytest.MonkeyPatch) -> None:
    original = Waves._look

    def hasty(self: Waves, name: str, wave: Any) -> None:
        for question in wave.asked:
            del self._asked[question]
        wave.asked.clear()
        original(self, name, wave)

    patch.setattr(Waves, "_look", hasty)


def no_comparison_of_charters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AccessSpread, "_send_inventories", lambda *_: None)


def tombstones_do_not_stay(patch: pytest.MonkeyPatch) -> None:
    original = Charter.facts

    def forgetful(self: Charter, keys: Any = None) -> list[SharedFact]:
        return [fact for fact in original(self, keys) if fact[3] or not self.is_live or fact[0] != TOPIC]

    patch.setattr(Charter, "facts", forgetful)


def no_second_try_to_write(patch: pytest.MonkeyPatch) -> None:
    def careless(self: AccessLog, reason: str) -> None:
        self.appended()

    patch.setattr(AccessLog, "failed", careless)


def no_shortcuts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Shortcuts, "beat", lambda *_: None)


def any_number_of_shortcuts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shortcuts, "MOST_LINKS", 64)


def path_lengths_are_not_kept_up_to_date(patch: pytest.MonkeyPatch) -> None:
    original = ConnectivityGraph.take

    def lazy(self: ConnectivityGraph, presence: Presence) -> None:
        kept = dict(self._paths)
        original(self, presence)
        self._paths.update(kept)

    patch.setattr(ConnectivityGraph, "take", lazy)


def the_old_broker_is_left_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Client, "_arrive", lambda self, *_, **__: self._leave())


def events_are_not_held_while_moving(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Arrival, "take_held", lambda _: b"")


def counts_are_told_with_changes_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Profiles, "_is_miscounted", lambda *_: False)


def nobody_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Settlement, "_take_roll", lambda _: (1, []))


def only_neighbours_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    original = Settlement.hear

    def hear(self: Settlement, receipt: MarkReceipt) -> None:
        original(self, msgspec.structs.replace(receipt, neighbours=()))

    patch.setattr(Settlement, "hear", hear)


def lost_receipts_are_not_asked_for_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Settlement, "beat", lambda _: None)


MUTATIONS: list[tuple[str, Mutate, set[str]]] = [
    ("access", receipts_do_not_wait_for_disks, {"unsafe-ack"}),
    ("access", receipts_do_not_wait_for_neighbours, {"unsafe-ack"}),
    ("access", no_comparison_of_charters, {"lost-write", "diverged"}),
    ("access", tombstones_do_not_stay, {"diverged"}),
    ("access", no_second_try_to_write, {"unsafe-ack"}),
    ("broker", no_duplicate_suppression, {"duplicate", "nonmonotonic-poll"}),
    ("broker", no_checksum_of_events, {"corrupt"}),
    ("broker", no_position_check, {"poll-skip", "unsubscribed", "lost-write"}),
    ("broker", no_resubscription, {"unsubscribed"}),
    ("broker", no_giving_up_on_silence, {"poll-skip", "disconnected", "lost-write"}),
    ("broker", no_fencing, {"unfenced"}),
    ("broker", no_content_filter, {"unasked"}),
    ("broker", no_bound_of_queues, {"unbounded"}),
    ("overlay", no_two_way_check, {"cache"}),
    ("overlay", no_resynchronisation, {"members", "endless"}),
    ("overlay", no_resynchronisation_of_profiles, {"profile", "endless"}),
    ("overlay", counts_are_told_with_changes_only, {"count"}),
    ("overlay", removals_are_not_spread, {"profile"}),
    ("overlay", no_handing_over, {"presence", "endless"}),
    ("overlay", no_order_of_presences, {"presence", "endless"}),
    ("overlay", changes_of_profiles_build_on_anything, {"profile"}),
    ("overlay", lives_are_not_told_apart, {"presence", "profile"}),
    ("overlay", no_shortcuts, {"path-length"}),
    ("overlay", any_number_of_shortcuts, {"links"}),
    ("overlay", path_lengths_are_not_kept_up_to_date, {"path-length"}),
    ("network", the_old_broker_is_left_first, {"lost-write"}),
    ("network", events_are_not_held_while_moving, {"lost-write", "unsubscribed"}),
    ("network", own_bit_stays, {"twice", "matchings", "circling"}),
    ("network", masks_are_not_divided, {"twice"}),
    ("network", one_hop_is_too_many, {"circling"}),
    ("network", no_resynchronisation, {"members"}),
    ("network", counts_are_told_with_changes_only, {"count"}),
    ("network", nobody_is_waited_for, {"unsettled"}),
    ("network", only_neighbours_are_waited_for, {"unsettled"}),
    ("network", lost_receipts_are_not_asked_for_again, {"rest", "unsettled"}),
    ("fuzz", letters_are_not_checked, {"ended", "unhandled"}),
    ("fuzz", facts_are_not_checked, {"ended", "unhandled"}),
    ("fuzz", any_number_is_traced, {"ended", "unhandled"}),
    ("log", no_sync, {"lost-write"}),
    ("log", no_sync_of_the_directory, {"lost-write"}),
    ("log", no_checksum_of_records, {"corrupt"}),
    ("log", no_poison, {"unsafe-ack"}),
    ("log", no_rewriting_of_the_tail, {"lost-write"}),
]


@pytest.mark.slow
def test_a_number_that_is_out_of_range_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes some 130 seeds of messages."""
    test_a_broken_mechanism_is_seen("fuzz", any_number_is_stored, {"ended", "unhandled"}, monkeypatch)


@pytest.mark.parametrize(("name", "mutate", "kinds"), MUTATIONS, ids=[mutate.__name__ for _, mutate, _ in MUTATIONS])
def test_a_broken_mechanism_is_seen(
    name: str, mutate: Mutate, kinds: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert find_killer(mutate.__name__, name, kinds, MOST_SEEDS) is not None, "nobody noticed"
