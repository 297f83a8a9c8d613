"""`stentor pipeline`: jobs on Spark, embedded or on a cluster. Spark is imported when a job runs, not for help."""

from collections.abc import Callable

import typer

from stentor.cli.pipeline.archive import archive
from stentor.cli.pipeline.audit import audit
from stentor.cli.pipeline.campaign import campaign
from stentor.cli.pipeline.match import match_filters
from stentor.cli.pipeline.replay import replay
from stentor.cli.pipeline.traces import latency, traffic
from stentor.pipeline.engine.failure import plain_errors

app = typer.Typer(help="Jobs on Spark, on this machine or on a cluster.", no_args_is_help=True)
_COMMANDS: dict[str, Callable[..., None]] = {
    "archive": archive,
    "campaign": campaign,
    "match": match_filters,
    "latency": latency,
    "replay": replay,
    "traffic": traffic,
    "audit": audit,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(plain_errors()(_command))
