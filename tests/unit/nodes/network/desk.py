"""The network of one broker, with a test in the place of all other brokers."""

from tests.unit.protocols.spoken_links import spoken_links

from stentor.machine import LinkOpened, Report, Step
from stentor.model.context import Context
from stentor.model.ids import LinkId
from stentor.model.limits import Limits
from stentor.model.messages import AdminRequest, AdminTask, Presence
from stentor.model.routing_state import RoutingState
from stentor.model.scope import ScopePath
from stentor.nodes.broker.access.credentials import Credentials
from stentor.nodes.broker.link_session import LinkSession
from stentor.nodes.network.network import BrokerNetwork, NetworkSettings
from stentor.policies.scope_policies import ScopePolicies
from stentor.protocols.connection.connection import Connection
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.forwarder import Forwarder
from stentor.protocols.dissemination.member_interests import InterestIndex

ME, HALL = "north/library/b1", "north/hall/b1"


class Desk:
    """north/library/b1; its numbers are 3, 4 and 5, the outermost first."""

    def __init__(self) -> None:
        path, limits = ScopePath.parse(ME), Limits()
        policies = ScopePolicies(Context(path).scopes)
        forwarder: Forwarder[Outbox] = Forwarder(limits, {}, policies)
        self.step = Step()
        self.ended: list[tuple[LinkSession, str]] = []
        self.remembered: list[AdminRequest] = []
        settings = NetworkSettings(numbers=(3, 4, 5), address="here:1")
        self.network = BrokerNetwork(path, settings, limits, policies, forwarder, self.step, self)
        self.network.begin(1)
        self._links = 0

    def on_charter_change(self, topic: str) -> None:
        """Charters are no matter here."""

    def end_link(self, session: LinkSession, reason: str) -> None:
        self.ended.append((session, reason))
        self.network.link_down(session, reason)

    def remember(self, request: AdminRequest) -> None:
        """Disks are fast here."""
        self.remembered.append(request)
        if request.task is AdminTask.RECONFIGURE and request.plan is not None:
            self.network.colouring.on_plan_written(request.scope, request.plan.number)

    def link(self, peer: str, cost: int) -> LinkSession:
        """A link to a broker is there; `cost` is in thousandths."""
        self._links += 1
        link = LinkId(self._links)
        connection = Connection(link, 0, 1 << 20, 1 << 20, 5.0)
        session = LinkSession(connection, Credentials(LinkOpened(link)), dialled=False)
        self.network.link_up(session, peer, cost / 1000, "there:1")
        return session

    def hear(self, peer: str, unit: str, number: int, *gateways: str, version: int = 1) -> None:
        """A neighbour says that a unit has this number and these gateways."""
        links = spoken_links(self.network.context.name, self.network.peers, unit, *gateways)
        speaker = unit if unit.count("/") == 2 else f"{unit}/b1"
        presence = Presence(unit=unit, version=version << 20, speaker=speaker, number=number, gateways=links)
        session = self.network.peers[peer].session
        self.network.hear(session, presence)

    def states(self) -> tuple[RoutingState[InterestIndex], ...]:
        """The routing states at the end of a step."""
        self.network.end_step()
        self.network.validate()
        return self.network.relay.states

    def held(self) -> dict[int, int]:
        """For whom events of our clients wait, as masks by level."""
        return dict(self.network.relay._tables.held[-1])

    def reports(self, what: str) -> list[Report]:
        return [each for each in self.step.end() if isinstance(each, Report) and each.what == what]
