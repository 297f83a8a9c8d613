"""Python client libraries, each against its own broker; imported only when used, so that one missing stops no other."""

from dataclasses import dataclass
from importlib import import_module

from benchmarks.clients.driver import Driver


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a driver is found, and the target that its clients talk to."""

    broker: str
    module: str
    driver: str

    def load(self) -> type[Driver]:
        driver: type[Driver] = getattr(import_module(f"benchmarks.clients.{self.module}"), self.driver)
        return driver


DRIVERS: dict[str, Entry] = {
    "nats-py": Entry("nats", "nats", "NatsPy"),
    "paho-mqtt": Entry("mosquitto", "paho", "Paho"),
    "stentor client": Entry("stentor", "stentor", "StentorClient"),
    "stentor client x100": Entry("stentor", "stentor", "StentorBatches"),
}
