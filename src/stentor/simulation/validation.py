"""State that checks itself: what a node knows is as the invariants beside its fields say.

Simulations ask for it after one step of so many, by the number of the step, so that a seed replays as it did.
"""

from stentor.machine import Machine
from stentor.nodes.broker.broker import Broker
from stentor.nodes.network.network import BrokerNetwork
from stentor.nodes.repository import RepositoryNode
from stentor.protocols.delivery.repository.repository import TopicRepository
from stentor.simulation.fabric.doorman import Doorman
from stentor.simulation.outcome import Anomaly

EVERY = 8  # steps: seeds take some 10 % longer by that


def validate_sometimes(name: str, machine: Machine | BrokerNetwork, steps: int, anomalies: list[Anomaly]) -> None:
    """Validate the state of a machine, if it is its turn after so many steps of all. The run goes on whatever is found,
    so that others can see what comes of it.
    """
    if steps % EVERY:
        return
    try:
        validate(machine)
    except AssertionError as error:
        anomalies.append(Anomaly("invalid-state", f"{name} after {steps} steps: {error}"))


def validate(machine: Machine | BrokerNetwork) -> None:
    """Raise AssertionError if the state of a machine is not as it must be."""
    match machine:
        case BrokerNetwork() | TopicRepository():
            machine.validate()
        case Broker():
            machine.network.validate()
        case Doorman():
            machine.broker.network.validate()
        case RepositoryNode():
            for managed in machine._managed.values():  # nobody but its own module and this one may look at it
                managed.machine.validate()
        case _:
            pass  # clients hold nothing that outlives what they are asked for
