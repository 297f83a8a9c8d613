"""What commands that run on Spark share: where it runs, and a bar that shows how far it is."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from stentor.model.errors import InvalidInput, StentorError, Unreachable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
_OURS: Final[dict[str, type[StentorError]]] = {"InvalidInput": InvalidInput, "Unreachable": Unreachable}

MasterOption = Annotated[
    str, typer.Option("--master", envvar="STENTOR_MASTER", help="Where Spark runs: local[4], spark://host:port, yarn …")
]
LakeOption = Annotated[Path, typer.Option("--lake", help="The directory of the lake; all workers must see it.")]


def start(master: str, app: str, **conf: str) -> "SparkSession":
    """A session there."""
    try:
        import stentor.spark
    except ModuleNotFoundError as error:
        raise InvalidInput(str(error)) from error
    return stentor.spark.session(master, app, **conf)


def followed(spark: "SparkSession", what: str, action: Callable[[], Result], *, quiet: bool = False) -> Result:
    """Run the action behind a bar."""
    from stentor.pipeline.progress import watch

    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    hidden = quiet or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as progress, plain_errors():
        bar = progress.add_task(what, total=None)
        return watch(spark, action, lambda done, of: progress.update(bar, completed=done, total=of or None))


@contextmanager
def plain_errors() -> Iterator[None]:
    """What Spark raises as an error of ours; what a worker of ours said without the stacks of all that it ran in."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        text = str(error)
        ours = re.findall(r"^(?:\S+: )?stentor\.[\w.]*\.(\w+): (.+)$", text, re.MULTILINE)
        name, reason = ours[-1] if ours else ("", text.split("\n", 1)[0])
        raise _OURS.get(name, StentorError)(reason) from error
