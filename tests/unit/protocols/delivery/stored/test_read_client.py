"""Retrieval, step by step: how long it asks before it gives up."""

from stentor.machine import SECOND, Effect, TimerFired
from stentor.model.errors import Refusal
from stentor.model.stored.position import Position
from stentor.model.stored.reading import StockRequest
from stentor.model.stored.span import Spans
from stentor.protocols.delivery.stored.read_client import (
    AvailabilityRequested,
    Fail,
    PagesRequested,
    RetrievalTick,
    StoredReadClient,
    StoredReadSettings,
)
from stentor.protocols.delivery.transport import LinkUp

WANTED = Position({(7, 1): Spans([(1, 5)])})
REQUEST = StockRequest("orders", "", 0, "", "", "beginning", (), (), 0, 0, 1, False, "")


def pages(patience: int = 0) -> PagesRequested:
    return PagesRequested(
        token=1, topic="orders", wanted=WANTED, where="", repositories=("r1", "r2"), patience=patience
    )


def seconds_until_it_fails(asked: AvailabilityRequested | PagesRequested) -> tuple[int, Fail]:
    """Nobody answers, and time passes."""
    machine = StoredReadClient("me", "spark", StoredReadSettings(patience=30 * SECOND))
    machine.step(0, LinkUp("me", "b1"))
    effects: list[Effect] = machine.step(0, asked)
    for second in range(1, 500):
        effects = machine.step(second * SECOND, TimerFired(RetrievalTick()))
        if failed := [effect for effect in effects if isinstance(effect, Fail)]:
            return second, failed[0]
    raise AssertionError("it never fails")


def test_without_a_patience_of_its_own_a_request_has_that_of_the_settings() -> None:
    for asked in (AvailabilityRequested(1, REQUEST), pages()):
        second, failed = seconds_until_it_fails(asked)
        assert 30 < second <= 32
        assert failed.code is Refusal.SILENT


def test_a_request_is_given_up_after_its_own_patience() -> None:
    for patience in (5, 120):
        limit = patience * SECOND
        for asked in (
            AvailabilityRequested(1, REQUEST, limit),
            pages(limit),
        ):
            assert patience < seconds_until_it_fails(asked)[0] <= patience + 2
