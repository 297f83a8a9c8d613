"""Every scenario there is, by name."""

from stentor.simulation.scenario import Scenario
from stentor.simulation.scenarios import (
    access,
    broker,
    colours,
    damage,
    delivery,
    fabric,
    fuzz,
    log,
    network,
    overlay,
    plans,
    rebuilding,
)

SCENARIOS: dict[str, Scenario] = {
    each.name: each
    for each in (
        access.SCENARIO,
        broker.SCENARIO,
        colours.SCENARIO,
        damage.SCENARIO,
        delivery.SCENARIO,
        fabric.SCENARIO,
        fuzz.SCENARIO,
        log.SCENARIO,
        overlay.SCENARIO,
        network.SCENARIO,
        plans.SCENARIO,
        rebuilding.SCENARIO,
    )
}
