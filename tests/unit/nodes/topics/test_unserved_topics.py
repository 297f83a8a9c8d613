"""Which topics a repository opens when it is started, and when."""

import msgspec

from stentor.machine import SECOND
from stentor.nodes.topics.managed_topic import ManagedTopic
from stentor.nodes.topics.topic_room import NO_FILES, TopicRoom
from stentor.nodes.topics.unserved_topics import UnservedTopics
from stentor.protocols.delivery.repository.repository import TopicRepository
from stentor.protocols.delivery.settings import RepositorySettings


def queue(count: int, ledgers: int) -> tuple[UnservedTopics, dict[str, ManagedTopic]]:
    settings = msgspec.structs.replace(RepositorySettings(name="r1"), ledgers=ledgers)
    managed: dict[str, ManagedTopic] = {}
    return UnservedTopics((f"t{number}" for number in range(count)), TopicRoom(settings, managed, {})), managed


def test_topics_are_opened_some_thousands_at_a_time() -> None:
    unserved, _ = queue(5_000, 1 << 30)
    counts = [len(list(unserved.take(at * SECOND))) for at in (0, 1, 19, 20, 39, 40, 60)]
    assert counts == [2000, 0, 0, 2000, 0, 1000, 0]
    assert not unserved.trouble


def test_no_more_topics_are_opened_than_there_are_files_for() -> None:
    unserved, managed = queue(5, 3)
    for topic in unserved.take(0):
        managed[topic] = ManagedTopic(TopicRepository(topic, RepositorySettings(name="r1")), "")
    assert list(managed) == ["t0", "t1", "t2"]
    assert unserved.trouble == NO_FILES
    assert unserved.health()["t4"].trouble == NO_FILES
    assert not unserved.take_one("t4")
    del managed["t0"]
    assert not unserved.trouble
    assert unserved.take_one("t4"), "somebody asks for it"
    assert list(unserved.take(1)) == ["t3"]
