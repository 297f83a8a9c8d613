"""Where ledgers stand: one line of configuration, safe file names, all topics found again."""

from pathlib import Path

import pytest

from stentor.model.errors import ConfigError
from stentor.model.stored.record import Fact
from stentor.storage.ledger_store import file_name, find_ledger_store, open_ledger

pytestmark = pytest.mark.req("RD-23")

TOPICS = [
    "a",
    "a/b",
    "a%2fb",
    "A",
    "a.sqlite",
    "a.segments",
    ".",
    "..",
    "../../etc/passwd",
    "a b\n\t\"'*?:\\",
    "+",
    "~",
    "%",
    "$bundle/x",
    "ü/é",
    "x" * 120,
    "x" * 121,
    "x" * 120 + "+",
    "/" * 1024,
    "x" * 1024,
    "\r\n" * 100,
]


@pytest.mark.parametrize("kind", ["sqlite", "segments"])
def test_topics_of_any_name_are_kept_apart_and_found_again(kind: str, tmp_path: Path) -> None:
    where = f"{kind}:{tmp_path / 'store'}"
    assert find_ledger_store(where, "rep 1").topics() == []
    for number, topic in enumerate(TOPICS):
        ledger = open_ledger(where, "rep 1", topic)
        assert ledger.load().facts == {}
        ledger.commit([Fact("number", b"%d" % number)])
        ledger.close()
    store = find_ledger_store(where, "rep 1")
    assert store.topics() == sorted(TOPICS)
    assert find_ledger_store(where, "rep").topics() == find_ledger_store(where, "Rep 1").topics() == []
    for number, topic in enumerate(TOPICS):
        ledger = store.open(topic)
        assert ledger.load().facts == {"number": b"%d" % number}
        ledger.close()
    assert {path.parent for path in tmp_path.iterdir()} == {tmp_path}, "nothing leaves the directory"


@pytest.mark.parametrize("kind", ["sqlite", "segments"])
def test_a_discarded_ledger_is_gone_and_a_new_one_of_its_name_is_empty(kind: str, tmp_path: Path) -> None:
    store = find_ledger_store(f"{kind}:{tmp_path}", "r")
    for topic in ("a/b", "a"):
        ledger = store.open(topic)
        ledger.load()
        ledger.commit([Fact("topic", topic.encode())])
        ledger.close()
    store.discard("a/b")
    store.discard("a/b")
    store.discard("never")
    assert store.topics() == ["a"]
    for topic, facts in (("a/b", {}), ("a", {"topic": b"a"})):
        ledger = store.open(topic)
        assert ledger.load().facts == facts
        ledger.close()


def test_no_two_names_have_one_file_whatever_the_file_system_thinks_of_letters() -> None:
    names = [file_name(topic).casefold() for topic in TOPICS]
    assert len(set(names)) == len(TOPICS)
    assert max(map(len, names)) <= 120


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("", "sqlite:DIRECTORY, segments:DIRECTORY or postgresql://"),
        ("/var/lib/stentor", "is no place for ledgers"),
        ("mysql://localhost/x", "is no place for ledgers"),
        ("postgresql:x", "is no place for ledgers"),
        ("sqlite:", "names no directory: write sqlite:DIRECTORY"),
        ("segments:", "names no directory: write segments:DIRECTORY"),
        ("sqlite://host/x", "is no address"),
    ],
)
def test_a_value_that_means_nothing_is_refused_with_what_to_write(where: str, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_ledger(where, "r", "t")
    assert text in str(refused.value)


@pytest.mark.parametrize("kind", ["sqlite", "segments"])
def test_a_directory_that_cannot_be_made_is_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"cannot keep ledgers in .*file"):
        open_ledger(f"{kind}:{tmp_path / 'file'}", "r", "t")
