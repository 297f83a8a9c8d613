"""What repairs each field of a broker, and how soon, if damage gives it another value: as data, held against the code.

A field that is set when its object is made, is no container and is never set again is part of what cannot be damaged:
code, the broker's name, its configuration, and which part knows which other one. All other fields are in this table,
by `Class.field`, by `Class`, or by the package of their classes; the most exact entry counts. A test walks through
running brokers and fails if a field has no entry.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Final


class Repair(enum.Enum):
    """What is true of a field, and how that wins."""

    ROM = "never damaged: made of code and configuration when the broker starts, or read from its disk then"
    STEP = "made, used and emptied within one step"
    COUNT = "only told to people: nothing depends on it"
    LINK = "both ends tell their totals with each heartbeat, and a link on which they differ, or something raises, ends"
    SEAL = "what was told is compared with a copy or digest, 1,000 links twice a heartbeat: a link that differs ends"
    REGISTER = "twice a heartbeat it is held against the links that there are, and those that are configured"
    LEASE = "the digest in the heartbeats of the client, after an audit of its list"
    AUDIT = "in turns, some at a time, it is held against what it follows from, or forgotten and worked out anew"
    CLOCK = "a time that lies ahead is damage; whatever it waits for is looked at with each heartbeat"
    WAVE = "the parent's word and the neighbours' claims; clamps; without a wave in ξ' a broker rejoins"
    OWNER = "its owner's row in the manifest, two rounds later"
    ROUND = "worked out anew with each round from what is so"
    NEWS = "said again: by digests twice a heartbeat, or because the other end asks until it is answered"
    ANY = "used only if it is one of those that may be chosen, and any of these is legal"
    PLAN = "waves tell which plan is under way and which was finished last; a root's waits have deadlines"
    SPARE = "too few raises, which ends a link; too much takes memory till the next start, or leaves a word unsaid"
    UNWATCHED = "nothing looks at it yet: damage is noticed if it raises, which ends a link or starts the broker again"


_ENTRIES: Final[Mapping[Repair, str]] = {
    Repair.ROM: """
        AccessPolicy AttributeConstraint Broker._handlers Broker._inputs Broker.ready BrokerLife BrokerNetwork._boot
        BrokerNetwork.access BrokerNetwork.returning BrokerNetwork.settings BrokerNetwork.timers Colouring._work
        Colouring.members Colouring.scopes Context Credentials Filter FilterExtent Gateways._boot Handshake
        LinkSession.can_move LocalClient Neighbour.name Neighbour.unit NeighbourLink NextHop.name
        OutgoingLink.settings OutgoingLinks._has_begun OutgoingLinks._wanted OutgoingLinks.requested PlanLinks
        ProfileFeed._is_active Profiles.boot RouteTable.denied RoutingCache.depth ScopeColours._roots
        ScopePlanWork.root_group ScopePolicies ScopeTree.name ScopeTree.own_claim Settlement.boot Waves.boot
        _Reading""",
    Repair.STEP: """
        AccessControl Broker._unflushed BrokerNetwork._strays DeferredWork._left DeferredWork.is_untouched
        Forwarder.unflushed FrameReader.is_routine LocalInbox Outbox._control Outbox._unflushed Outbox.fresh Step""",
    Repair.COUNT: """
        BestEffortPublisher BrokerCounters BrokerNetwork._in_doubt BrokerNetwork.links_repaired
        BrokerSubscription.since BrokerSubscription.taken
        BrokerTracer CharterKeeper._warned Colouring.repaired FaultReports FilteredSubscriptions.events
        Forwarder.unrouted HeldParcels.dropped HeldParcels.held LinkSession.events_in
        NeighbourLink._confirmed NeighbourLink._pinged NeighbourLink.clients Outbox._missed Outbox.dropped
        Outbox.events ParcelSender Planning._ended ProfileAudit.repaired Rejoining.rejoined Relay.circling
        Relay.foreign Relay.entered Relay.matched Relay.most_matchings Relay.rerouted Route.events
        RouteComputation._clashes RoutingCache.recomputed ScopeColours.faults ScopeMembers.dropped Shapes
        SubscriptionSlots.accepted SubscriptionSlots.accepted_total SubscriptionSlots.rejected_total
        Subscriptions.refused TraceBuffer Wave.height Wave.refused Wave.unanswered""",
    Repair.LINK: "Connection FrameBuffer Greeting LinkSession Outbox",
    Repair.SEAL: """
        Connection._seal Connection.address Connection.attempt Connection.incarnation Connection.name
        Connection.principal Connection.publisher Connection.window FlowTable.number MeasuredCost._told
        MeasuredCost.base""",
    Repair.REGISTER: """
        BrokerNetwork DeferredWork Gateways.neighbours LinkSessions NameRegistry OutgoingLink OutgoingLinks""",
    Repair.LEASE: """
        BrokerSubscription.digest BrokerSubscription.number LinkSession.subscriptions RouteTable.subscriptions
        SubscriptionLease Subscriptions.leaving SubscriptionList""",
    Repair.AUDIT: """
        BrokerSubscription.counts BrokerSubscription.evaluated BrokerSubscription.place FiledSubscriptions
        FilteredSubscriptions FlowTable.routes Forwarder._checked Forwarder.schemas LinkAudit._due Route RouteTable
        SubscriptionSlots TopicEntry.epoch TopicEntry.name TopicEntry.remembered TopicEntry.route matching""",
    Repair.CLOCK: """
        Connection._beaten Connection.heard FrameReader._is_withholding Gateways._deferred Gateways._leaving
        Gateways._missing Heartbeats Neighbour.hidden Neighbour.suspected PlanPoll.deadline_at Rejoining._asked_at
        ReturningLinks._hidden_at ScopeColours._armed_at ScopeColours._orphaned_at Wave.deadline_at Wave.heard_at""",
    Repair.WAVE: "Rejoining ScopeColours ScopeTree Wave _Answers",
    Repair.OWNER: "ConnectivityGraph Gateways ManifestLease MemberProfile OwnersWords",
    Repair.ROUND: """
        Colouring CoverIndex ExitTable InterestIndex MaskPlans MemberInterests ProfileAudit ProfileFeed
        ProfileSummary Profiles Relay RouteComputation RoutingCache RoutingTables _SummarisedFilter""",
    Repair.NEWS: """
        AccessSpread Acquaintance AdminRequests AntiEntropy BundleWatch MeasuredCost ReturningLinks Settlement
        Shortcuts Transfer Waves""",
    Repair.ANY: "ExitChoices Subscriptions._numbers",
    Repair.PLAN: """
        AnnouncedPlan HeldParcels Neighbour.cost NextHop PlanPoll PlannedTopology Planning ScopePlanWork
        _RunningPlan""",
    Repair.SPARE: """
        FlowTable.denied FlowTable.schemas FlowTable.topics Forwarder._definers Forwarder.leaving
        TopicEntry.definers""",
    Repair.UNWATCHED: "AccessClass AccessClasses AccessLog BrokerSubscription.access Charters TopicSet",
}


def _entries() -> Iterator[tuple[str, Repair]]:
    for repair, names in _ENTRIES.items():
        for name in names.split():
            yield name, repair


REPAIRS: Final[Mapping[str, Repair]] = dict(_entries())


def repair_of(owner: type, field: str) -> Repair | None:
    """Return what repairs a field of a class; None if nobody has thought of it."""
    for each in owner.__mro__:
        for name in (f"{each.__name__}.{field}", each.__name__):
            if name in REPAIRS:
                return REPAIRS[name]
    return REPAIRS.get(owner.__module__.split(".")[1])
