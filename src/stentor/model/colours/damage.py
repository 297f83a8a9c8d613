"""Which parts of a broker's memory can be damaged on purpose, to see the network heal itself."""

import enum


class Damage(enum.StrEnum):
    """A part of what a broker remembers."""

    ROUNDS = "rounds"  # of scopes: round, depth, root, answers
    POINTERS = "pointers"  # parents and children in the trees of scopes, and what it is there
    MEMBERS = "members"  # presences and manifests: who is in a scope, with which number and links
    ROUTES = "routes"  # ways, and what was worked out from them
    PROFILES = "profiles"  # what members want, and the index of it
    TIMERS = "timers"  # when something is due
