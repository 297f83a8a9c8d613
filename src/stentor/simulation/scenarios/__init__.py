"""Every scenario there is, by name."""

from stentor.simulation.scenario import Scenario
from stentor.simulation.scenarios import broker, log, network, overlay

SCENARIOS: dict[str, Scenario] = {
    each.name: each for each in (broker.SCENARIO, log.SCENARIO, overlay.SCENARIO, network.SCENARIO)
}
