"""A repository manages a topic because its owner says so, or a repository that does; nobody else makes it a ledger."""

from pathlib import Path

import msgspec
from tests.integration.house import PATIENCE, node, run
from tests.integration.test_reliable import House
from tests.integration.test_topic_budgets import ledgers

from stentor.admin.topics import Registrar
from stentor.client.fabric import connect
from stentor.model.communication import inbox_of, repository_name
from stentor.model.control import GossipFacts
from stentor.model.trust.access import ANONYMOUS, MEMBER, TOPIC, Membership, TopicTerms
from stentor.wire.letter import write


def test_a_stranger_invites_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with node(tmp_path / "broker") as broker:
            here = House(tmp_path, broker)
            here.start("r1")
            async with connect(here.url, wait=PATIENCE, name="mallory") as fabric, Registrar(fabric) as registrar:
                await registrar.create("first", ["r1"])
                for claimed in ("mallory", "r1", "r2"):
                    await fabric.publish(inbox_of(repository_name("r1")), write([invitation(claimed)]))
                await registrar.create("last", ["r1"])
                assert ledgers(tmp_path, "r1") == {"first", "last"}
                assert set(here.hosts["r1"].node.health()) == {"first", "last"}
            await here.stop("r1")

    run(main())


def invitation(claimed: str) -> GossipFacts:
    """A letter in the name of a repository, by which r1 would join a topic."""
    membership = msgspec.msgpack.encode(Membership(principal=ANONYMOUS))
    facts = (
        (TOPIC, 7, ANONYMOUS, msgspec.msgpack.encode(TopicTerms(ANONYMOUS))),
        *((MEMBER + name, 7, ANONYMOUS, membership) for name in {claimed, "r1"}),
    )
    return GossipFacts("theirs", claimed, facts, ANONYMOUS)
