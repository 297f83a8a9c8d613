"""Introspection: what a broker answers when it is asked about itself and the network around it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from stentor.model.batch import Rows
from stentor.model.colours.wave_timing import ColourSettings
from stentor.model.errors import TopicError
from stentor.model.messages import ExplanationReport, ExplanationRequest, Presence
from stentor.model.reports.colour_view import ColourView
from stentor.model.reports.view import Explanation, GatewayView, HopView, LinkView, MemberView, NetworkView, ScopeView
from stentor.model.routing_state import ExitNumbers
from stentor.model.topic import check_topic
from stentor.nodes.network.link_cost import DETOUR_COST
from stentor.nodes.network.network import BrokerNetwork
from stentor.policies.forwarding import Chosen
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.relay import wanted
from stentor.protocols.dissemination.routes import Route, TopicEntry
from stentor.wire.frame import LARGEST_CONTROL
from stentor.wire.parcel import Masks, read_ways

_LISTED = (500, 50, 5, 0)  # links and subscriptions in a report, until it fits


def fitting(report: Callable[[int], Any]) -> msgspec.Raw:
    """Return a report that fits into a frame, however much there is to tell."""
    raw = msgspec.Raw(b"")
    for listed in _LISTED:
        raw = msgspec.Raw(msgspec.msgpack.encode(report(listed)))
        if len(raw) < LARGEST_CONTROL // 2:
            break
    return raw


def view_of(network: BrokerNetwork, clients: int, subscriptions: int) -> NetworkView:
    context, relay, colours = network.context, network.relay, network.colouring.views()
    return NetworkView(
        node=context.name,
        address=network.address,
        clients=clients,
        subscriptions=subscriptions,
        speaks_for=tuple(unit for level, unit in enumerate(context.units) if network.gateways.speaks(level)),
        scopes=tuple(_scope(network, level, colours) for level in range(context.depth)),
        links=tuple(_links(network)),
        parted=tuple(network.gateways.parted),
        relayed=relay.relayed,
        entered=relay.entered,
        matched=relay.matched,
        stranded=relay.stranded,
        circling=relay.circling,
        most_matchings=relay.most_matchings,
        foreign=relay.foreign,
        repaired=network.colouring.repairs + network.links_repaired,
    )


def _scope(network: BrokerNetwork, level: int, colours: Mapping[str, ColourView]) -> ScopeView:
    scope = network.context.scopes[level]
    return ScopeView(
        scope=scope,
        level=level,
        forwarding=network.policies.forwarding_in(scope),
        members=tuple(_member(network, level, unit) for unit in sorted(network.gateways.graph.members[level])),
        path_length=network.gateways.graph.paths(level).average,
        colours=colours[scope],
        colour_settings=msgspec.structs.replace(
            network.settings.colours.get(scope, ColourSettings()), roots=network.colouring.scopes[level].roots
        ),
    )


def _member(network: BrokerNetwork, level: int, unit: str) -> MemberView:
    graph = network.gateways.graph
    presence, profile = graph.members[level][unit], network.profiles.members[level].get(unit)
    own = unit in network.context.units
    distance = graph.distance(unit)
    return MemberView(
        unit=unit,
        number=presence.number,
        speaker=presence.speaker,
        address=presence.address,
        members=0 if presence.left else presence.members,
        reachable=not presence.left and graph.reaches(unit),
        hop="" if own else network.routes.way_towards(unit)[0],
        distance=tuple(part / 1000 for part in distance or ()),
        gateways=tuple(
            GatewayView(far, network.context.level(far) or 0, len(costs), min(costs) / 1000)
            for far, costs in _costs_by_unit(presence).items()
        ),
        wants=0 if profile is None else len(profile.wants),
        predicates=0 if profile is None else profile.predicates,
        exits=() if own else network.routes.exits_towards(unit),
    )


def _costs_by_unit(presence: Presence) -> dict[str, list[int]]:
    """Return what the links of a member cost, by the unit to which they lead."""
    found: dict[str, list[int]] = {}
    for gateway in presence.gateways:
        found.setdefault(gateway.unit, []).append(gateway.cost)
    return found


def _links(network: BrokerNetwork) -> list[LinkView]:
    links = []
    for name, peer in sorted(network.peers.items()):
        neighbour, connection = network.gateways.neighbours[name], peer.session.connection
        links.append(
            LinkView(
                peer=name,
                address=peer.address,
                level=neighbour.level,
                state="suspected" if neighbour.suspected else "returning" if neighbour.hidden else "up",
                cost=neighbour.cost / 1000,
                round_trip=peer.cost.trip_ns / 1e9,
                events_in=peer.session.events_in,
                events_out=connection.outbox.events,
                bytes_in=connection.received,
                bytes_out=connection.outbox.position,
                queued=connection.outbox.queued,
                base=peer.cost.base / 1000,
            )
        )
    for address, outgoing in sorted(network.outgoing.links.items()):
        name = outgoing.settings.name
        if name not in network.peers:
            level, cost = network.prospect(name)
            links.append(LinkView(name, address, level, "down", outgoing.settings.cost or cost, 0.0, 0, 0, 0, 0, 0))
    return links


def explain(
    network: BrokerNetwork, forwarder: Forwarder[Outbox], asked: ExplanationRequest, name_of: Callable[[Outbox], str]
) -> ExplanationReport:
    """Return what would become of an event here, decided by what decides it for real."""
    context, relay = network.context, network.relay
    try:
        check_topic(asked.topic)
    except TopicError:
        nothing = Explanation(context.name, False, (), (), (), ())
        return ExplanationReport(asked.token, msgspec.Raw(msgspec.msgpack.encode(nothing)))
    route = forwarder.table.route(TopicEntry(asked.topic))
    batch = Rows([asked.attributes])
    masks: Masks = {}
    below, enters, told = context.depth, True, ExitNumbers()
    if asked.masks is not None:
        level = min(max(asked.level, 0), context.depth - 1)
        masks = {each: mask for each, mask in asked.masks.items() if level <= each < context.depth}
        own = relay.states[level].own
        enters, below = bool(masks.get(level, 0) & own), level
        masks[level] = masks.get(level, 0) & ~own
        told = (0,) * level + (*asked.exits, *(0,) * context.depth)[level : context.depth]
    unreachable: Masks = {}
    if enters:
        for level in range(below):
            masks[level] = masks.get(level, 0) | _only(relay.choose(route, level, batch))
            unreachable[level] = _only(wanted(route, level, batch)) & ~relay.states[level].members
    hops = [
        HopView(
            peer=hop.name,
            address=network.peers[hop.name].address,
            level=hop.level,
            masks=share,
            units=tuple(network.routes.units_behind(share)),
            passes=hop.channel is None or bool(hop.channel.admits(batch)[0]),
            way=_way(network, hop.level, hop.name),
            exits=read_ways(stamp.ways).exits[: context.depth],
        )
        for hop, share, _, stamp, _ in relay.split_by_hop(
            {level: mask for level, mask in masks.items() if mask}, told
        ).hops
    ]
    explanation = Explanation(
        node=context.name,
        enters=enters,
        matched=tuple(context.scopes[level] for level in range(below)) if enters else (),
        clients=tuple(sorted({name_of(each) for each in _takers(route, asked.attributes)})) if enters else (),
        hops=tuple(hops),
        stranded=tuple(network.routes.units_behind(unreachable)),
        wanted=route.is_wanted,
    )
    return ExplanationReport(asked.token, msgspec.Raw(msgspec.msgpack.encode(explanation)))


def _way(network: BrokerNetwork, level: int, neighbour: str) -> str:
    """Return whether events take the tree of the scope that a link is in, if they are to."""
    scope = network.context.scopes[level]
    if not network.policies.goes_by_tree(scope):
        return ""
    is_on_tree = network.gateways.neighbours[neighbour].cost < DETOUR_COST
    return f"{'on' if is_on_tree else 'off'} the tree of {scope or 'the network'}"


def _only(chosen: Chosen) -> int:
    return chosen if isinstance(chosen, int) else int(chosen[0])


def _takers(route: Route[Outbox], attributes: dict[str, bool | int | float | str]) -> Iterator[Outbox]:
    yield from route.takers
    for filtered in route.filtered:
        yield from filtered.wanting(attributes)
