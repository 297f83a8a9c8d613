"""`stentor pipeline`: jobs on Spark, embedded or on a cluster. Spark is imported when a job runs, not for help."""

import typer

from stentor.cli.archive import archive
from stentor.cli.audit import audit
from stentor.cli.campaign import campaign
from stentor.cli.match import match_filters
from stentor.cli.replay import replay
from stentor.cli.traces import latency, traffic

app = typer.Typer(help="Jobs on Spark, on this machine or on a cluster.", no_args_is_help=True)
app.command()(archive)
app.command("campaign")(campaign)
app.command("match")(match_filters)
app.command()(latency)
app.command()(replay)
app.command()(traffic)
app.command()(audit)
