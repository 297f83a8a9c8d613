"""A delivery plan: what a seed makes of a run, before anything happens."""

from random import Random

import msgspec

from stentor.machine import MILLISECOND, SECOND
from stentor.simulation.delivery.letter_network import LetterFaults

FAULTS = (
    "kill",
    "power-cut",
    "cut-in-commit",
    "cut-in-step",
    "death",
    "author-crash",
    "reader-crash",
    "reader-end",
    "roam",
    "partition",
    "sync-error",
    "disk-full",
    "rot",
    "join",
    "leave",
    "revoke",
    "massacre",
)


NODES = ("north/hall/b1", "north/hall/b2", "north/b3", "south/b4", "south/b5")  # brokers, if there are units
_UNITS = ("north", "north", "south", "north/hall")  # for which there may be a repository
_FINER = ((), ("north",), ("north", "north"), ("north", "north"), ("north", "south"), ("north/hall", "north"))
_HELD = (("north", "south"), ("north", "north", "south"), ("north", "south", "north/hall"))


class DeliveryPlan(msgspec.Struct, frozen=True, kw_only=True):
    repositories: int  # that serve everyone
    copies: int
    publishers: int
    readers: int
    events: int  # of each publisher
    pause: int  # between a publisher's turns
    duration: int  # of the troubles
    keep: int  # in units of AGE_UNIT; 0 is for ever
    weather: LetterFaults
    strikes: tuple[tuple[int, str], ...]  # when what happens
    window: int
    tail: int
    slowness: int
    nodes: tuple[str, ...] = ()  # brokers in units, among which clients roam
    finer: tuple[str, ...] = ()  # units that have a repository of their own
    hold: bool = False  # events are held at the borders of top-level units
    resumes: bool = False  # publishers resume their streams
    reads_at_rest: bool = False  # somebody reads what is stored at rest
    nameless: bool = False  # the topic is older than members' principals: repositories write down their own
    strangers: bool = False  # somebody overhears all letters, and answers in the name of repositories
    clocks: bool = False  # publishers' clocks are set back between their lives
    newcomers: bool = False  # repositories join after something was forgotten, and hear late what others have
    expire: int = 0  # in units of AGE_UNIT; 0 is never
    wrong_clocks: bool = False  # of publishers and repositories
    mail: bool = False  # each event is for one reader, whether that came before or not
    former: bool = False  # the topic was deleted and created again while one of its repositories was away
    close_after: int = 60 * SECOND  # that a life of a publisher is over and forgotten before it is closed
    visits: bool = False  # nothing keeps repositories from knowing what subscribers were handed


def draw_plan(random: Random) -> DeliveryPlan:
    repositories = random.choices((1, 2, 3, 4), (25, 30, 35, 10))[0]
    large = random.random() < 0.03
    duration = random.randrange(600, 1800) * MILLISECOND * (4 if large else 1)
    return DeliveryPlan(
        repositories=repositories,
        copies=random.randint(1, min(3, repositories)),
        publishers=random.choices((1, 2, 3), (50, 35, 15))[0],
        readers=random.choices((1, 2, 3, 4), (35, 35, 20, 10))[0],
        events=random.randrange(4, 16) * (8 if large else 1),
        pause=random.choice((20, 60, 120)) * MILLISECOND,
        duration=duration,
        keep=random.choice((0, 0, 0, 1)),
        weather=draw_weather(random),
        strikes=draw_strikes(random, duration),
        window=random.choice((2, 8, 1000)),
        tail=random.choice((1, 1500, 1 << 20)),
        slowness=random.choice((2, 10, 80, 300)) * MILLISECOND,
    )


def draw_weather(random: Random) -> LetterFaults:
    if random.random() < 0.25:
        return LetterFaults()
    return LetterFaults(
        loss=random.choice((0.0, 0.02, 0.1, 0.2)),
        duplication=random.choice((0.0, 0.05)),
        slow=random.choice((1, 5, 20)) * MILLISECOND,
        late=random.choice((0.0, 0.0, 0.05)),
    )


def draw_strikes(random: Random, duration: int) -> tuple[tuple[int, str], ...]:
    """Many kinds at once, a few, or none."""
    share = random.choice((0.0, 0.1, 0.2, 0.4))
    found = [
        (random.randrange(duration), what)
        for what in FAULTS
        if random.random() < share
        for _ in range(random.choice((1, 1, 2, 3)) if what not in ("death", "rot", "join", "leave", "revoke") else 1)
    ]
    return tuple(sorted(found))


AGE_UNIT = 50 * MILLISECOND  # instead of a second, so that some events are forgotten in a run
LONGEST = 30 * SECOND  # that it may take until all is well
_MOST_EVENTS = 180  # of a publisher, in large worlds that last longer, too: more would take more steps than a run has


def _longer(plan: DeliveryPlan, times: int) -> int:
    """Return how many events of a publisher are enough for a world that lasts longer."""
    return min(times * plan.events, _MOST_EVENTS)


def draw_units(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """Some worlds have units, with repositories that serve one of them."""
    if random.random() >= 0.35:
        return plan
    hold = random.random() < 0.5
    finer = random.choice(_HELD if hold else _FINER)
    roams = [(random.randrange(plan.duration), "roam") for _ in range(random.randrange(5))]
    joins = [(random.randrange(plan.duration), "join")] * (random.random() < 0.4)
    return msgspec.structs.replace(
        plan, nodes=NODES, finer=finer, hold=hold, strikes=tuple(sorted((*plan.strikes, *roams, *joins)))
    )


def draw_visits(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """In a few worlds readers come and go and nothing else happens: what each life was handed can be known exactly."""
    if random.random() >= 0.1:
        return plan
    ends = [(random.randrange(plan.duration), "reader-end") for _ in range(random.randrange(2, 8))]
    return msgspec.structs.replace(plan, visits=True, weather=LetterFaults(), strikes=tuple(sorted(ends)))


def draw_resuming_publishers(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """In some worlds publishers go on with their numbers, and crash oftener."""
    if random.random() >= 0.25:
        return plan
    crashes = [(random.randrange(plan.duration), "author-crash") for _ in range(random.randrange(4))]
    return msgspec.structs.replace(plan, resumes=True, strikes=tuple(sorted((*plan.strikes, *crashes))))


def draw_rot(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """In some worlds stored events rot wherever they are, also where nobody else has them; some are found by a life
    that opens its ledger, some by one that reads.
    """
    if plan.visits or random.random() >= 0.2:
        return plan
    rots = [(random.randrange(plan.duration), "body-rot") for _ in range(random.randrange(1, 4))]
    kills = [(min(time + 1, plan.duration), "kill") for time, _ in rots if random.random() < 0.5]
    if random.random() < 0.5:
        plan = msgspec.structs.replace(plan, repositories=1, copies=1, finer=(), hold=False)
    return msgspec.structs.replace(plan, strikes=tuple(sorted((*plan.strikes, *rots, *kills))))


def draw_newcomers(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """In some worlds events are soon forgotten, publishers begin again, and then repositories join."""
    if random.random() >= 0.2:
        return plan
    duration = plan.duration + 1500 * MILLISECOND
    joins = [(random.randrange(duration // 3, duration), "join") for _ in range(random.randint(1, 3))]
    crashes = [(random.randrange(duration), "author-crash") for _ in range(random.randint(1, 3))]
    strikes = tuple(sorted((*plan.strikes, *joins, *crashes)))
    pause, events = 120 * MILLISECOND, _longer(plan, 3)  # so that something is published all the time
    return msgspec.structs.replace(
        plan, newcomers=True, keep=1, duration=duration, pause=pause, events=events, strikes=strikes
    )


def draw_lives(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """In some worlds a repository is away while publishers end, and comes back when they began again, or while events
    are acknowledged, and is the last one then; in some, clocks of publishers are set back.
    """
    plan = msgspec.structs.replace(plan, clocks=random.random() < 0.2)
    if random.random() >= 0.15:
        return plan
    at = random.randrange(200, 600) * MILLISECOND
    longer = random.choice((1500, 6500)) * MILLISECOND  # whoever is left alone goes on after some seconds
    what = random.choice(("outlive", "outlive", "forget"))
    strikes = sorted((*plan.strikes, (at, what)))
    return msgspec.structs.replace(
        plan,
        repositories=max(plan.repositories, 2 if what == "outlive" else 3),
        duration=plan.duration + longer,
        events=_longer(plan, 4),  # so that there is something to publish in several lives
        pause=100 * MILLISECOND,
        strikes=tuple(strikes),
    )


def draw_returns(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """Some repositories that are to leave are not to, after all."""
    leaves = [time for time, what in plan.strikes if what == "leave"]
    leaves += [random.randrange(plan.duration)] * (random.random() < 0.08)
    returns = [time + random.randrange(10, 400) * MILLISECOND for time in leaves if random.random() < 0.6]
    kept = [strike for strike in plan.strikes if strike[1] != "leave"]
    strikes = [*kept, *((time, "leave") for time in leaves), *((time, "return") for time in returns)]
    return msgspec.structs.replace(plan, strikes=tuple(sorted(strikes)))


def draw_rivals(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """In some worlds several processes believe that a name is theirs; half of the time not all can hear each other."""
    if random.random() >= 0.3:
        return plan
    strikes = []
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(plan.duration)
        strikes.append((at, random.choice(("rival-reader", "rival-reader", "rival-author"))))
        if random.random() < 0.5:
            strikes.append((at + random.randrange(100) * MILLISECOND, "partition"))
    strikes += [(random.randrange(plan.duration), "reader-leave")] * (random.random() < 0.3)
    return msgspec.structs.replace(plan, strikes=tuple(sorted((*plan.strikes, *strikes))))


def draw_departures(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """In some worlds readers end their subscriptions, and subscribe again."""
    if plan.visits or random.random() >= 0.15:
        return plan
    ways = ("reader-leave", "reader-leave", "leave-elsewhere")
    leaves = [(random.randrange(plan.duration), random.choice(ways)) for _ in range(random.randint(1, 3))]
    return msgspec.structs.replace(plan, strikes=tuple(sorted((*plan.strikes, *leaves))))


def draw_stored_readers(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    return msgspec.structs.replace(plan, reads_at_rest=random.random() < 0.3)


def draw_strangers(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    return msgspec.structs.replace(plan, strangers=random.random() < 0.3, nameless=random.random() < 0.1)


def draw_brief_lives(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """In some worlds publishers crash again and again, what they sent is soon forgotten, and so are their lives; some
    of it comes once more when nobody expects it.
    """
    if random.random() >= 0.25:
        return plan
    crashes = [(random.randrange(plan.duration), "author-crash") for _ in range(random.randrange(4, 16))]
    echoes = [(random.randrange(plan.duration), "echo") for _ in range(random.randrange(6))]
    return msgspec.structs.replace(
        plan,
        keep=1,
        close_after=random.choice((1, 100, 400)) * MILLISECOND,
        events=2 * plan.events,
        strikes=tuple(sorted((*plan.strikes, *crashes, *echoes))),
    )


def draw_ages(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """In some worlds events grow old, and clocks are wrong."""
    if plan.visits or random.random() >= 0.3:
        return plan
    keep, expire = random.choice((1, 2, 6)), random.choice((0, 0, 4, 10, 30))
    return msgspec.structs.replace(plan, keep=keep, expire=expire, wrong_clocks=random.random() < 0.6)


def draw_mail(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """In some worlds events are mail: nobody is registered, and readers come when there is something for them."""
    if plan.nodes or random.random() >= 0.15:
        return plan
    strikes = tuple(strike for strike in plan.strikes if strike[1] not in ("revoke", "reader-leave", "leave-elsewhere"))
    return msgspec.structs.replace(plan, mail=True, reads_at_rest=False, former=False, strikes=strikes)


def draw_former(random: Random, plan: DeliveryPlan) -> DeliveryPlan:
    """In a few worlds somebody has slept through the end of another topic of the same name, and letters have, too."""
    if plan.repositories < 2 or plan.resumes or plan.visits or plan.nameless or random.random() >= 0.15:
        return plan
    echoes = [(random.randrange(plan.duration), "echo") for _ in range(random.randrange(6))]
    return msgspec.structs.replace(plan, former=True, strikes=tuple(sorted((*plan.strikes, *echoes))))


def draw_unit(random: Random) -> str:
    """For whom a repository is that joins."""
    return random.choice(("", *_UNITS))
