"""The reliable subscriber against a bundle of scripted repositories in bad weather: each event once, in order."""

from random import Random

import pytest
from tests.unit.protocols.delivery.script import Event, Stage, frame

from stentor.machine import MILLISECOND, SECOND
from stentor.protocols.delivery.settings import SubscriberSettings

SMALL = SubscriberSettings(
    buffer=1500,
    batch=600,
    chain=20,
    asked_events=7,
    ack_events=5,
    longest_pause=SECOND,
    longest_quiet=5 * SECOND,
    quiet=2 * SECOND,
)


def play(stage: Stage, random: Random, acts: int) -> None:
    """Publish, acknowledge, and let things fail."""
    next_number = {1: 1, 2: 1, 3: 1}
    for _ in range(acts):
        deed = random.random()
        if deed < 0.4:
            publisher, count = random.choice((1, 1, 2, 3)), random.randrange(1, 7)
            stage.publish(frame(publisher, next_number[publisher], count, size=random.choice((0, 100))))
            next_number[publisher] += count
        elif deed < 0.6 and stage.open:
            first = random.choice(stage.open)
            stage.acknowledge(first, first + random.randrange(6))
        elif deed < 0.7:
            stage.tell()
        elif deed < 0.73:
            stage.unlink()
            stage.run(random.randrange(1, 300) * MILLISECOND)
            stage.link()
        elif deed < 0.78:
            repository = random.choice(list(stage.repositories.values()))
            if repository.up:
                repository.up = False
            else:
                repository.restart()
        else:
            stage.run(random.choice((1, 10, 100, 1000)) * MILLISECOND)


def per_stream(events: list[Event]) -> None:
    last: dict[tuple[int, int], int] = {}
    for publisher, incarnation, number in events:
        assert number > last.get((publisher, incarnation), 0), "in the order of its publisher"
        last[publisher, incarnation] = number


def finish(stage: Stage) -> None:
    stage.calm(20 * SECOND)
    stage.acknowledge_all()
    stage.calm(20 * SECOND)
    stage.acknowledge_all()
    stage.wait_for(7)
    stage.calm(5 * SECOND)


@pytest.mark.req("RD-05", "RD-09", "RD-10", "RD-11", "RD-12", "RD-17", "RD-19", "RD-26")
@pytest.mark.parametrize("seed", range(60))
def test_each_event_once_and_in_order_whatever_is_lost(seed: int) -> None:
    random = Random(seed)
    share = random.choice((1, 1, 2, 5))
    stage = Stage(
        random,
        random.choice(("a", "ab", "abc")),
        lambda event: event[2] % share == 0,
        random.choice((None, SMALL)),
    )
    stage.weather.loss, stage.weather.again = random.choice((0.0, 0.1, 0.4)), random.choice((0.0, 0.2))
    stage.weather.delay = random.choice((2, 20, 200)) * MILLISECOND
    stage.late = random.choice((0.0, 0.0, 0.1))
    play(stage, random, 150)
    finish(stage)
    if not stage.late:
        per_stream(stage.released)
    assert set(stage.released) == stage.expected
    assert len(stage.released) == len(stage.expected)
    assert not any(stage.flags.values()), "there was no other life"
    assert stage.assured == [7]
    subscriber = stage.subscriber
    assert subscriber.chain is not None
    repository = stage.repositories[subscriber.chain.repository]
    assert subscriber.chain.sync == repository.sync == repository.end
    assert subscriber.buffer.size == 0
    assert not subscriber.chain.runs


@pytest.mark.req("RD-13")
@pytest.mark.parametrize("seed", range(30))
def test_an_application_that_dies_gets_what_it_had_not_acknowledged(seed: int) -> None:
    random = Random(seed)
    share = random.choice((1, 3))
    stage = Stage(random, "a", lambda event: event[2] % share == 0, random.choice((None, SMALL)))
    stage.weather.loss = random.choice((0.0, 0.2))
    play(stage, random, 60)
    stage.calm(5 * SECOND)
    if random.random() < 0.5 and stage.open:
        stage.acknowledge(stage.open[0], stage.open[len(stage.open) // 2])
        stage.wait_for(1)
        stage.calm(5 * SECOND)
        assert stage.assured == [1]
    former, repository = set(stage.released), stage.repositories["a"]
    synced = {event for event, place in repository.places.items() if place <= repository.sync}
    stage.begin()
    stage.flags.clear()
    play_on(stage, random)
    finish(stage)
    per_stream(stage.released)
    again = former & set(stage.released)
    assert not again & synced, "what is synced does not come again"
    assert former - synced <= again | repository.acked
    assert all(stage.flags[event] for event in again), "and what comes again says so"
    assert former | set(stage.released) >= stage.expected


def play_on(stage: Stage, random: Random) -> None:
    number = 1
    for _ in range(20):
        stage.publish(frame(9, number, 3))
        number += 3
        stage.run(random.choice((1, 10)) * MILLISECOND)


@pytest.mark.parametrize("seed", range(10))
def test_with_one_repository_events_come_in_the_order_of_its_numbers(seed: int) -> None:
    random = Random(seed)
    stage = Stage(random, "a", lambda event: event[2] > 0)
    stage.weather.loss, stage.weather.again, stage.weather.delay = 0.2, 0.1, 50 * MILLISECOND
    play(stage, random, 100)
    finish(stage)
    assert [place for _, place in stage.sequences] == sorted(place for _, place in stage.sequences)
    assert set(stage.released) == stage.expected
