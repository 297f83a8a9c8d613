"""Damaged indexes: by which a broker finds who wants an event, here and elsewhere, is scrambled on purpose."""

from typing import TypeVar

from stentor.matching.facet_groups import FacetGroups
from stentor.matching.masks.mask_index import MaskBucket
from stentor.matching.topic_tree import PatternMap, TopicTree
from stentor.nodes.damage.draw import Draw
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.filed_subscriptions import FiledSubscriptions
from stentor.protocols.dissemination.filtered_subscriptions import SubscriptionSlots
from stentor.protocols.dissemination.forwarder import Forwarder

B = TypeVar("B")


class DamagedIndexes:
    """The indexes of one broker."""

    def __init__(self, forwarder: Forwarder[Outbox], draw: Draw) -> None:
        self._forwarder = forwarder
        self._table = forwarder.table
        self._draw = draw

    def scramble(self) -> None:
        self._damage_filed(self._table.filed)
        self._damage_slots(self._table.filed.slots)
        self._damage_interests()
        self._damage_definitions()
        if self._often():
            self._table._tree = TopicTree()

    def _often(self) -> bool:
        return self._draw.random() < 0.5

    def _damage_filed(self, filed: FiledSubscriptions[Outbox]) -> None:
        draw = self._draw
        if self._often():
            filed._whole = PatternMap()
        if self._often():
            filed._audiences = PatternMap()
        for audience in filed._by_pattern.values():
            index = audience._index
            self._mix_buckets(index._filed.groups)
            for number in list(index._filters):
                if draw.random() < 0.2:
                    index._filters[draw.randrange(64)] = index._filters.pop(number)
        for subscription in filed.by_number.values():
            if subscription.filter is not None and draw.random() < 0.2:
                subscription.place = draw.randrange(64)
        filed.evaluated = draw.choice((filed.evaluated, 0, draw.randrange(1 << 40)))
        filed.is_loaded = self._often()

    def _mix_buckets(self, groups: FacetGroups[B]) -> None:
        """Lose what is filed under some keys, and file under others what is not theirs."""
        draw = self._draw
        for group in groups:
            for key in list(group.buckets):
                match draw.randrange(4):
                    case 0:
                        del group.buckets[key]
                    case 1:
                        group.buckets[key] = draw.choice(list(group.buckets.values()))

    def _damage_slots(self, slots: SubscriptionSlots[Outbox]) -> None:
        draw = self._draw
        for place in range(slots._used):
            if draw.random() < 0.3:
                slots._owners[place] = draw.randrange(slots._last + 2)
            if draw.random() < 0.1:
                slots._free.append(draw.randrange(64))

    def _damage_interests(self) -> None:
        draw, interests = self._draw, self._table.interests
        for each in interests._by_pattern.values():
            for level, index in enumerate(each.filtered):
                if draw.random() < 0.3:
                    each.whole[level] ^= draw.randrange(1 << 8)
                if index is not None:
                    self._mix_buckets(index._groups)
                    for bucket in [bucket for group in index._groups for bucket in group.buckets.values()]:
                        self._damage_mask(bucket)
        if draw.random() < 0.3:
            interests._covering = PatternMap()

    def _damage_definitions(self) -> None:
        draw, schemas, definers = self._draw, self._forwarder.schemas, self._forwarder._definers
        for state in self._table.topics.values():
            if draw.random() < 0.2:
                state.definers = draw.choice((-3, 0, 1, 1 << 40))
        known = list(schemas.values())
        for number in list(schemas):
            match draw.randrange(8):
                case 0:
                    del schemas[number]
                case 1:
                    schemas[number] = draw.choice(known)
                case 2:
                    definers[number] = draw.choice((-3, 0, 1, 1 << 40))

    def _damage_mask(self, bucket: MaskBucket) -> None:
        if self._often():
            bucket.mask ^= self._draw.randrange(1 << 8)
