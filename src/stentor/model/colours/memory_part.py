"""Which parts of a broker's memory can be damaged on purpose, to see the network heal itself."""

import enum
from collections.abc import Iterable

from stentor.model.errors import InvalidInput
from stentor.model.wording.suggestion import suggestion

ALL = "all"  # stands for every part, where people name parts
LAST_SEED = 2**32 - 1


class MemoryPart(enum.StrEnum):
    """A part of what a broker remembers."""

    ROUNDS = "rounds"  # of scopes: round, depth, root, answers
    POINTERS = "pointers"  # parents and children in the trees of scopes, and what it is there
    MEMBERS = "members"  # presences and manifests: who is in a scope, with which number and links
    ROUTES = "routes"  # ways, and what was worked out from them
    PROFILES = "profiles"  # what members want, and the index of it
    SUBSCRIPTIONS = "subscriptions"  # what its own clients asked for
    INDEXES = "indexes"  # of patterns and filters: by which it finds who wants an event, here and elsewhere
    PLANS = "plans"  # that change links: how far they are, and which events wait for them
    QUEUES = "queues"  # what waits for other brokers, and how many bytes went to them and came from them
    CREDIT = "credit"  # how many bytes of events it may send to other brokers, and they to it
    LINKS = "links"  # who is at the other end of each, who holds which name, and which ones it opens
    TIMERS = "timers"  # when something is due


def parse_damage(words: Iterable[str]) -> tuple[MemoryPart, ...]:
    """Return the parts that some words name, each once and in a fixed order; InvalidInput if a word names none."""
    named = set(words)
    known = {str(part): part for part in MemoryPart}
    for word in sorted(named - known.keys() - {ALL}):
        raise InvalidInput(f"a broker's memory has no part {word!r}{suggestion(word, [*known, ALL])}")
    if not named:
        raise InvalidInput(f"no part of a broker's memory is named; known are {', '.join([*known, ALL])}")
    return tuple(part for part in MemoryPart if ALL in named or part in named)


def check_seed(seed: int) -> None:
    if not 0 <= seed <= LAST_SEED:
        raise InvalidInput(f"a seed of {seed}: expected 0 to {LAST_SEED}")
