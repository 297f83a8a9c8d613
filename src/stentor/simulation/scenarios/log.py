"""A log on a disk that loses, tears and reorders what was not synced, says EIO, and runs full."""

from random import Random

from stentor.machine import MILLISECOND
from stentor.simulation.disk import SOUND_DISK, DiskFaults, SimulatedDisk
from stentor.simulation.outcome import Anomaly, Outcome
from stentor.simulation.replay_trace import ReplayTrace
from stentor.simulation.scenario import Scenario
from stentor.storage.segment import LogDamaged, LogFailed, LogFull, SegmentLog

_OPERATIONS = 100
_TRIES = 20  # to open a log on a disk that fails every now and then
_FAULTS = (
    SOUND_DISK,
    DiskFaults(garbage=0.0),
    DiskFaults(sync_error=0.08),
    DiskFaults(full=0.1),
    DiskFaults(sync_error=0.08, full=0.1, garbage=0.4),
)


class _Run:
    """Appends, syncs and crashes, and remembers what must be there afterwards."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        self.random = Random(f"{seed}/log")
        self.disk = SimulatedDisk(Random(f"{seed}/disk"), self.random.choice(_FAULTS))
        self.trace = ReplayTrace(keep_trace)
        self.anomalies: list[Anomaly] = []
        self.statistics = dict.fromkeys(
            ("records", "acknowledged", "syncs", "kills", "power-cuts", "rewrites", "torn-tails"), 0
        )
        self.acknowledged: list[bytes] = []
        self.offered: list[tuple[bytes, bool]] = []  # since the last sync, and whether it was taken
        self.operations = 0
        self.log = self.open()

    def note(self, what: str) -> None:
        self.trace.note(self.operations * MILLISECOND, "log", what)

    def step(self) -> None:
        self.operations += 1
        dice = self.random.random()
        if dice < 0.5:
            self.append()
        elif dice < 0.8:
            self.sync()
        elif dice < 0.85:
            self.rewrite()
        else:
            self.crash(power=dice < 0.95)

    def append(self) -> None:
        batch = [
            b"%d.%d|" % (self.operations, position) + self.random.randbytes(self.random.choice((0, 3, 40, 200)))
            for position in range(self.random.randint(1, 3))
        ]
        self.statistics["records"] += len(batch)
        taken = False
        try:
            self.log.append(batch)
            taken = True
            self.note(f"append {len(batch)}")
        except LogFull:
            self.note("full")
        self.offered += [(record, taken) for record in batch]

    def sync(self) -> None:
        try:
            self.log.sync()
        except LogFailed:
            self.note("sync failed")
            self.check_poison()
            self.crash(power=self.random.random() < 0.5)
            return
        self.note("sync")
        self.statistics["syncs"] += 1
        self.acknowledged += [record for record, taken in self.offered if taken]
        self.offered.clear()

    def rewrite(self) -> None:
        """The log is to hold some of what it holds, and what was offered last."""
        kept = [record for record in self.acknowledged if self.random.random() < 0.3]
        kept += [record for record, taken in self.offered if taken]
        try:
            self.log.rewrite(kept)
        except LogFull:
            self.note("not rewritten")
            return
        self.note(f"rewrite {len(kept)}")
        self.statistics["rewrites"] += 1
        self.acknowledged, self.offered = kept, []

    def check_poison(self) -> None:
        """After a failed sync nothing may be acknowledged, however good the disk has become."""
        try:
            self.log.append([b"after the failure"])
            self.log.sync()
        except LogFailed:
            return
        self.anomalies.append(Anomaly("unsafe-ack", "a log acknowledged after a failed sync"))

    def crash(self, power: bool) -> None:
        self.note("power cut" if power else "killed")
        self.statistics["power-cuts" if power else "kills"] += 1
        self.log.close()
        if power:
            self.disk.cut_power()
        self.log = self.open()

    def open(self) -> SegmentLog:
        """Until the disk lets us; what was recovered counts as acknowledged from then on."""
        for attempt in range(_TRIES):
            if attempt == _TRIES - 1:
                self.disk.faults = SOUND_DISK
            try:
                log = SegmentLog(self.disk, "log")
            except LogFailed:
                self.note("open failed")
                if self.random.random() < 0.3:
                    self.disk.cut_power()
                continue
            except LogDamaged as damage:
                self.anomalies.append(Anomaly("lost-write", str(damage)))
                self.disk = SimulatedDisk(self.random)
                self.acknowledged, self.offered = [], []
                continue
            self.check(log.recovered)
            self.note(f"open {len(log.recovered)} records, {log.torn} bytes cut off")
            self.statistics["torn-tails"] += log.torn > 0
            self.acknowledged, self.offered = list(log.recovered), []
            return log
        raise AssertionError("a sound disk opens")

    def check(self, recovered: list[bytes]) -> None:
        """All that was acknowledged, in order, then at most what was offered after it, in order."""
        count = len(self.acknowledged)
        if recovered[:count] != self.acknowledged:
            missing = [record for record in self.acknowledged if record not in recovered]
            kind = "lost-write" if missing else "nonmonotonic-poll"
            self.anomalies.append(Anomaly(kind, f"{len(missing)} of {count} acknowledged records at {self.operations}"))
            return
        rest = iter([record for record, _ in self.offered])
        for record in recovered[count:]:
            if record not in rest:
                self.anomalies.append(Anomaly("corrupt", f"{record[:20]!r} was never offered there"))


def run(seed: int, keep_trace: bool = False) -> Outcome:
    state = _Run(seed, keep_trace)
    for _ in range(_OPERATIONS):
        state.step()
    state.crash(power=True)
    state.statistics["acknowledged"] = len(state.acknowledged)
    return Outcome.of(
        SCENARIO.name,
        seed,
        state.trace,
        state.anomalies,
        state.statistics | dict(sorted(state.disk.faults_seen.items())),
    )


SCENARIO = Scenario(
    "log", "one log under appends, syncs, rewriting, kills, power cuts, failing syncs and a full disk", run
)
