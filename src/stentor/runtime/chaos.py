"""Chaos: a broker's memory is damaged on an operator's order. Only brokers that were started for it have this."""

from random import Random

from stentor.machine import Effect, Scramble
from stentor.nodes.broker.broker import Broker


class Chaos:
    """Carries out what an operator orders to be damaged in one broker; machines know no randomness themselves."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def perform(self, effect: Effect) -> None:
        if isinstance(effect, Scramble):
            # with the name, so that brokers that are told one seed are not damaged in the same way
            draw = Random(f"{effect.seed}/{self._broker.path}")
            self._broker.scramble(effect.parts, draw)
