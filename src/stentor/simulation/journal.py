"""The logs of a simulated host: appends are written a little later, synced in groups, then acknowledged.

A log that is rewritten is synced at once.
"""

from collections.abc import Callable
from random import Random

from stentor.machine import MILLISECOND, Append, Appended, AppendFailed, Input, Rewrite
from stentor.simulation.disk import SimulatedDisk
from stentor.simulation.schedule import Appointment, Schedule
from stentor.storage.segment import LogError, SegmentLog, stored_logs

MEAN_WRITE = MILLISECOND // 20
MEAN_SYNC = MILLISECOND


class _Writer:
    """One log and the appends that wait for it."""

    __slots__ = ("appointment", "log", "waiting", "written")

    def __init__(self, log: SegmentLog) -> None:
        self.log = log
        self.waiting: list[Append | Rewrite] = []
        self.written: list[Append] = []
        self.appointment: Appointment | None = None


class Journal:
    """One life of a host: opened when it starts, abandoned when it dies."""

    def __init__(
        self, schedule: Schedule, random: Random, disk: SimulatedDisk, answer: Callable[[Input], None]
    ) -> None:
        self._schedule = schedule
        self._random = random
        self._disk = disk
        self._answer = answer
        self._writers: dict[str, _Writer] = {}
        self._abandoned = False

    def open(self) -> dict[str, list[bytes]]:
        """What the logs durably hold; raises LogError."""
        for name in stored_logs(self._disk):
            self._writers[name] = _Writer(SegmentLog(self._disk, name))
        return {name: writer.log.recovered for name, writer in self._writers.items()}

    def append(self, effect: Append | Rewrite) -> None:
        writer = self._writers.get(effect.log)
        if writer is None:
            try:
                writer = self._writers[effect.log] = _Writer(SegmentLog(self._disk, effect.log))
            except LogError as error:
                failures: list[Input] = [AppendFailed(effect.log, effect.token, str(error))]
                self._schedule.after(0, lambda: self._answer_all(failures))
                return
        writer.waiting.append(effect)
        self._begin(writer)

    def abandon(self) -> None:
        """The host is dead: nothing more is written, and nobody is there to be answered."""
        self._abandoned = True
        for writer in self._writers.values():
            if writer.appointment is not None:
                writer.appointment.cancel()

    def _begin(self, writer: _Writer) -> None:
        if writer.appointment is None and writer.waiting:
            writer.appointment = self._later(MEAN_WRITE, lambda: self._write(writer))

    def _write(self, writer: _Writer) -> None:
        writer.appointment = None
        taken, writer.waiting = writer.waiting, []
        answers: list[Input] = []
        for effect in taken:
            try:
                if isinstance(effect, Rewrite):
                    writer.log.rewrite(effect.records)
                    answers += [Appended(each.log, each.token) for each in writer.written]
                    answers.append(Appended(effect.log, effect.token))
                    writer.written.clear()
                else:
                    writer.log.append(effect.records)
                    writer.written.append(effect)
            except LogError as error:
                answers.append(AppendFailed(effect.log, effect.token, str(error)))
        if writer.written:
            writer.appointment = self._later(MEAN_SYNC, lambda: self._sync(writer))
        self._answer_all(answers)

    def _sync(self, writer: _Writer) -> None:
        writer.appointment = None
        done, writer.written = writer.written, []
        answers: list[Input]
        try:
            writer.log.sync()
            answers = [Appended(effect.log, effect.token) for effect in done]
        except LogError as error:
            answers = [AppendFailed(effect.log, effect.token, str(error)) for effect in done]
        self._begin(writer)
        self._answer_all(answers)

    def _answer_all(self, answers: list[Input]) -> None:
        for each in answers:
            if not self._abandoned:
                self._answer(each)

    def _later(self, mean: int, action: Callable[[], None]) -> Appointment:
        return self._schedule.after(1 + int(self._random.expovariate(1.0) * mean), action)
