"""`stentor bench`: the measurements of the papers, with real processes on this machine."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from stentor.bench import grid as grids
from stentor.bench import plot, report
from stentor.bench.grid import TrialGrid
from stentor.bench.narada import plan as plans
from stentor.bench.narada import plot as narada_plot
from stentor.bench.narada import report as narada_report
from stentor.bench.narada import session as naradas
from stentor.bench.narada.plan import NaradaPlan
from stentor.bench.session import GesBenchmark, Launch
from stentor.cli.running.process import Readiness
from stentor.cli.running.supervisor import Supervisor
from stentor.cli.running.up import assign_all, settle_ports
from stentor.config import Config
from stentor.model.errors import InvalidInput

R = TypeVar("R", bound="_Results")
app = typer.Typer(help="Measure what the papers measured, on this machine.", no_args_is_help=True)


@app.callback()
def _group() -> None: ...


@app.command()
def ges(
    quick: Annotated[bool, typer.Option("--quick", help="A coarse grid, in two or three minutes.")] = False,
    rates: Annotated[str | None, typer.Option(help="Events/s, comma-separated: 1,20,100,400,952.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Bytes of a body, comma-separated: 50,250,450.")] = None,
    match: Annotated[str | None, typer.Option(help="Percent of the events that clients want: 100,50,10.")] = None,
    replications: Annotated[str | None, typer.Option(help="How often events are stored: 0,1,2.")] = None,
    events: Annotated[int, typer.Option(help="Events of a trial.", show_default="2.5 seconds of them", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Where JSON and plots go.")] = Path("stentor-bench"),
) -> None:
    """The 22 brokers and 102 clients of the Grid Event Service paper, as real processes on this machine.

    Prints table 2 of the paper beside ours, latencies by hops and by replications: events that are not stored, stored
    once and stored twice before anybody gets them. Writes ges.json, ges-latency.png, ges-hops.png and ges-stored.png.
    """
    grid = _grid(quick, rates, sizes, match, replications, events)
    out.mkdir(parents=True, exist_ok=True)
    console = _console()
    results = _measure(lambda *tools: GesBenchmark(grid, *tools), console)
    if results.interrupted and not results.everything():
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


@app.command()
def narada(
    quick: Annotated[bool, typer.Option("--quick", help="Few runs, in a minute or so.")] = False,
    runs: Annotated[int | None, typer.Option(help="Events of each payload.", min=2)] = None,
    payloads: Annotated[str | None, typer.Option(help="Bytes of a body, comma-separated: 100,1000,8000.")] = None,
    topologies: Annotated[str | None, typer.Option(help="Of the paper's figure 2, comma-separated: A,B,C.")] = None,
    storage: Annotated[str, typer.Option(help="What repositories store events in: sqlite or segments.")] = "sqlite",
    out: Annotated[Path, typer.Option(help="Where JSON and the plot go.")] = Path("stentor-bench"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """What reliable delivery costs in the three networks of the paper on it, as real processes on this machine.

    Prints delays by payload, table 1 of the paper beside ours and throughput; writes narada.json and narada.png.
    """
    plan = _plan(quick, runs, payloads, topologies, storage)
    out.mkdir(parents=True, exist_ok=True)
    console = _console(to_stderr=as_json)
    results = _measure(lambda *tools: naradas.NaradaBenchmark(plan, *tools), console)
    results.write(out / "narada.json")
    if as_json:
        sys.stdout.buffer.write(results.content())
    else:
        narada_report.show(results, console)
    written = [out / "narada.json"]
    try:
        written += narada_plot.draw(results, out / "narada.png")
    except ImportError:
        console.print(plot.MISSING, style="yellow", highlight=False, markup=False)
    console.print(f"written: {', '.join(map(str, written))}", highlight=False, soft_wrap=True)
    if results.interrupted:
        raise typer.Exit(130)


def _console(*, to_stderr: bool = False) -> Console:
    return Console(width=None if sys.stdout.isatty() else 160, stderr=to_stderr)


def _plan(quick: bool, runs: int | None, payloads: str | None, topologies: str | None, storage: str) -> NaradaPlan:
    if storage not in plans.STORAGES:
        raise InvalidInput(f"--storage {storage!r}: expected {' or '.join(plans.STORAGES)}")
    plan = msgspec.structs.replace(plans.QUICK if quick else NaradaPlan(), storage=storage)
    if runs is not None:
        plan = msgspec.structs.replace(plan, runs=runs)
    if payloads is not None:
        plan = msgspec.structs.replace(plan, payloads=plans.payloads_of(payloads))
    if topologies is not None:
        plan = msgspec.structs.replace(plan, topologies=plans.topologies_of(topologies))
    return plan


def _grid(
    quick: bool, rates: str | None, sizes: str | None, match: str | None, replications: str | None, events: int
) -> TrialGrid:
    grid = TrialGrid()
    if quick:
        grid = grids.QUICK
    if rates is not None:
        grid = msgspec.structs.replace(grid, rates=grids.numbers(rates, "--rates", 0.1, grids.FASTEST))
    if sizes is not None:
        found = grids.numbers(sizes, "--sizes", grids.SMALLEST, grids.LARGEST)
        grid = msgspec.structs.replace(grid, sizes=grids.whole(found, "--sizes"))
    if match is not None:
        found = grids.numbers(match, "--match", 1, 100)
        grid = msgspec.structs.replace(grid, matches=grids.whole(found, "--match")[::-1])
    if replications is not None:
        found = grids.numbers(replications, "--replications", 0, 2)
        grid = msgspec.structs.replace(grid, replications=grids.whole(found, "--replications"))
    return msgspec.structs.replace(grid, events=events)


class _Results(Protocol):
    interrupted: bool


class _Session(Protocol[R]):
    """What measures something, step by step."""

    results: R

    def expected(self) -> float: ...
    async def run(self) -> None: ...


Tell = Callable[[str], None]
Make = Callable[[Path, Launch, Tell, Callable[[float], None]], _Session[R]]


def _measure(make: Make[R], console: Console) -> R:
    """Run a session behind a progress bar; what is there is kept if it is interrupted."""
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

        session = make(Path(folder), running(say), say, lambda done: progress.advance(task, done))
        progress.update(task, total=session.expected())
        try:
            asyncio.run(session.run())
        except (KeyboardInterrupt, asyncio.CancelledError):
            session.results.interrupted = True
    return session.results


def running(
    tell: Callable[[str], None], noticed: Callable[[Readiness], None] | None = None
) -> Callable[[Config], AbstractAsyncContextManager[Mapping[str, str]]]:
    """How to run the brokers and repositories of a configuration, one process each, as long as a `with` lasts.

    It gives the brokers' URLs by name; `tell` hears what the supervisor says, `noticed` each node that is ready.
    """

    @asynccontextmanager
    async def launch(config: Config) -> AsyncIterator[Mapping[str, str]]:
        held = ExitStack()  # the brokers' ports, as long as they run
        settled = settle_ports(config, held)
        assignments = assign_all(settled, None, json_log=False, supervised=True, embedded=False)
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
            yield {node.name: f"stentor://{node.listen}" for node in ready.result() if node.listen}
        finally:
            if not ready.done():
                task.cancel()  # it would wait for all to come up before it stops them
            supervisor.stop()
            with suppress(asyncio.CancelledError):
                await task
            held.close()

    return launch
