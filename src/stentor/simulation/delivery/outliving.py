"""Outliving: a repository is away while others acknowledge events, comes back, and is alone before it has them all."""

from collections.abc import Callable, Sequence

from stentor.machine import MILLISECOND
from stentor.simulation.delivery.participants import Participants
from stentor.simulation.delivery.repository import SimRepository


class Outliving:
    """Two strikes on those that serve everyone; `soon` has a mend happen at most and at least so many ms later."""

    def __init__(self, participants: Participants, soon: Callable[[Callable[[], None], int, int], None]) -> None:
        self._participants = participants
        self._world = participants.world
        self._soon = soon

    def begin_again(self, repository: SimRepository) -> bool:
        """Publishers, and perhaps subscribers, end while a repository is away. It comes back when publishers have begun
        again, hears late what others have, and they die while it fetches that.
        """
        random, world = self._world.random, self._world
        others = self._others(repository)
        if repository.settings.unit or not others:
            return False
        repository.crash("killed")
        for subscriber in [each for each in self._participants.subscribers if each.alive and random.random() < 0.5]:
            subscriber.crash()
            self._soon(subscriber.start, 6000, 10)
        ended = random.randrange(100, 600) * MILLISECOND
        back = ended + random.randrange(100, 450) * MILLISECOND
        dying = back + random.randrange(20, 500) * MILLISECOND
        world.after(ended, self._end_lives)
        world.after(back, lambda: world.office.muffled.update({repository.name: world.now + random.randrange(dying)}))
        world.after(back, repository.start)
        world.after(dying, lambda: self._kill_all(others))
        return True

    def forget(self, repository: SimRepository) -> bool:
        """A repository comes back while publishers go on, hears from them alone what was acknowledged, and is killed in
        its turn when it is the last one: what it heard it must still know.
        """
        random, world = self._world.random, self._world
        others = self._others(repository)
        if repository.settings.unit or not others:
            return False
        repository.crash("killed")
        back = random.randrange(200, 700) * MILLISECOND
        dying = back + random.randrange(50, 300) * MILLISECOND
        alone = dying + random.randrange(1200, 1800) * MILLISECOND
        world.after(back, lambda: world.office.muffled.update({repository.name: world.now + dying - back}))
        world.after(back, repository.start)
        world.after(dying, self._end_lives)
        world.after(dying, lambda: self._kill_all(others))
        world.after(alone, lambda: repository.crash("killed alone"))
        world.after(alone + 50 * MILLISECOND, repository.start)
        return True

    def _others(self, repository: SimRepository) -> list[SimRepository]:
        return [each for each in self._participants.serving() if not each.settings.unit and each is not repository]

    def _end_lives(self) -> None:
        for publisher in [each for each in self._participants.publishers if each.alive]:
            publisher.crash()
            self._soon(publisher.start, 200, 10)

    def _kill_all(self, processes: Sequence[SimRepository]) -> None:
        for repository in processes:
            repository.crash("killed with others")
            self._soon(repository.start, 6500, 3500)  # by then whoever is left has gone on without them
