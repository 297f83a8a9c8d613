"""Access facts among brokers in memory: what is learnt, when it is confirmed, what survives, and how little is said."""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from tests.unit.protocols.message_ports import KeepingPort

from stentor.machine import Append, Report, Rewrite, Step
from stentor.model.errors import FrameError
from stentor.model.messages import Digest, Message
from stentor.model.trust.access import Grant, Membership, SharedFact, TopicTerms
from stentor.model.trust.access_messages import AccessFacts, AccessReceipt
from stentor.protocols.dissemination.access import access_log, waves
from stentor.protocols.dissemination.access.spread import AccessSpread
from stentor.protocols.neighbours import Neighbour, Neighbours
from stentor.wire import frame

TERMS: SharedFact = ("topic", 1, "r1", msgspec.msgpack.encode(TopicTerms("olga")))
MEMBER: SharedFact = ("member/r1", 1, "r1", msgspec.msgpack.encode(Membership(principal="node-1")))


def grant(name: str, version: int = 2, holder: str = "") -> SharedFact:
    return f"grant/subscriber/{name}", version, "r1", msgspec.msgpack.encode(Grant(holder))


class Site:
    """A broker's part in it, with a disk that writes when it is let."""

    def __init__(self, fleet: "Fleet", name: str, records: list[bytes]) -> None:
        self.fleet, self.name = fleet, name
        self.records = records  # the disk
        self.writing: Append | Rewrite | None = None
        self.is_slow = False  # its disk waits until it is told to write
        self.reports: list[Report] = []
        self.changed: list[str] = []
        self.confirmed: list[int] = []  # tokens of what a repository told
        self.compared: list[str] = []
        self.repository = KeepingPort("repository", self._confirm)
        self.step = Step()
        self.neighbours = Neighbours()
        self.spread = AccessSpread(name, self.neighbours, self.step, self.changed.append)
        self.spread.recall(records)
        self.spread.begin(1)

    def _confirm(self, _: str, receipt: Message) -> None:
        assert isinstance(receipt, AccessReceipt)
        self.confirmed.append(receipt.token)

    def link_up(self, far: str) -> None:
        self.neighbours[far] = Neighbour(far, 0, far, 1000, KeepingPort(far, self._say))
        self.spread.link_up(far)

    def link_down(self, far: str) -> None:
        del self.neighbours[far]
        self.spread.link_down(far)

    def hear(self, near: str, message: Message) -> None:
        if self.spread.hear(near, message):
            self.compared.append(near)

    def _say(self, to: str, message: Message) -> None:
        assert len(frame.encode(message)) < 128 << 10, "it fits into every node's frames"
        self.fleet.said[type(message).__name__] += 1
        self.fleet.under_way[self.name, to].append(message)

    def _end_step(self) -> None:
        self.spread.end_step()
        for effect in self.step.end():
            if isinstance(effect, Report):
                self.reports.append(effect)
            else:
                assert isinstance(effect, Append | Rewrite)
                assert self.writing is None, "one write at a time"
                self.writing = effect

    def do(self, action: Callable[[], Any]) -> None:
        action()
        self._end_step()
        if not self.is_slow:
            self.write()

    def tell(self, topic: str, *facts: SharedFact, token: int = 0) -> None:
        self.do(lambda: self.spread.tell(self.repository, AccessFacts(topic=topic, facts=facts, token=token)))

    def write(self) -> None:
        """The disk does what it was asked for, and what that leads to."""
        while self.writing is not None:
            effect, self.writing = self.writing, None
            kept = [] if isinstance(effect, Rewrite) else self.records
            self.records[:] = [*kept, *effect.records]
            self.spread.appended()
            self._end_step()

    def fail(self) -> None:
        assert self.writing is not None
        self.writing = None
        self.do(lambda: self.spread.append_failed("no space"))

    @property
    def known(self) -> dict[str, list[SharedFact]]:
        return {topic: sorted(self.spread.charters.facts_of(topic)) for topic in sorted(self.spread.charters)}


class Fleet:
    """Brokers and the links between them; messages on a link keep their order, others do not."""

    def __init__(self, *links: str, seed: int = 1) -> None:
        self.random = Random(seed)
        self.said: Counter[str] = Counter()
        self.under_way: dict[tuple[str, str], deque[Message]] = {}
        self.sites: dict[str, Site] = {}
        self.disks: dict[str, list[bytes]] = {}
        for name in sorted({name for link in links for name in link}):
            self.start(name)
        for link in links:
            self.connect(*link)
        self.run()

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    def start(self, name: str) -> Site:
        site = self.sites[name] = Site(self, name, self.disks.setdefault(name, []))
        site.do(lambda: None)
        return site

    def connect(self, one: str, other: str) -> None:
        for near, far in ((one, other), (other, one)):
            self.under_way[near, far] = deque()
        for near, far in ((one, other), (other, one)):
            self[near].do(lambda near=near, far=far: self[near].link_up(far))  # type: ignore[misc]

    def cut(self, one: str, other: str) -> None:
        for near, far in ((one, other), (other, one)):
            del self.under_way[near, far]
        for near, far in ((one, other), (other, one)):
            if near in self.sites:
                self[near].do(lambda near=near, far=far: self[near].link_down(far))  # type: ignore[misc]

    def crash(self, name: str) -> None:
        del self.sites[name]
        for near, far in list(self.under_way):
            if near == name:
                self.cut(near, far)

    def beat(self) -> None:
        for near, far in list(self.under_way):
            self.said["Digest"] += 1
            self.under_way[near, far].append(Digest({}, self[near].spread.digest))
        for site in self.sites.values():
            site.do(site.spread.beat)
        self.run()

    def step(self) -> bool:
        waiting = [link for link, messages in self.under_way.items() if messages]
        if not waiting:
            return False
        near, far = self.random.choice(waiting)
        message = self.under_way[near, far].popleft()
        site = self[far]
        if isinstance(message, Digest):
            site.do(lambda: site.spread.compare(near, message.access))
        else:
            site.do(lambda: site.hear(near, message))
        return True

    def run(self) -> None:
        steps = 0
        while self.step():
            steps += 1
            assert steps < 100_000, "they never come to rest"

    @property
    def is_agreed(self) -> bool:
        """Whether all know the same, and have written it down."""
        sites = list(self.sites.values())
        return all(site.known == sites[0].known == stored(site.records) for site in sites) and (
            len({site.spread.digest for site in sites}) == 1
        )


def stored(records: list[bytes]) -> dict[str, list[SharedFact]]:
    """What somebody would know who starts with this on the disk."""
    spread = AccessSpread("reader", Neighbours(), Step(), lambda _: None)
    spread.recall(records)
    return {topic: sorted(spread.charters.facts_of(topic)) for topic in sorted(spread.charters)}


# ---- spreading


def test_what_one_learns_all_know_and_write_down() -> None:
    fleet = Fleet("ab", "bc", "cd")
    fleet["b"].tell("orders", TERMS, MEMBER)
    fleet.run()
    assert fleet.is_agreed
    assert all(site.changed == ["orders"] for site in fleet.sites.values())
    assert (charter := fleet["d"].spread.charters.of("orders")) is not None
    assert charter.members == {"r1": "node-1"}


def test_what_is_no_news_is_not_passed_on() -> None:
    fleet = Fleet("ab", "bc")
    fleet["a"].tell("orders", TERMS, MEMBER)
    fleet.run()
    fleet.said.clear()
    fleet["a"].tell("orders", TERMS, MEMBER)
    fleet.run()
    assert not fleet.said


def test_in_a_ring_everything_is_told_once_per_link_or_twice() -> None:
    fleet = Fleet("ab", "bc", "ca")
    fleet.said.clear()
    fleet["a"].tell("orders", TERMS, MEMBER)
    fleet.run()
    assert fleet.is_agreed
    assert fleet.said["AccessFacts"] <= 4


def test_a_new_link_tells_both_ends_what_they_lack() -> None:
    fleet = Fleet("ab", "cd")
    fleet["a"].tell("orders", TERMS, MEMBER, grant("alice", 3, "alice"))
    fleet["d"].tell("orders", TERMS, MEMBER, grant("bob"), grant("alice", 2))
    fleet["d"].tell("other", TERMS)
    fleet["a"].tell("same", TERMS)
    fleet["d"].tell("same", TERMS)
    fleet.run()
    fleet.said.clear()
    fleet.connect("b", "c")
    fleet.run()
    assert fleet.is_agreed
    assert sorted(fleet["a"].known) == ["orders", "other", "same"]
    assert fleet.said["AccessInventory"] == 2


def test_a_broker_that_was_away_hears_of_a_deletion() -> None:
    fleet = Fleet("ab", "bc")
    fleet["a"].tell("orders", TERMS, MEMBER)
    fleet.run()
    fleet.crash("c")
    fleet["a"].tell("orders", ("topic", 2, "r1", b""))
    fleet.run()
    fleet.start("c")
    assert fleet["c"].spread.charters.of("orders") is not None
    fleet.connect("b", "c")
    fleet.run()
    assert fleet.is_agreed
    assert fleet["c"].spread.charters.of("orders") is None


@pytest.mark.parametrize("number_of_grants", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_topic_with_many_grants_reaches_a_newcomer_in_frames_that_fit_without_a_flood(number_of_grants: int) -> None:
    fleet = Fleet("ab")
    grants = [grant(f"subscriber-{number}") for number in range(number_of_grants)]
    for start in range(0, len(grants), 2000):
        fleet["a"].tell("orders", TERMS, MEMBER, *grants[start : start + 2000])
    fleet.run()
    fleet.start("c")
    fleet.connect("b", "c")
    most = 0
    while fleet.step():
        most = max(most, len(fleet.under_way["b", "c"]))
    assert fleet.is_agreed
    assert most < 10
    assert fleet["c"].compared == ["b"]


def test_a_difference_that_stays_is_found_out_by_digests_and_one_that_passes_is_not_asked_about() -> None:
    fleet = Fleet("ab")
    fleet["a"].tell("orders", TERMS)
    fleet.under_way["a", "b"].clear()  # a fault of ours
    fleet["a"].spread._transfers["b"]._under_way.clear()
    fleet.said.clear()
    fleet.beat()
    assert fleet.said["AccessInventory"] == 0
    fleet.beat()
    assert fleet.said["AccessInventory"] == 2
    assert fleet.is_agreed
    fleet.said.clear()
    fleet.beat()
    fleet.beat()
    assert set(fleet.said) == {"Digest"}


def test_facts_that_cannot_be_are_refused_and_change_nothing() -> None:
    fleet = Fleet("ab")
    with pytest.raises(FrameError):
        fleet["b"].spread.hear("a", AccessFacts(topic="orders", facts=(TERMS, ("member/\0", 1, "r1", b"")), token=1))
    assert fleet["b"].known == {}


# ---- receipts


def test_a_receipt_is_given_when_all_disks_have_it() -> None:
    fleet = Fleet("ab", "bc")
    for site in fleet.sites.values():
        site.is_slow = True
    fleet["a"].tell("orders", TERMS, MEMBER, token=7)
    fleet.run()
    for name in "cab":
        assert fleet["a"].confirmed == []
        assert fleet[name].writing is not None
        fleet[name].write()
        fleet.run()
    assert fleet["a"].confirmed == [7]
    assert all(site.spread.waves == 0 for site in fleet.sites.values())


def test_a_broker_alone_gives_a_receipt_when_its_disk_has_it() -> None:
    fleet = Fleet()
    site = fleet.start("a")
    site.is_slow = True
    site.tell("orders", TERMS, token=1)
    site.tell("orders", TERMS, token=2)
    assert site.confirmed == []
    site.write()
    assert site.confirmed == [1, 2]


def test_who_tells_the_same_elsewhere_meanwhile_waits_for_all_too() -> None:
    fleet = Fleet("ab", "bc")
    fleet["c"].is_slow = True
    fleet["a"].tell("orders", TERMS, MEMBER, token=1)
    fleet.run()
    fleet["b"].tell("orders", TERMS, MEMBER, token=1)
    fleet.run()
    assert (fleet["a"].confirmed, fleet["b"].confirmed) == ([], [])
    fleet["c"].write()
    fleet.run()
    assert (fleet["a"].confirmed, fleet["b"].confirmed) == ([1], [1])


def test_a_wave_that_lost_a_link_is_begun_again_and_leaves_nobody_out() -> None:
    fleet = Fleet("ap", "pv", "av", "vz")
    fleet["z"].is_slow = True
    fleet["a"].tell("orders", TERMS, MEMBER, token=1)
    for near, far in (("a", "p"), ("p", "v"), ("a", "v"), ("v", "a"), ("v", "z")):  # v has it from p, not from a
        while fleet.under_way[near, far]:
            message = fleet.under_way[near, far].popleft()
            fleet[far].do(lambda far=far, near=near, message=message: fleet[far].spread.hear(near, message))  # type: ignore[misc]
    fleet.cut("p", "v")
    fleet.run()
    assert fleet["a"].confirmed == [], "z can be reached and has written nothing"
    fleet["z"].write()
    fleet.run()
    assert fleet["a"].confirmed == [1]


def test_a_question_that_a_damaged_stream_repeats_is_answered_once_and_not_too_early() -> None:
    fleet = Fleet("ab", "bc")
    fleet["c"].is_slow = True
    fleet["a"].tell("orders", TERMS, MEMBER, token=1)
    question = fleet.under_way["a", "b"][0]
    fleet.under_way["a", "b"].append(question)
    fleet.run()
    assert fleet["a"].confirmed == []
    fleet["c"].write()
    fleet.run()
    assert fleet["a"].confirmed == [1]


def test_who_cannot_be_reached_any_more_is_not_waited_for() -> None:
    fleet = Fleet("ab", "bc")
    fleet["c"].is_slow = True
    fleet["a"].tell("orders", TERMS, MEMBER, token=1)
    fleet.run()
    fleet.crash("c")
    fleet.run()
    assert fleet["a"].confirmed == [1]
    fleet.start("c")
    fleet.connect("b", "c")
    fleet.run()
    assert fleet.is_agreed


def test_a_repository_that_is_gone_leaves_nothing_behind() -> None:
    fleet = Fleet("ab")
    fleet["b"].is_slow = True
    fleet["a"].tell("orders", TERMS, token=1)
    fleet["a"].spread.forget(fleet["a"].repository)
    fleet.run()
    fleet.cut("a", "b")
    assert fleet["a"].confirmed == []
    assert fleet["a"].spread.waves == 0


def test_more_than_the_most_waves_are_spread_without_a_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waves, "MOST_WAVES", 2)
    fleet = Fleet("ab")
    fleet["b"].is_slow = True
    given = [
        fleet["a"].spread.tell(fleet["a"].repository, AccessFacts(topic=f"t{number}", facts=(TERMS,), token=number))
        for number in (1, 2, 3)
    ]
    assert given == [True, True, False]
    fleet["a"].do(lambda: None)
    fleet.run()
    fleet["b"].write()
    fleet.run()
    assert fleet["a"].confirmed == [1, 2]
    assert fleet.is_agreed


def test_facts_too_many_for_a_frame_are_confirmed_when_all_of_them_are() -> None:
    fleet = Fleet("ab")
    fleet["b"].is_slow = True
    fleet["a"].tell("orders", TERMS, *(grant(f"subscriber-{number}") for number in range(5000)), token=1)
    fleet.run()
    assert fleet["a"].confirmed == []
    fleet["b"].write()
    fleet.run()
    assert fleet["a"].confirmed == [1]
    assert fleet.is_agreed


# ---- the disk


def test_what_was_confirmed_is_there_after_a_crash_of_all() -> None:
    fleet = Fleet("ab")
    fleet["a"].tell("orders", TERMS, MEMBER, token=1)
    fleet.run()
    for name in "ab":
        fleet.crash(name)
        assert fleet.start(name).known == {"orders": sorted([TERMS, MEMBER])}


def test_a_write_that_failed_is_made_good_with_the_next_one_and_the_receipt_waits_for_it() -> None:
    fleet = Fleet()
    site = fleet.start("a")
    site.is_slow = True
    site.tell("orders", TERMS, token=1)
    site.fail()
    assert [report.what for report in site.reports] == ["cannot write access facts"]
    assert site.spread.charters.of("orders") is not None, "it holds nevertheless"
    assert site.writing is None, "not again and again"
    site.tell("other", TERMS, token=2)
    site.fail()
    site.do(site.spread.beat)
    assert site.confirmed == []
    site.write()
    assert site.confirmed == [1, 2]
    assert sorted(stored(site.records)) == ["orders", "other"]
    assert [report.what for report in site.reports] == ["cannot write access facts", "access facts are written again"]


def test_news_during_a_write_make_the_next_one_a_group() -> None:
    fleet = Fleet()
    site = fleet.start("a")
    site.is_slow = True
    for number in range(10):
        site.tell(f"t{number}", TERMS)
    site.write()
    assert len(site.records) == 2
    assert len(stored(site.records)) == 10


def test_a_log_that_mostly_holds_what_was_is_rewritten_at_the_next_start() -> None:
    fleet = Fleet()
    site = fleet.start("a")
    for version in range(1, 9):
        site.tell("orders", ("topic", version, "r1", TERMS[3]))
    assert len(site.records) == 8
    fleet.crash("a")
    site = fleet.start("a")
    assert len(site.records) == 1
    assert site.known == {"orders": [("topic", 8, "r1", TERMS[3])]}
    fleet.crash("a")
    assert fleet.start("a").records == site.records


def test_a_log_does_not_grow_without_end_while_a_broker_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "_SLACK", 20)
    fleet = Fleet()
    site = fleet.start("a")
    for version in range(1, 200):
        site.tell("orders", TERMS, grant("alice", version))
        assert len(site.records) <= 30
    assert stored(site.records) == site.known


def test_a_record_that_nobody_understands_is_reported_and_hides_nothing_else() -> None:
    fleet = Fleet()
    site = fleet.start("a")
    site.tell("orders", TERMS)
    fleet.crash("a")
    fleet.disks["a"][:0] = [b"\xc1", msgspec.msgpack.encode([("a/#", [TERMS])])]
    site = fleet.start("a")
    assert list(site.known) == ["orders"]
    assert [report.what for report in site.reports] == 2 * ["access facts not understood"]


# ---- getting acquainted


def test_a_neighbour_says_when_it_has_told_all_that_the_other_lacked() -> None:
    fleet = Fleet("ab")
    assert (fleet["a"].compared, fleet["b"].compared) == (["b"], ["a"])
    fleet["a"].tell("orders", TERMS)
    fleet.run()
    site = fleet.start("c")
    site.is_slow = True
    fleet.connect("b", "c")
    fleet.run()
    assert site.compared == [], "it has not written it down"
    site.write()
    fleet.run()
    assert site.compared == ["b"]
