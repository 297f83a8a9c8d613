"""A bench: contestants that take turns on the same events, each in every round, so that drift hits all of them."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from benchmarks.results import Results, Sample
from benchmarks.trial import Figures
from stentor.bench import machine

Work = Callable[[], object]


@dataclass(frozen=True)
class Bench:
    spark: SparkSession
    folder: Path
    rounds: int
    cores: int
    settle: float  # seconds that a trial waits for a quiet machine
    results: Results
    say: Callable[[str], None]
    sizes: Mapping[str, int] = field(default_factory=dict)  # events, by part

    def register_apart(self, kind: type[DataSource]) -> None:
        """Workers belong to an environment: in ours the collector has less to do, and others shall not profit."""
        environment = self.spark.sparkContext.environment
        environment["STENTOR_BENCH"] = kind.name()
        self.spark.dataSource.register(kind)
        del environment["STENTOR_BENCH"]

    def compare(self, workload: str, events: int, contestants: Mapping[str, Work]) -> None:
        """What each does must come to the same; the first round warms all of them and does not count."""
        for number in range(self.rounds + 1):
            found = []
            for name, work in contestants.items():
                if number:
                    machine.await_quiet(self.settle)
                figures, outcome = trial(work, events)
                found.append(outcome)
                if number:
                    self.results.samples.append(Sample(workload, name, number, figures))
            assert found.count(found[0]) == len(found), f"{workload}: they do not find the same: {found}"
        for name in contestants:
            rates = [s.figures["rate"] for s in self.results.samples if (s.workload, s.contestant) == (workload, name)]
            self.say(f"{workload}, {name}: {statistics.median(rates) / 1e3:,.0f} k/s")


def trial(work: Work, events: int) -> tuple[Figures, object]:
    """Processor time is that of all processes that take part, Java and the fabric too."""
    noise, begin = machine.Noise(), time.perf_counter()
    outcome = work()
    seconds = time.perf_counter() - begin
    return {"rate": events / seconds, "cpu_us": noise.own() / events * 1e6, "noise_cores": noise.cores()}, outcome
