"""Virtual time: what happens when, in one order that depends on nothing but what was asked for."""

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Appointment:
    """Something that will happen, unless it is cancelled."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        self.action = None


class Schedule:
    """A clock of integer nanoseconds and a heap of appointments; those of one instant keep the order of asking."""

    __slots__ = ("_asked", "_heap", "now")

    def __init__(self) -> None:
        self.now = 0
        self._asked = 0
        self._heap: list[tuple[int, int, Appointment]] = []

    def at(self, time: int, action: Action) -> Appointment:
        appointment = Appointment(action)
        self._asked += 1
        heapq.heappush(self._heap, (max(time, self.now), self._asked, appointment))
        return appointment

    def after(self, delay: int, action: Action) -> Appointment:
        return self.at(self.now + delay, action)

    def run(self, until: int) -> None:
        """Let everything happen that is due up to and at `until`."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, appointment = heapq.heappop(heap)
            action = appointment.action
            if action is not None:
                action()
        self.now = max(self.now, until)
