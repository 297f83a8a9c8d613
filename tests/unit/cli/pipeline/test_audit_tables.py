"""What `stentor pipeline audit` prints fits a terminal of 80 columns, with no word cut."""

from collections import Counter
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from stentor.cli.pipeline.audit import Account, _show

TOPIC = "departments/warehouse/orders-of-the-night"
LONG = "billing-of-all-the-branches-in-the-north"


def _row(**values: Any) -> Any:
    return SimpleNamespace(**values)


def _account(*verdicts: str) -> Account:
    topics = [
        _row(about=about, published=12_345_678, stored=12_345_678, given_up=0, from_ledgers=1_200, summed=True)
        for about in (TOPIC, "orders")
    ]
    sums = {"wanted": 12_345_678, "released": 12_345_678, "again": 12_345, "acknowledged": 12_345_678, "waiting": 100}
    subscribers = [_row(about=TOPIC, subscriber=name, **sums, from_ledgers=34) for name in (LONG, "spark")]
    findings = [
        _row(
            verdict=verdict,
            kind="released before stable",
            about=TOPIC,
            source="the-shop",
            life=27_783_116_656_743,
            first=1_000,
            last=2_000,
            subscriber=LONG,
            keeper="r1",
            what="stored by r1, released to nobody",
        )
        for verdict in verdicts
    ]
    counts = Counter((row.verdict, row.about, row.subscriber, row.kind) for row in findings)
    killed = [_row(role=role, node="") for role in ("publisher", "repository", "repository")]
    return Account(topics, subscribers, findings, counts, killed)


def _shown(account: Account) -> list[str]:
    said = StringIO()
    _show(Console(file=said, width=80, highlight=False), account)
    return said.getvalue().splitlines()


@pytest.mark.req("UX-04")
@pytest.mark.parametrize("verdicts", [(), ("violation",), ("unproven",), ("violation", "warning", "unproven")])
def test_tables_fit_80_columns_with_long_names_and_large_numbers(verdicts: tuple[str, ...]) -> None:
    lines = _shown(_account(*verdicts))
    assert max(map(len, lines)) <= 80
    words = {word for line in lines for word in line.split()}
    assert {"published", "stored", "violations", "unproven", "released", "again", "acked", "waiting"} <= words
    assert not any(word.endswith("…") and word != "…" for word in words)
    assert "12,345,678" in words
    assert LONG in "".join(line[:10].strip() for line in lines)  # broken, and not cut
    assert any(line.strip() == f"subscribers of {TOPIC}" for line in lines)


def test_what_ledgers_know_and_who_was_killed_is_said_in_words() -> None:
    said = " ".join(" ".join(_shown(_account())).split())
    assert "killed before they had told all: 1 publisher, 2 repositories;" in said
    assert "known from ledgers alone: 2,400 stored copies of events, 68 acknowledgements" in said
    assert "from sums of traces" in said
    assert "proven: every event was stored" in said
    assert "200 wait for their subscribers" in said


def test_names_that_others_chose_are_escaped() -> None:
    evil = "a\x1b[2J[red]b\u202e"
    found = _row(
        verdict="violation", kind="lost", about=evil, source=evil, life=1, first=1, last=2, subscriber=evil, what=evil
    )
    sums = {"wanted": 1, "released": 1, "again": 0, "acknowledged": 1, "waiting": 0, "from_ledgers": 0}
    topics = [_row(about=evil, published=1, stored=1, given_up=0, from_ledgers=0, summed=False)]
    subscribers = [_row(about=evil, subscriber=evil, **sums)]
    account = Account(topics, subscribers, [found], Counter({("violation", evil, evil, "lost"): 1}), [])
    out = StringIO()
    _show(Console(file=out, width=200, highlight=False), account)
    text = out.getvalue()
    assert not {character for character in text if not character.isprintable()} - {"\n"}
    assert text.count("a\\x1b[2J[red]b\\u202e") >= 5
