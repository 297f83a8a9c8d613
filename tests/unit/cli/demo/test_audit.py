"""The audit of the demo and of the tests with kill -9 finds what it is there to find."""

import pytest

from stentor.cli.demo.audit import Publication, SubscriberVerdict, Wants, judge
from stentor.cli.demo.evidence import Began, Done, Fact, Got, Kept, Sent

LIFE = 100
SENT: list[Fact] = [Began(LIFE), *(Sent(LIFE, number, number + 10) for number in range(1, 7)), Kept(LIFE, 5, 2)]


def got(*numbers: int, redelivered: bool = False, life: int = LIFE) -> list[Fact]:
    return [Got(life, number, number + 10, redelivered, True) for number in numbers]


def verdict(*facts: Fact, others: list[Fact] | None = None, sent: list[Fact] = SENT) -> SubscriberVerdict:
    readers: list[tuple[Wants, list[Fact]]] = [(lambda row: row % 2 == 1, [Began(0), *facts])]
    if others is not None:
        readers.append((lambda _: True, [Began(0), *others]))
    return judge([Publication(sent)], readers)[0]


def test_all_that_was_acknowledged_once_and_in_order_is_sound() -> None:
    found = verdict(*got(1, 3, 5))
    assert found.sound
    assert (found.expected, found.delivered, found.redelivered) == (3, 3, 0)


@pytest.mark.parametrize(
    ("facts", "fault", "who"),
    [
        (got(1, 5), "lost", [(LIFE, 3)]),
        (got(1, 3), "lost", [(LIFE, 5)]),
        (got(1, 3, 3, 5), "duplicated", [(LIFE, 3)]),
        ([*got(1, 3), Began(0), *got(3, 5)], "duplicated", [(LIFE, 3)]),
        ([*got(1, 3), Done(2), Began(0), *got(3, redelivered=True), *got(5)], "duplicated", [(LIFE, 3)]),
        (got(1, 5, 3), "misplaced", [(LIFE, 3)]),
        (got(1, 2, 3, 5), "foreign", [(LIFE, 2)]),
        ([*got(1, 3, 5), *got(7)], "foreign", [(LIFE, 7)]),
        ([*got(1, 3), Got(LIFE, 5, 17, False, True)], "foreign", [(LIFE, 5)]),
        ([*got(1, 3), Got(LIFE, 5, 15, False, False)], "foreign", [(LIFE, 5)]),
    ],
)
def test_what_is_wrong_is_found(facts: list[Fact], fault: str, who: list[tuple[int, int]]) -> None:
    found = verdict(*facts)
    assert not found.sound
    assert getattr(found, fault) == who


def test_what_was_not_acknowledged_may_come_again_if_it_is_marked() -> None:
    found = verdict(*got(1, 3), Done(1), Began(0), *got(3, redelivered=True), *got(5))
    assert found.sound
    assert (found.delivered, found.redelivered) == (3, 1)


def test_what_was_sent_and_not_acknowledged_comes_to_all_or_none() -> None:
    sent: list[Fact] = [Began(LIFE), *(Sent(LIFE, number, number + 10) for number in range(1, 8)), Kept(LIFE, 5, 2)]
    assert verdict(*got(1, 3, 5), others=got(1, 2, 3, 4, 5, 6), sent=sent).sound
    found = verdict(*got(1, 3, 5), others=got(1, 2, 3, 4, 5, 6, 7), sent=sent)
    assert found.lost == [(LIFE, 7)]


def test_what_repositories_told_a_publisher_that_came_back_is_acknowledged() -> None:
    publication = Publication([*SENT, Began(LIFE + 1, LIFE, 6)])
    assert (LIFE, 6) in publication.acknowledged
    assert not publication.forgotten


@pytest.mark.parametrize("told", [Began(LIFE + 1, LIFE, 4), Began(LIFE + 1), Began(LIFE + 1, LIFE - 1, 9)])
def test_what_repositories_have_forgotten_is_found(told: Began) -> None:
    assert Publication([*SENT, told]).forgotten
