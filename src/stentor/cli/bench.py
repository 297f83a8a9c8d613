"""`stentor bench`: the measurements of the papers, with real processes on this machine."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from stentor.bench import grid as grids
from stentor.bench import plot, report
from stentor.bench.grid import Grid
from stentor.bench.results import Results
from stentor.bench.session import Session
from stentor.cli.process import Readiness
from stentor.cli.supervisor import Supervisor
from stentor.cli.up import assign, settle_ports
from stentor.config import Config

app = typer.Typer(help="Measure what the papers measured, on this machine.", no_args_is_help=True)


@app.callback()
def _group() -> None: ...


@app.command()
def ges(
    quick: Annotated[bool, typer.Option("--quick", help="A coarse grid, in less than 90 seconds.")] = False,
    rates: Annotated[str | None, typer.Option(help="Events/s, comma-separated: 1,20,100,400,952.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Bytes of a body, comma-separated: 50,250,450.")] = None,
    match: Annotated[str | None, typer.Option(help="Percent of the events that clients want: 100,50,10.")] = None,
    events: Annotated[int, typer.Option(help="Events of a trial.", show_default="2.5 seconds of them", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Where JSON and plots go.")] = Path("stentor-bench"),
) -> None:
    """The 22 brokers and 102 clients of the Grid Event Service paper, as real processes on this machine.

    Prints table 2 of the paper beside ours and latencies by hops; writes ges.json, ges-latency.png and ges-hops.png.
    """
    grid = _grid(quick, rates, sizes, match, events)
    out.mkdir(parents=True, exist_ok=True)
    console = Console(width=None if sys.stdout.isatty() else 160)
    results = _measure(grid, console)
    if results.interrupted and not results.samples:
        console.print("interrupted before anything was measured", style="yellow")
        raise typer.Exit(130)
    report.show(results, grid, console)
    results.write(out / "ges.json")
    written = [out / "ges.json"]
    try:
        written += plot.draw(results, out)
    except ImportError:
        console.print(plot.MISSING, style="yellow", highlight=False, markup=False)
    console.print(f"written: {', '.join(map(str, written))}", highlight=False, soft_wrap=True)
    if results.interrupted:
        raise typer.Exit(130)


def _grid(quick: bool, rates: str | None, sizes: str | None, match: str | None, events: int) -> Grid:
    grid = Grid()
    if quick:
        grid = Grid(rates=grids.QUICK_RATES, sizes=grids.QUICK_SIZES, matches=grids.QUICK_MATCHES, seconds=1.0)
    if rates is not None:
        grid = msgspec.structs.replace(grid, rates=grids.numbers(rates, "--rates", 0.1, grids.FASTEST))
    if sizes is not None:
        found = grids.numbers(sizes, "--sizes", grids.SMALLEST, grids.LARGEST)
        grid = msgspec.structs.replace(grid, sizes=grids.whole(found, "--sizes"))
    if match is not None:
        found = grids.numbers(match, "--match", 1, 100)
        grid = msgspec.structs.replace(grid, matches=grids.whole(found, "--match")[::-1])
    return msgspec.structs.replace(grid, events=events)


def _measure(grid: Grid, console: Console) -> Results:
    """Run the session behind a progress bar; what is there is kept if it is interrupted."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
    )
    with (
        tempfile.TemporaryDirectory(prefix="stentor-bench-") as folder,
        Progress(*columns, console=console, transient=True, refresh_per_second=2) as progress,
    ):
        task = progress.add_task("", total=None)

        def say(text: str) -> None:
            progress.update(task, description=text)
            if not console.is_terminal:
                console.print(text, highlight=False, markup=False)

        session = Session(grid, Path(folder), running(say), say, lambda seconds: progress.advance(task, seconds))
        progress.update(task, total=session.expected())
        try:
            asyncio.run(session.run())
        except (KeyboardInterrupt, asyncio.CancelledError):
            session.results.interrupted = True
    return session.results


def running(
    tell: Callable[[str], None], noticed: Callable[[Readiness], None] | None = None
) -> Callable[[Config], AbstractAsyncContextManager[Mapping[str, str]]]:
    """How to run the brokers of a configuration, one process each, as long as a `with` lasts.

    It gives their URLs by name; `tell` hears what the supervisor says, `noticed` each broker that is ready.
    """

    @asynccontextmanager
    async def launch(config: Config) -> AsyncIterator[Mapping[str, str]]:
        held = ExitStack()  # the brokers' ports, as long as they run
        settled = settle_ports(config, held)
        assignments = [assign(settled, node, None, json_log=False, supervised=True) for node in settled.nodes]
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[list[Readiness]] = loop.create_future()
        supervisor = Supervisor(assignments, tell)
        task = loop.create_task(supervisor.run(ready.set_result))
        user = asyncio.current_task()
        assert user is not None
        try:
            await asyncio.sleep(0)  # the supervisor has begun, and handles signals
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, user.cancel)  # whoever measures stops first, then the brokers
            waiting: list[asyncio.Future[Any]] = [task, ready]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task  # it raises why
            if noticed is not None:
                for node in ready.result():
                    noticed(node)
            yield {node.name: f"stentor://{node.listen}" for node in ready.result()}
        finally:
            if not ready.done():
                task.cancel()  # it would wait for all to come up before it stops them
            supervisor.stop()
            with suppress(asyncio.CancelledError):
                await task
            held.close()

    return launch
