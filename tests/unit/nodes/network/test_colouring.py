"""What a broker does with the copies that it holds of other members when a manifest comes."""

import msgspec
import pytest
from tests.unit.nodes.network.desk import HALL, ME, Desk

from stentor.model.colours.manifest import ManifestRow
from stentor.model.colours.wave_messages import Rotate
from stentor.model.errors import FrameError
from stentor.model.messages import LAST_CREDIBLE_VERSION, NEVER, Inventory, ProfileChange
from stentor.model.ranges import LAST_VERSION
from stentor.nodes.network.colouring import ScopeMembers
from stentor.wire.frame import decode

LEVEL = 1  # of clusters
UNIT = "north/hall"


def desk() -> Desk:
    """north/library/b1 knows the cluster north/hall, which wants two topics."""
    made = Desk()
    made.link(HALL, 1000)
    made.hear(HALL, UNIT, 7, "north/library")
    session = made.network.peers[HALL].session
    stamp = (5 << 20, HALL)
    entries = (("a", ""), ("b", "n > 1"))
    change = ProfileChange(unit=UNIT, before=(0, ""), stamp=stamp, added=entries, predicates=2)
    made.network.hear(session, change)
    made.states()
    return made


def members(made: Desk) -> ScopeMembers:
    return made.network.colouring.members[LEVEL]


def row(made: Desk, **more: object) -> ManifestRow:
    """What the owner of the cluster says of itself: just what is known here."""
    presence = made.network.gateways.graph.members[LEVEL][UNIT]
    profile = made.network.profiles.members[LEVEL][UNIT]
    same = ManifestRow(
        unit=UNIT,
        speaker=HALL,
        number=7,
        presence=presence.digest,
        presence_version=presence.version,
        profile=profile.digest,
        profile_version=profile.stamp[0],
        profile_maker=HALL,
        predicates=2,
    )
    return msgspec.structs.replace(same, **more)


def asked(made: Desk) -> int:
    """How often the neighbour was told what we know, and so asked for what we do not."""
    outbox = made.network.peers[HALL].session.connection.outbox
    return sum(isinstance(decode(bytes(frame)), Inventory) for frame in outbox.release() if frame[:7] != b"STENTOR")


@pytest.mark.req("CO-07")
def test_copies_that_say_what_their_owner_says_stay() -> None:
    made = desk()
    asked(made)
    members(made).compare({UNIT: row(made)})
    assert members(made).dropped == 0
    assert asked(made) == 0


@pytest.mark.req("CO-07")
def test_wants_of_a_member_that_has_never_told_any_are_dropped() -> None:
    made = desk()
    profile = made.network.profiles.members[LEVEL][UNIT]
    profile.stamp = NEVER
    members(made).compare({UNIT: row(made, profile=0, profile_version=0, profile_maker="", predicates=0)})
    assert (members(made).dropped, profile.wants, profile.predicates) == (1, {}, 0)
    profile.stamp, profile.wants = (6 << 20, HALL), {("c", ""): None}  # told since the manifest was made
    members(made).compare({UNIT: row(made, profile=0, profile_version=0, profile_maker="", predicates=0)})
    assert (members(made).dropped, list(profile.wants)) == (1, [("c", "")])


@pytest.mark.req("CO-07", "CO-17")
def test_a_presence_with_the_right_stamp_and_other_contents_is_dropped_and_asked_for() -> None:
    made = desk()
    right = row(made)
    known = made.network.gateways.graph.members[LEVEL]
    known[UNIT] = msgspec.structs.replace(known[UNIT], number=9)
    asked(made)
    members(made).compare({UNIT: right})
    assert UNIT not in known
    assert asked(made) == 1
    assert made.reports("copies replaced")[0].details == {"scope": "north", "copies": 1}


@pytest.mark.req("CO-07", "CO-17")
def test_a_profile_with_the_right_stamp_and_other_contents_is_dropped_and_its_index_with_it() -> None:
    made = desk()
    right = row(made)
    profile = made.network.profiles.members[LEVEL][UNIT]
    del profile.wants["a", ""]
    made.network.colouring.audit.run()  # counts the digest of what is there
    members(made).compare({UNIT: right})
    assert profile.wants == {}
    assert list(made.network._forwarder.table.interests.counts()) == []


@pytest.mark.req("CO-07")
def test_a_copy_with_the_owner_s_stamp_and_other_contents_is_not_taken_from_a_neighbour() -> None:
    made = desk()
    right = row(made)
    known = made.network.gateways.graph.members[LEVEL]
    profile = made.network.profiles.members[LEVEL][UNIT]
    known[UNIT] = msgspec.structs.replace(known[UNIT], number=9)
    del profile.wants["a", ""]
    made.network.colouring.audit.run()
    members(made).compare({UNIT: right})
    wrong = ProfileChange(unit=UNIT, before=(0, ""), stamp=(right.profile_version, HALL), added=(("b", "n > 1"),))
    session = made.network.peers[HALL].session
    made.network.hear(session, wrong)
    made.hear(HALL, UNIT, 9, "north/library")  # as its neighbour, which was damaged in the same way, has it
    assert UNIT not in known
    assert profile.wants == {}
    made.hear(HALL, UNIT, 7, "north/library")
    made.network.hear(session, msgspec.structs.replace(wrong, added=(("a", ""), ("b", "n > 1"))))
    assert known[UNIT].number == 7
    assert len(profile.wants) == 2


@pytest.mark.req("CO-17")
def test_a_version_that_nobody_can_have_counted_to_is_not_believed() -> None:
    made = desk()
    known = made.network.gateways.graph.members[LEVEL]
    known[UNIT] = msgspec.structs.replace(known[UNIT], version=LAST_VERSION)
    assert UNIT not in made.network.gateways.inventory(LEVEL)
    made.hear(HALL, UNIT, 8, "north/library", version=2)
    assert known[UNIT].number == 8
    made.hear(HALL, UNIT, 9, "north/library", version=LAST_CREDIBLE_VERSION + (1 << 20) >> 20)
    assert known[UNIT].number == 8


@pytest.mark.req("CO-17")
def test_an_owner_whose_version_is_at_its_end_begins_again() -> None:
    made = desk()
    known = made.network.gateways.graph.members[0]
    known[ME] = msgspec.structs.replace(known[ME], version=LAST_VERSION)
    made.network.gateways.tick()
    assert known[ME].version == 1 << 20 | 1
    assert known[ME].is_credible


@pytest.mark.req("CO-17")
def test_a_version_beside_equal_contents_becomes_the_owner_s_unless_it_is_newer() -> None:
    made = desk()
    known, profile = made.network.gateways.graph.members[LEVEL], made.network.profiles.members[LEVEL][UNIT]
    right = row(made)
    for later, kept in ((-5, right.presence_version), (5, right.presence_version + 5)):
        known[UNIT] = msgspec.structs.replace(known[UNIT], version=right.presence_version + later)
        profile.stamp = (right.profile_version + later, HALL)
        profile.predicates = 77
        members(made).compare({UNIT: right})
        assert profile.predicates == right.predicates
        assert known[UNIT].version == kept
        assert profile.stamp[0] - right.profile_version == kept - right.presence_version
    assert members(made).dropped == 0


@pytest.mark.req("GE-07")
def test_what_a_member_wants_again_is_heard_at_once_although_the_manifest_is_behind() -> None:
    made = desk()
    manifest = {UNIT: row(made)}
    session, profile = made.network.peers[HALL].session, made.network.profiles.members[LEVEL][UNIT]
    first, second, third = ((version << 20, HALL) for version in (5, 6, 7))
    made.network.hear(session, ProfileChange(unit=UNIT, before=first, stamp=second, added=(("c", ""),)))
    made.network.hear(session, ProfileChange(unit=UNIT, before=second, stamp=third, removed=(("c", ""),)))
    members(made).compare(manifest)
    made.network.hear(session, ProfileChange(unit=UNIT, before=third, stamp=(8 << 20, HALL), added=(("c", ""),)))
    assert ("c", "") in profile.wants


@pytest.mark.req("CO-01")
def test_ways_that_were_damaged_are_worked_out_anew_with_the_next_round() -> None:
    made = desk()
    colouring, hops = made.network.colouring, made.network.gateways.graph.cache._hops
    hops[UNIT] = "north/nowhere"
    made.network.colouring.scopes[LEVEL].tree.round += 1
    made.states()
    assert colouring.repaired == 1
    assert made.network.routes.way_towards(UNIT)[0] == HALL


@pytest.mark.req("CO-01")
def test_an_index_that_was_damaged_is_made_anew_with_the_next_round() -> None:
    made = desk()
    interests = made.network._forwarder.table.interests
    before = sorted(interests.counts())
    interests.remove(LEVEL, 7, "a", None)
    made.network.colouring.scopes[LEVEL].tree.round += 1
    made.states()
    assert sorted(interests.counts()) == before
    assert made.network.colouring.audit.repaired == 1


@pytest.mark.req("CO-01")
def test_an_audit_over_several_rounds_finds_in_the_last_of_them_what_is_in_its_slice() -> None:
    made = desk()
    members = made.network.profiles.members[LEVEL]
    audit, turns = made.network.colouring.audit, 5
    before = {unit: profile.digest for unit, profile in members.items()}
    audit.run(turns)  # this is the unit's turn, which comes again as the last of the next five
    members[UNIT].digest ^= 1
    found = []
    for _ in range(turns):
        audit.run(turns)
        found.append(audit.repaired)
    assert (found[0], found[-1]) == (0, 1), "not with the first slice, and with one of them"
    assert {unit: profile.digest for unit, profile in members.items()} == before


def test_waves_of_scopes_that_two_brokers_do_not_share_are_refused() -> None:
    made = desk()
    session = made.network.peers[HALL].session
    for scope in ("north/library", "south", "nowhere"):
        with pytest.raises(FrameError, match="no scope that we share"):
            made.network.hear(session, Rotate(scope=scope, round=1, root=HALL, rank=0, depth=1, manifest=0))


@pytest.mark.req("CO-10")
def test_a_member_keeps_the_number_that_it_was_given_when_a_new_root_has_no_row_for_it_yet() -> None:
    made = desk()
    own = "north/library"
    made.network.gateways.follow_manifest(LEVEL, {own: row(made, unit=own, number=9)})
    assert made.network.gateways.graph.members[LEVEL][own].number == 9
    made.network.gateways.follow_manifest(LEVEL, {})
    made.network.gateways.tick()
    assert made.network.gateways.graph.members[LEVEL][own].number == 9, "events under way mean it by that number"
