"""One holder of a name: of all lives of a publisher or a subscriber the newest is served, whoever steers it.

The newest life of a name is a fact of the bundle. A repository writes it down, and all others that live know it, before
a client is told that it is steered; so an older life is refused wherever it goes. A repository that hears of a newer
life than the one that it steers tells the older one so. Repositories that cannot hear each other may steer a life each:
once they can, the newer one stays.
"""

from collections.abc import Iterable

from stentor.model.communication import Role, end_name, inbox_of
from stentor.model.control import Denial, GossipSteering, Migrate, Recovery, SubscriberNak
from stentor.model.errors import Refusal, Refused
from stentor.model.ids import publisher_id
from stentor.model.stored.record import Fact
from stentor.protocols.delivery.repository.serving.steered_publisher import SteeredPublisher
from stentor.protocols.delivery.repository.serving.subscriber_feeds import SubscriberFeeds
from stentor.protocols.delivery.repository.topic_state import TopicState
from stentor.protocols.delivery.steering import life_of


class NameHolders:
    """Who holds the names of one topic, and whom this repository must turn away."""

    def __init__(self, state: TopicState, feeds: SubscriberFeeds) -> None:
        self._state, self._feeds = state, feeds
        self._topic, self._repository = state.topic, state.settings.name
        self._registry, self._table = state.registry, state.table
        # Whom this repository steers, beside the cursors of `feeds`. Invariant after each step: none is older than the
        # newest life of its name.
        self.publishers: dict[int, SteeredPublisher] = {}  # by the ids under which they send

    def steer(self, publisher: SteeredPublisher) -> None:
        """Steer a publisher; an earlier life or attempt of it gives way."""
        self.publishers[publisher.id] = publisher

    def send_all_away(self) -> None:
        """Send all clients to other repositories."""
        cursors = self._feeds.cursors
        for inbox in [*(each.inbox for each in self.publishers.values()), *(each.inbox for each in cursors.values())]:
            self._state.send(inbox, Migrate(self._topic, self._repository))
        self.publishers.clear()
        self._feeds.drop_all()

    def dismiss_unauthorised(self, subscribers: Iterable[str]) -> None:
        """Tell publishers, and those of these subscribers that we steer, if they may not use the topic any more."""
        registry, steered = self._registry, self._feeds.cursors
        for name in [each for each in subscribers if each in steered and not registry.admits("subscriber", each)]:
            self._dismiss("subscriber", name, steered[name].inbox)
            self._feeds.drop(name)
        for number, publisher in list(self.publishers.items()):
            if not registry.admits("publisher", publisher.name):
                del self.publishers[number]
                self._dismiss("publisher", publisher.name, publisher.inbox)

    def _dismiss(self, role: Role, name: str, inbox: str) -> None:
        reason = f"{name} is not registered as a {role} of {self._topic} any more"
        if self._registry.deleted:
            reason = f"{self._topic} was deleted by its owner"
        self._state.send(
            inbox, Denial(self._topic, self._repository, attempt=0, code=Refusal.NOT_AUTHORISED, reason=reason)
        )

    def is_subscriber(self, name: str, sender: int) -> bool:
        """Return whether the registered subscriber of this name sends under this id."""
        known = self._registry.subscriptions.get(name)
        return known is not None and publisher_id(known.principal, end_name("subscriber", name, self._topic)) == sender

    def inbox_of(self, role: Role, name: str) -> str | None:
        """Return where a client that we steer is spoken to; None if we do not."""
        if role == "subscriber":
            return self._feeds.cursors[name].inbox if name in self._feeds.cursors else None
        return next((each.inbox for each in self.publishers.values() if each.name == name), None)

    def newest(self, role: Role, name: str) -> int:
        """Return the newest life of a name that the bundle knows of; 0 if it knows of none."""
        life = self._registry.life_of(role, name)
        progress = self._table.destinations.get(name) if role == "subscriber" else None
        return max(life, progress.handed.life) if progress is not None else life  # older ledgers have that alone

    def check(self, event: Recovery) -> None:
        """Refuse a life that wants to be steered and is not the newest. Of one life, what it asked last counts."""
        role, name, life = event.role, event.sender, _life_of(event)
        newest = self.newest(role, name)
        attempts = [each.attempt for each in self.publishers.values() if each.name == name]
        if role == "subscriber":
            attempts = [self._feeds.cursors[name].attempt] if name in self._feeds.cursors else []
        if life < newest or any(life_of(attempt) == life and attempt > event.attempt for attempt in attempts):
            raise Refused(Refusal.FENCED, self._reason(role, name))

    def claim(self, event: Recovery) -> list[Fact]:
        """A life holds its name from now on: return what is to be written down of that. Nothing may refuse it any more:
        others would never hear of what the registry knows and nobody wrote down.
        """
        role, name, life = event.role, event.sender, _life_of(event)
        return self._registry.hold(role, name, life, event.node) if life > self.newest(role, name) else []

    def _reason(self, role: Role, name: str) -> str:
        if role == "subscriber" and name not in self._registry.subscriptions:
            return f"{name} has left {self._topic}: its subscription was ended, and nothing is kept for it"
        place = self._registry.place_of(role, name)
        return (
            f"a newer {name} is a {role} of {self._topic} already{f', at {place}' if place else ''}; "
            "if there is none, the clock here is behind"
        )

    def turn_away(self, role: Role, name: str, inbox: str, attempt: int) -> None:
        """Tell an older life, which shares its inbox with the newer one, that it is fenced; but for a subscriber that
        has unsubscribed: it says so until it hears that this is written down.
        """
        if role == "subscriber" and self._registry.has_unsubscribed(name, life_of(attempt)):
            return
        reason = self._reason(role, name)
        self._state.send(
            inbox, Denial(self._topic, self._repository, attempt=attempt, code=Refusal.FENCED, reason=reason)
        )

    def remind(self, event: SubscriberNak) -> None:
        """Somebody speaks to us as if we steered it. It has not heard that it lost its name, or that we do not."""
        if life_of(event.attempt) < self._registry.life_of("subscriber", event.sender):
            inbox = inbox_of(end_name("subscriber", event.sender, self._topic))
            self.turn_away("subscriber", event.sender, inbox, event.attempt)

    def obey(self) -> None:
        """Turn away whom we steer although the registry knows of a newer life, of the names of which it has learnt one
        since: looking at all would cost a topic with many subscribers more with each.
        """
        renewed = self._registry.news.take_lives()
        for name in [name for role, name in renewed if role == "subscriber" and name in self._feeds.cursors]:
            cursor = self._feeds.cursors[name]
            if cursor.incarnation < self._registry.life_of("subscriber", name):
                self._feeds.drop(name)
                self.turn_away("subscriber", name, cursor.inbox, cursor.attempt)
        names = {name for role, name in renewed if role == "publisher"}
        for number, publisher in list(self.publishers.items()) if names else ():
            is_older = life_of(publisher.attempt) < self._registry.life_of("publisher", publisher.name)
            if publisher.name in names and is_older:
                del self.publishers[number]
                self.turn_away("publisher", publisher.name, publisher.inbox, publisher.attempt)

    def yield_to(self, stolen: GossipSteering) -> None:
        """Another repository steers a client from now on; an older life of it is told at once."""
        if stolen.role == "subscriber":
            if stolen.name in self._table.destinations:
                self._table.destinations[stolen.name].steerer = stolen.sender
            cursor = self._feeds.cursors.get(stolen.name)
            if cursor is not None and (cursor.incarnation, cursor.attempt) < (stolen.incarnation, stolen.attempt):
                self._feeds.drop(stolen.name)
                if cursor.incarnation < stolen.incarnation:
                    self.turn_away("subscriber", stolen.name, cursor.inbox, cursor.attempt)
            return
        for number, publisher in list(self.publishers.items()):
            if publisher.name == stolen.name and publisher.attempt < stolen.attempt:
                del self.publishers[number]
                if life_of(publisher.attempt) < life_of(stolen.attempt):
                    self.turn_away("publisher", publisher.name, publisher.inbox, publisher.attempt)


def _life_of(event: Recovery) -> int:
    """Return the life that wants to be steered; of a publisher its attempt's, since streams outlive publishers."""
    return event.incarnation if event.role == "subscriber" else life_of(event.attempt)
