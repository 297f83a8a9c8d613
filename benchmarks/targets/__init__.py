"""The brokers that are measured, by name, in the order of the tables."""

from benchmarks.targets.mosquitto import Mosquitto
from benchmarks.targets.nats import Nats
from benchmarks.targets.redis import Redis
from benchmarks.targets.relay import Relay
from benchmarks.targets.stentor import StentorNode
from benchmarks.targets.target import Target

TARGETS: dict[str, type[Target]] = {target.name: target for target in (Relay, Nats, Mosquitto, Redis, StentorNode)}
