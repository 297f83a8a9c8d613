"""What an operator sees of a rotten ledger: in commands, in their exit codes and in metrics, until it is accepted."""

from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, fabric
from tests.end_to_end.command import stentor as command
from tests.end_to_end.network import until
from tests.integration.test_damage import body_of

import stentor


def tell(url: str, *words: str, code: int = 0) -> str:
    done = command(*words, "--url", url)
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def flip(data: Path, wanted: bytes) -> None:
    path = next(path for path in data.rglob("orders.sqlite"))
    content = bytearray(path.read_bytes())
    content[content.index(wanted)] ^= 1
    path.write_bytes(content)


@pytest.mark.req("RD-03")
def test_damage_is_shown_everywhere_until_it_is_accepted(tmp_path: Path) -> None:
    with fabric(tmp_path) as running:
        url = running.url()
        tell(url, "topic", "create", "orders", "--reliable")
        tell(url, "topic", "grant", "orders", "--publisher", "shop", "--subscriber", "billing")
        with (
            stentor.blocking.connect(url, wait=PATIENCE) as client,
            client.subscribe("orders", name="billing"),
            client.publisher("orders", name="shop") as shop,
        ):
            for number in range(1, 6):
                shop.send(body_of(number))
    flip(tmp_path / "data", body_of(3))
    with fabric(tmp_path) as running:
        url = running.url()
        until(lambda: command("topic", "show", "orders", "--url", url).returncode == 1, "damage is found")
        way = "`stentor repository accept-loss main --topic orders`"
        for words in (("status",), ("topic", "show", "orders"), ("topic", "show"), ("repository", "status")):
            said = tell(url, *words, code=1)
            assert "1 damaged event" in said, words
        assert way in tell(url, "topic", "show", "orders", code=1)
        said = tell(url, "repository", "accept-loss", "main", "--yes")
        assert "main has given up 3 of shop of orders" in said
        for words in (("status",), ("topic", "show", "orders"), ("topic", "show"), ("repository", "status")):
            assert "damaged" not in tell(url, *words)
        assert "nothing is damaged at main" in tell(url, "repository", "accept-loss", "main", "--yes", code=2)
        got = command("sub", "orders", "--name", "billing", "--count", "4", "--url", url)
        assert [line.split()[-1] for line in got.stdout.splitlines()] == ["001", "002", "004", "005"]
        assert "lost 3 … 3 of shop: damaged" in got.stderr
