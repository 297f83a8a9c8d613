"""Colouring: the waves of all scopes around a broker, and what they make it do with what it knows of their members.

Each scope has colours of its own, one machine's part for each level. What a broker holds of another member is a copy: a
presence and a profile that the member's owner told. With every wave copies are held against the manifest, which has the
owners' own digests. A copy that has its owner's stamp and says something else is dropped, and neighbours are asked for
a right one. Of a copy with another stamp one of the two is older, or damaged: neighbours tell each other the newer one,
up to the owner itself, which says something newer than whatever it hears of itself.
"""

from collections.abc import Callable, Mapping
from functools import partial

from stentor.machine import Step
from stentor.model.colours.colour import COLOURS, Colour, current_colour
from stentor.model.colours.manifest import ManifestRow
from stentor.model.colours.plan import PlanStage, Side, TopologyPlan
from stentor.model.colours.wave_messages import WaveMessage
from stentor.model.colours.wave_timing import ColourSettings, timing_of
from stentor.model.errors import FrameError, Refusal
from stentor.model.reports.colour_view import ColourView
from stentor.model.routing_state import Sides
from stentor.nodes.network.anti_entropy import AntiEntropy
from stentor.nodes.network.link_cost import DETOUR_COST
from stentor.nodes.network.plans.plan_work import PlannedLinks, ScopePlanWork
from stentor.nodes.network.profile_feed import ProfileFeed
from stentor.policies.scope_policies import ScopePolicies
from stentor.protocols.colours.scope_colours import ScopeColours, WaveDue
from stentor.protocols.colours.scope_surroundings import ScopeSurroundings
from stentor.protocols.connection.outbox import Outbox
from stentor.protocols.dissemination.member_interests import InterestIndex
from stentor.protocols.dissemination.profile_audit import ProfileAudit
from stentor.protocols.dissemination.profiles import Profiles
from stentor.protocols.dissemination.relay import Relay
from stentor.protocols.neighbours import Neighbours
from stentor.protocols.overlay.exits import ExitChoices
from stentor.protocols.overlay.gateways import Gateways
from stentor.protocols.overlay.planned_topology import PlannedTopology


class ScopeMembers:
    """The members of one scope, as one broker knows them."""

    def __init__(
        self, level: int, gateways: Gateways, profiles: Profiles, anti_entropy: AntiEntropy, step: Step
    ) -> None:
        self._level = level
        self._gateways = gateways
        self._graph = gateways.graph
        self._context = gateways.context
        self._profiles = profiles
        self._anti_entropy = anti_entropy
        self._step = step
        self.dropped = 0  # copies that were not as their owners say

    def own_row(self) -> ManifestRow | None:
        level, unit = self._level, self._context.units[self._level]
        presence = self._graph.members[level].get(unit)
        if presence is None or presence.left or presence.speaker != self._context.name:
            return None
        if not self._gateways.speaks(level):
            return None
        profile = self._profiles.members[level].get(unit)
        return ManifestRow(
            unit=unit,
            speaker=presence.speaker,
            number=presence.number,
            presence=presence.digest,
            presence_version=presence.version,
            profile=0 if profile is None else profile.digest,
            profile_version=0 if profile is None else profile.stamp[0],
            profile_maker="" if profile is None else profile.stamp[1],
            predicates=0 if profile is None else profile.predicates,
        )

    def departed(self, rows: Mapping[str, ManifestRow]) -> list[str]:
        known = self._graph.members[self._level]
        return [
            unit
            for unit, row in rows.items()
            if unit in known and known[unit].left and known[unit].version > row.presence_version
        ]

    def compare(self, rows: Mapping[str, ManifestRow]) -> None:
        self._gateways.follow_manifest(self._level, rows)
        before = self.dropped
        own_row = self.own_row()
        own = "" if own_row is None else own_row.unit  # nobody else knows better
        others = [row for row in rows.values() if row.unit != own]
        presences = [self._differs_in_presence(row) for row in others]
        profiles = [self._differs_in_profile(row) for row in others]
        if self.dropped > before:
            scope = self._context.scopes[self._level]
            self._step.report("warning", "copies replaced", scope=scope, copies=self.dropped - before)
        if any(presences) or any(profiles) or self.dropped > before:
            self._anti_entropy.ask_all(self._level)

    def _differs_in_presence(self, row: ManifestRow) -> bool:
        """Hold what we know of where a member is against its row; return whether one of them is older."""
        known = self._graph.members[self._level].get(row.unit)
        if known is None or not known.is_credible:
            return True
        if known.digest == row.presence:
            if known.version < row.presence_version:
                self._gateways.correct_version(self._level, row.unit, row.presence_version)
            return False
        if known.stamp != (row.presence_version, row.speaker):
            return True
        self._drop(row.unit, self._gateways.discard)
        return False

    def _differs_in_profile(self, row: ManifestRow) -> bool:
        """Hold what we know of what a member wants against its row; return whether one of them is older."""
        known = self._profiles.members[self._level].get(row.unit)
        if known is None or not known.is_told:
            if known is not None and not row.profile_version:
                known.predicates = row.predicates
                if known.wants:  # nobody has told them
                    self._drop(row.unit, partial(self._profiles.discard, self._level))
            return row.profile_version > 0
        stamp = (row.profile_version, row.profile_maker)
        if known.digest == row.profile:
            # A newer stamp beside equal contents may be right: its owner has wanted more since, and wants it no longer.
            # What it says next builds on that stamp. The count is no content: with a stamp that damage made, nobody
            # would ever correct it.
            known.stamp = max(known.stamp, stamp)
            known.predicates = row.predicates
            return False
        if known.stamp != stamp:
            return True
        self._drop(row.unit, partial(self._profiles.discard, self._level))
        return False

    def _drop(self, unit: str, discard: Callable[[str], None]) -> None:
        """Forget a copy that has its owner's stamp and says something else."""
        self.dropped += 1
        discard(unit)


class Colouring:
    """The colours of all scopes around one broker, by level."""

    def __init__(
        self,
        settings: Mapping[str, ColourSettings],
        gateways: Gateways,
        choices: ExitChoices,
        profiles: Profiles,
        feed: ProfileFeed,
        index: InterestIndex,
        relay: Relay[Outbox],
        anti_entropy: AntiEntropy,
        neighbours: Neighbours,
        address: str,
        dial: Callable[[str], None],
        links: PlannedLinks,
        policies: ScopePolicies,
        step: Step,
    ) -> None:
        """`address` is where this broker listens, and `dial` opens a link to somebody else's."""
        context = gateways.context
        self._scopes = context.scopes
        self._neighbours = neighbours
        self._gateways = gateways
        self._relay = relay
        self._policies = policies
        self.members = [ScopeMembers(level, gateways, profiles, anti_entropy, step) for level in range(context.depth)]
        self._work = [
            ScopePlanWork(level, gateways.graph, choices, relay, links, is_by_tree=policies.goes_by_tree(scope))
            for level, scope in enumerate(context.scopes)
        ]
        self.scopes = [
            _colours_of(
                ScopeSurroundings(scope, level, address, neighbours, self._is_going, dial, step),
                context.name,
                settings,
                self.members[level],
                self._work[level],
            )
            for level, scope in enumerate(context.scopes)
        ]
        self._feed = feed
        self.audit = ProfileAudit(profiles, index)
        self._round = 0  # for which ways were last worked out anew
        self._heard_of: tuple[int, ...] = ()  # generations of plans for which a place in the trees was sought
        self.repaired = 0  # how often ways, or what our clients want, were wrong when they were worked out anew

    def link_up(self, name: str) -> None:
        for colours in self._shared(name):
            colours.link_up(name)

    def link_down(self, name: str, level: int) -> None:
        """A neighbour of this level is gone."""
        for colours in self.scopes[level:]:
            colours.link_down(name)

    def hear(self, name: str, message: WaveMessage) -> None:
        level = self._scopes.index(message.scope) if message.scope in self._scopes else -1
        if level < self._neighbours[name].level:
            raise FrameError(Refusal.PROTOCOL, f"{message.scope!r} is no scope that we share")
        self.scopes[level].hear(name, message)

    def beat(self) -> None:
        for colours in self.scopes:
            colours.beat()

    def on_due(self, due: WaveDue) -> None:
        self.scopes[due.level].on_due()

    def end_step(self) -> None:
        """With each round of the innermost scope in which we are not alone, work out anew whatever follows from what is
        known of all scopes. With each plan, see whether it takes the link to a parent away, of whatever scope's tree.
        """
        plans = tuple(work.generation for work in self._work)
        if self._heard_of != plans:
            self._heard_of = plans
            for each in self.scopes:
                each.seek_place()
        level = min((neighbour.level for neighbour in self._neighbours.values()), default=0)
        colours = self.scopes[level]
        if self._round != colours.tree.round:
            self._round = colours.tree.round
            if self._neighbours:
                self.repaired += self._feed.renew()
            self.audit.run(colours.timing.audit_rounds)
            self.repaired += self._gateways.rebuild()
            self._relay.forget_plans()

    def of_scope(self, scope: str) -> ScopeColours | None:
        """Return the colours of a scope around us."""
        return self.scopes[self._scopes.index(scope)] if scope in self._scopes else None

    def recall_plan(self, scope: str, plan: TopologyPlan) -> None:
        """A plan was under way when this broker was stopped: waves tell what has become of it."""
        self.scopes[self._scopes.index(scope)].announced.recalled = plan

    def recall_roots(self, scope: str, roots: tuple[str, ...]) -> None:
        """A plan of a former life has changed the root group of a scope."""
        self._work[self._scopes.index(scope)].root_group = roots

    def on_plan_written(self, scope: str, number: int, failure: str = "") -> None:
        """A plan is on our disk; with a reason, it could not be written."""
        self._work[self._scopes.index(scope)].on_written(number, failure)

    def _is_going(self, neighbour: str) -> bool:
        """Return whether a plan that is under way takes our link to a neighbour away."""
        return any(topology is not None and topology.hides(neighbour, Side.AFTER) for topology in self.planned)

    def removes(self, neighbour: str) -> bool:
        """Return whether a plan that is in force takes our link to a neighbour away."""
        in_force = [each for level, each in enumerate(self.planned) if each is not None and self.holds(level)]
        return any(topology.hides(neighbour, Side.AFTER) for topology in (*in_force, *self.finished))

    def hand_over(self) -> str:
        """Let others be the roots of all scopes; return why not, "" if they are."""
        return next(filter(None, [colours.hand_over() for colours in self.scopes]), "")

    # ---- what colours mean

    @property
    def generations(self) -> tuple[int, ...]:
        """Numbers that change whenever colours mean something else, or others are current."""
        rounds = [colours.tree.round for colours in self.scopes]
        return (*rounds, *(work.generation for work in self._work))

    @property
    def current(self) -> tuple[int, ...]:
        """The colour of each level that events get here, the lowest level first."""
        return tuple(current_colour(colours.tree.round) for colours in self.scopes)

    @property
    def sides(self) -> tuple[Sides, ...]:
        """By which side of a plan parcels of each level and colour are routed."""
        return tuple(
            tuple(colours.announced.side(Colour(colour), colours.tree.round) for colour in range(COLOURS))
            for colours in self.scopes
        )

    @property
    def planned(self) -> list[PlannedTopology | None]:
        """What the plan of each level changes; None without one."""
        return [work.topology for work in self._work]

    @property
    def finished(self) -> list[PlannedTopology]:
        """What plans of all levels have changed that some may not know of yet."""
        return [topology for work in self._work for topology in work.finished]

    def holds(self, level: int) -> bool:
        """Return whether events wait until the topology before a plan of a level has drained."""
        return self.scopes[level].announced.stage is PlanStage.SWITCHED

    # ---- for those who ask

    def views(self) -> dict[str, ColourView]:
        """Return what is to be told of each scope, the smallest first."""
        return {
            colours.scope: ColourView(
                tree=colours.tree.view(),
                brokers=colours.wave.brokers,
                bound=colours.timing.bound(),
                roots=colours.roots,
                faults=colours.faults,
                refused=colours.wave.refused,
                unanswered=colours.wave.unanswered,
                rejoined=colours.rejoining.rejoined,
                replaced=members.dropped,
                detours=self._detours(level),
                stage=colours.announced.stage.value if colours.announced.is_open else "",
                plans=colours.planning.views(),
            )
            for level, (colours, members) in enumerate(zip(self.scopes, self.members, strict=True))
        }

    def _detours(self, level: int) -> int:
        """Return how many members of a scope whose events go by its tree are reached by other links."""
        state = self._relay.states[level]
        if not self._policies.goes_by_tree(state.scope):
            return 0
        return sum(distance[-1 - level] >= DETOUR_COST for distance in state.costs.values())

    @property
    def repairs(self) -> int:
        """How often ways or profiles were wrong, of all scopes together: they are worked out together."""
        return self.repaired + self.audit.repaired

    def _shared(self, name: str) -> list[ScopeColours]:
        return self.scopes[self._neighbours[name].level :]

    def validate(self) -> None:
        for colours in self.scopes:
            colours.tree.validate()
            colours.lease.validate()
            colours.announced.validate()


def _colours_of(
    around: ScopeSurroundings,
    name: str,
    settings: Mapping[str, ColourSettings],
    members: ScopeMembers,
    work: ScopePlanWork,
) -> ScopeColours:
    chosen = settings.get(around.scope, ColourSettings())
    return ScopeColours(around, name, chosen.roots, timing_of(chosen), members, work)
