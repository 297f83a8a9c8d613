"""Routing states as tests need them: who is behind which neighbour, without a graph."""

from collections.abc import Mapping, Sequence

from stentor.model.context import Context
from stentor.model.routing_state import RoutingState
from stentor.protocols.dissemination.member_interests import InterestIndex


def states_of(
    context: Context, interests: InterestIndex, own: Sequence[int], reach: Mapping[str, Mapping[int, int]]
) -> list[RoutingState[InterestIndex]]:
    """Return a state for each level; `reach` are the masks of levels that go by each neighbour."""
    states = []
    for level, scope in enumerate(context.scopes):
        next_hops = {name: masks[level] for name, masks in reach.items() if level in masks}
        members = sum(next_hops.values())
        states.append(
            RoutingState(scope=scope, interests=interests, own=own[level], next_hops=next_hops, members=members)
        )
    return states
