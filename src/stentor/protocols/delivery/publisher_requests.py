"""Requests to publishers: a repository asks those that it steers for what they have sent and it has not."""

from stentor.model.control import RepositoryNak
from stentor.protocols.delivery.enrolment import Enrolment
from stentor.protocols.delivery.settings import RepositorySettings
from stentor.protocols.delivery.store import Store

_MOST_MISSING = 64  # spans that a publisher is asked for at once


class PublisherRequests:
    """Those of one topic at one repository."""

    def __init__(self, topic: str, settings: RepositorySettings, store: Store, enrolment: Enrolment) -> None:
        self._topic, self._settings = topic, settings
        self._store, self._enrolment = store, enrolment

    def tick(self, now: int) -> bool:
        """Ask for what is overdue; return whether anything is missing."""
        busy = False
        for number, publisher in self._enrolment.publishers.items():
            stream = self._store.streams.get((number, publisher.incarnation))
            if stream is None or not (missing := stream.asked_for):
                continue
            busy = True
            overdue = stream.overdue(missing, now - self._settings.patience)
            if overdue and now - stream.asked >= self._settings.again:
                stream.asked = now
                spans = tuple(overdue[:_MOST_MISSING])
                nak = RepositoryNak(self._topic, self._settings.name, publisher.incarnation, spans)
                self._enrolment.say(publisher.inbox, nak)
        return busy
