"""How a repository ends in good order."""

from stentor.machine import Effect, Input


class Conclude(Input, frozen=True, gc=False, tag="conclude"):
    """Somebody is about to stop this repository: it tells its last traces, and does nothing else any more."""


class Concluded(Effect, frozen=True, gc=False, tag="concluded"):
    """Its last traces are kept, as far as it can see to that."""
