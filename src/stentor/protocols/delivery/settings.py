"""How a repository behaves towards clients and other repositories, and a subscriber towards its repository."""

import msgspec

from stentor.machine import MILLISECOND, SECOND
from stentor.model.mail import MAIL
from stentor.protocols.delivery.steering_settings import SteeringSettings


class RepositorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in nanoseconds."""

    name: str
    unit: str = ""  # that it serves; "" is everyone
    lake: bool = False  # what is forgotten may be in a lake
    mail: str = MAIL  # the topic whose subscribers are those to whom its events are sent
    window: int = 8192  # events that a subscriber is told of before it acknowledges some
    tail: int = 64 << 20  # bytes of the newest events in memory, of all topics together
    interval: int = 500 * MILLISECOND  # between states that repositories tell each other
    suspicion: int = 2 * SECOND  # of silence, after which another repository does not count
    patience: int = 30 * MILLISECOND  # before what is missing is asked for
    again: int = 250 * MILLISECOND  # before it is asked for again
    degrade: int = 10 * SECOND  # of silence, after which fewer copies than asked for are enough
    grace: int = 5 * SECOND  # that a repository gives others to speak before it goes on without them
    absence: int = 30 * SECOND  # the same, if they may have gone on without it
    void_after: int = 30 * SECOND  # of a publisher's silence, after which its gaps are closed: others wait behind them
    void_anew: int = 2 * SECOND  # … if it came back anew, and has forgotten what is missing
    collect_every: int = 5 * SECOND  # between looks at what may be forgotten
    age_unit: int = SECOND  # in which topics say how long events are kept; simulations have no time for seconds
    close_after: int = 60 * SECOND  # that nothing was heard of an older life of a publisher before it is closed
    sleep_after: int = 10 * SECOND  # of rest, after which a topic is closed to its ledger; 0 is never
    rectify_after: int = SECOND  # of silence, after which a subscriber is told again
    unsaved: int = 64 << 20  # bytes that may wait for a disk that takes nothing
    accepts: tuple[str, ...] = ()  # patterns of the topics that it is willing to manage; none is all
    topics: int = 1_000  # that it manages
    topics_per_owner: int = 200  # … of one owner, unless that is whoever runs it
    most_bytes: int = 0  # on the disk, with which it is still willing to manage more topics; 0 is any number
    ledgers: int = 1 << 30  # that its process can have open at once


class SubscriberSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much a subscriber holds, and how long it waits; sizes in bytes, times in nanoseconds."""

    buffer: int = 16 << 20  # of events that are not known to be stored, or wait for their turn
    batch: int = 1 << 20  # of events that are ready, and given out at once
    chain: int = 65_536  # stretches that wait
    missing: int = 50 * MILLISECOND  # until an event is asked for that does not come by itself
    asked_events: int = 1024  # that are asked for at once
    asked: int = 1 << 20
    ack_events: int = 256  # that are acknowledged together
    ack_after: int = 100 * MILLISECOND
    first_pause: int = 300 * MILLISECOND  # until an acknowledgement or a request is repeated
    longest_pause: int = 5 * SECOND
    doubt: int = 250 * MILLISECOND  # events without news of them, until the repository is asked
    patience: int = 2 * SECOND  # the same, while the application has events that it has not acknowledged
    strange: int = 10 * SECOND  # until events are dropped of which the repository knows nothing
    quiet: int = 10 * SECOND  # until the repository is asked although there is no reason
    longest_quiet: int = 60 * SECOND
    tries: int = 3  # until another repository is looked for
    steering: SteeringSettings = SteeringSettings()
