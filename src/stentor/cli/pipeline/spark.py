"""What commands that run on Spark share: where it runs, and a bar that shows how far it is."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from stentor.model.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

MasterOption = Annotated[
    str, typer.Option("--master", envvar="STENTOR_MASTER", help="Where Spark runs: local[4], spark://host:port, yarn …")
]
LakeOption = Annotated[Path, typer.Option("--lake", help="The directory of the lake; all workers must see it.")]


def start(master: str, app: str, **conf: str) -> "SparkSession":
    """A session there that logs nothing: what goes wrong is one sentence, which the command ends with."""
    try:
        import stentor.spark
    except ModuleNotFoundError as error:
        raise InvalidInput(str(error)) from error
    spark = stentor.spark.session(master, app, **conf)
    spark.sparkContext.setLogLevel("FATAL")
    return spark


def followed(spark: "SparkSession", what: str, action: Callable[[], Result], *, quiet: bool = False) -> Result:
    """Run the action behind a bar."""
    from stentor.pipeline.engine.progress import watch

    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    hidden = quiet or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as progress:
        bar = progress.add_task(what, total=None)
        return watch(spark, action, lambda done, of: progress.update(bar, completed=done, total=of or None))
