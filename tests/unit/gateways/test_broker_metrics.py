"""The metrics of a broker: which there are of the scopes around it."""

from prometheus_client.core import Metric

from stentor.gateways.http.broker import NETWORK, broker_node
from stentor.model.colours.legality import TreePointers, TreeView
from stentor.model.reports.colour_view import ColourView
from stentor.model.reports.status import NodeStatus, Traffic


def status(colours: dict[str, ColourView]) -> NodeStatus:
    return NodeStatus(
        node="u/a",
        role="broker",
        boot=1,
        version="",
        uptime=1.0,
        clients=0,
        subscriptions=0,
        topics=0,
        events_in=0,
        events_out=0,
        bytes_in=0,
        bytes_out=0,
        chunks=0,
        dropped={},
        refused={},
        queued=0,
        slow=0,
        traffic=Traffic(),
        colours=colours,
        repaired=9,
        links=(),
        interests=(),
    )


def samples(colours: dict[str, ColourView]) -> dict[str, dict[str, float]]:
    """The values of all metrics of scopes, by metric and scope."""
    found: dict[str, dict[str, float]] = {}
    metrics: list[Metric] = list(broker_node("u/a", lambda: status(colours), lambda: True).metrics())
    for sample in (sample for metric in metrics for sample in metric.samples):
        if sample.name.startswith(("stentor_scope", "stentor_repairs")):
            found.setdefault(sample.name, {})[sample.labels.get("scope", "")] = sample.value
    return found


def test_every_scope_around_a_broker_has_its_series() -> None:
    pointers = (TreePointers("u/b"),) * 3
    inner = ColourView(tree=TreeView("root", "u/a", 12, 0, (TreePointers("", ("u/b",)),) * 3), brokers=2, bound=20.5)
    outer = ColourView(
        tree=TreeView("member", "v/a", 4, 3, pointers),
        brokers=1,
        bound=40.0,
        faults=1,
        refused=2,
        unanswered=3,
        rejoined=4,
        replaced=5,
        detours=6,
        stage="switched",
    )
    assert samples({"u": inner, "": outer}) == {
        "stentor_scope_round": {"u": 12, NETWORK: 4},
        "stentor_scope_root": {"u": 1, NETWORK: 0},
        "stentor_scope_orphan": {"u": 0, NETWORK: 0},
        "stentor_scope_depth": {"u": 0, NETWORK: 3},
        "stentor_scope_brokers": {"u": 2, NETWORK: 1},
        "stentor_scope_plan": {"u": 0, NETWORK: 1},
        "stentor_scope_detours": {"u": 0, NETWORK: 6},
        "stentor_scope_bound_seconds": {"u": 20.5, NETWORK: 40},
        "stentor_scope_faults_total": {"u": 0, NETWORK: 1},
        "stentor_scope_waves_refused_total": {"u": 0, NETWORK: 2},
        "stentor_scope_children_unanswered_total": {"u": 0, NETWORK: 3},
        "stentor_scope_rejoined_total": {"u": 0, NETWORK: 4},
        "stentor_scope_copies_replaced_total": {"u": 0, NETWORK: 5},
        "stentor_repairs_total": {"": 9},
    }


def test_an_orphan_is_no_root() -> None:
    orphan = ColourView(tree=TreeView("orphan", "", 4, 0, (TreePointers(),) * 3), brokers=1, bound=40.0)
    found = samples({"u": orphan})
    assert (found["stentor_scope_orphan"], found["stentor_scope_root"]) == ({"u": 1}, {"u": 0})
