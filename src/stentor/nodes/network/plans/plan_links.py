"""The links of one broker, as plans change them."""

from collections.abc import Callable, Mapping

from stentor.model.colours.plan import TopologyChange, TopologyPlan
from stentor.model.messages import AdminRequest, AdminTask
from stentor.nodes.network.link_cost import LARGEST_COST
from stentor.nodes.network.neighbour_link import NeighbourLink
from stentor.nodes.network.outgoing_links import OutgoingLink, OutgoingLinks
from stentor.nodes.network.owner import NetworkOwner
from stentor.nodes.network.plans.returning_links import ReturningLinks
from stentor.nodes.network.settings import GatewaySettings
from stentor.protocols.neighbours import Neighbours

_THOUSAND = 1000  # plans tell costs in thousandths, people in units


class PlanLinks:
    """Opens and closes links for plans. What a plan has changed in the end is known at the next start, too."""

    def __init__(
        self,
        name: str,
        outgoing: OutgoingLinks,
        peers: Mapping[str, NeighbourLink],
        neighbours: Neighbours,
        prospect: Callable[[str], tuple[int, float]],
        set_cost: Callable[[OutgoingLink, float], None],
        set_base_cost: Callable[[str, float], None],
        reprice: Callable[[str, int], None],
        returning: ReturningLinks,
        owner: NetworkOwner,
    ) -> None:
        """`prospect` tells of a broker that is none of `peers` the level of a link to it, and what it would cost."""
        self._name = name
        self._outgoing = outgoing
        self._peers = peers
        self._neighbours = neighbours
        self._prospect = prospect
        self._set_cost = set_cost
        self._set_base_cost = set_base_cost
        self._reprice = reprice
        self._returning = returning
        self._owner = owner

    def has_link(self, change: TopologyChange) -> bool:
        return self._other(change) in self._peers

    def open_link(self, change: TopologyChange) -> None:
        self._returning.reveal(self._other(change))
        if change.near == self._name and not change.is_return:
            cost = change.after / _THOUSAND
            self._outgoing.open(GatewaySettings(name=change.far, address=change.address, cost=cost))

    def close_link(self, change: TopologyChange) -> None:
        if change.is_return:
            self._returning.hide_again(self._other(change))
            return
        for outgoing in self._dialled(change):
            self._outgoing.remove(outgoing.settings.address)
        peer = self._peers.get(self._other(change))
        if peer is not None:
            peer.confirm_all()  # what was under way has been counted at both ends
            self._owner.end_link(peer.session, "a plan removed the link")
        self._returning.forget(self._other(change))

    def finish(self, change: TopologyChange) -> None:
        if change.is_measured:
            if change.near == self._name and change.far in self._peers:
                self._reprice(change.far, change.after)
            return
        if change.is_return:
            return
        self._outgoing.withdraw(change.far)
        other, cost = self._other(change), change.after / _THOUSAND
        dialled = self._dialled(change)
        if not dialled and not change.comes and not change.goes and other in self._peers:
            self._set_base_cost(other, cost)  # now: to hear it from whoever opens the link would be after the plan
        for outgoing in dialled:  # whoever opens the link remembers what has become of it
            self._remember(change, outgoing)
            if not change.comes and not change.goes:
                self._set_cost(outgoing, cost)
        if change.goes:
            self.close_link(change)

    def requests(self, level: int) -> tuple[TopologyChange, ...]:
        return self._mispriced(level) + self._missing(level) + self._returned(level)

    def write_down(self, scope: str, plan: TopologyPlan) -> None:
        self._owner.remember(AdminRequest(token=0, task=AdminTask.RECONFIGURE, scope=scope, plan=plan))

    def strike_out(self, scope: str, number: int) -> None:
        over = TopologyPlan(number, ())
        self._owner.remember(AdminRequest(token=0, task=AdminTask.WITHDRAW_PLAN, scope=scope, plan=over))

    def remember_roots(self, scope: str, roots: tuple[str, ...]) -> None:
        group = TopologyPlan(0, (), roots=roots)
        self._owner.remember(AdminRequest(token=0, task=AdminTask.SET_ROOTS, scope=scope, plan=group))

    def _mispriced(self, level: int) -> tuple[TopologyChange, ...]:
        """Return the links of a level whose measured cost is another one than events are routed by."""
        return tuple(
            TopologyChange(near=self._name, far=name, before=neighbour.cost, after=cost, is_measured=True)
            for name, neighbour in sorted(self._neighbours.items())
            if neighbour.level == level
            and neighbour.is_used  # a link that a plan is to bring comes with what it costs then
            and 0 < neighbour.cost <= LARGEST_COST  # else it is damaged, as the next one may be: heartbeats mend that
            and self._peers[name].cost.is_intact
            and (cost := self._peers[name].cost.now) != neighbour.cost
        )

    def _missing(self, level: int) -> tuple[TopologyChange, ...]:
        """Return the links of a level that plans shall bring, and that are not there."""
        found = []
        for name, settings in sorted(self._outgoing.requested.items()):
            own_level, usual = self._prospect(name)
            if own_level == level and name not in self._peers and not self._outgoing.dials(name):
                cost = int(_THOUSAND * (settings.cost or usual))
                found.append(TopologyChange(near=self._name, far=name, before=0, after=cost, address=settings.address))
        return tuple(found)

    def _returned(self, level: int) -> tuple[TopologyChange, ...]:
        """Return the links of a level that were lost, and are there again: both ends ask, each as the near one."""
        neighbours = [self._neighbours[name] for name in self._returning.names]
        return tuple(
            TopologyChange(near=self._name, far=each.name, before=0, after=each.cost, is_return=True)
            for each in neighbours
            if each.level == level
        )

    def _other(self, change: TopologyChange) -> str:
        """Return who is at the other end of a link of ours."""
        return change.far if change.near == self._name else change.near

    def _dialled(self, change: TopologyChange) -> list[OutgoingLink]:
        """Return the links that this broker opens to the other end."""
        other = self._other(change)
        return [
            each
            for each in self._outgoing.links.values()
            if each.settings.name == other or (change.near == self._name and each.settings.address == change.address)
        ]

    def _remember(self, change: TopologyChange, outgoing: OutgoingLink) -> None:
        task = AdminTask.ADD_LINK if change.comes else AdminTask.REMOVE_LINK if change.goes else AdminTask.SET_COST
        self._owner.remember(
            AdminRequest(
                token=0,
                task=task,
                name=self._other(change),
                address=outgoing.settings.address,
                cost=change.after / _THOUSAND,
                force=True,
            )
        )
