"""`stentor up` and `stentor node`: run a fabric, or one node of it."""

import asyncio
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from msgspec.structs import replace
from rich.console import Console
from setproctitle import setproctitle

from stentor.cli.running.autoscaler import Autoscaler
from stentor.cli.running.control import ControlSocket
from stentor.cli.running.node_logs import LineWriter
from stentor.cli.running.process import AnyAssignment, Assignment, Readiness, RepositoryAssignment, become
from stentor.cli.running.supervisor import Supervisor
from stentor.cli.terminal.options import AccessOption, NoTracesOption, TracesOption, check_traces
from stentor.config import (
    ANY_HTTP,
    AccessDefault,
    Address,
    Config,
    FabricTable,
    Node,
    Repository,
    Tls,
    check_exposure,
    colours_around,
    default,
    home_of,
    load,
    load_access,
)
from stentor.config.settings import DATA
from stentor.model.errors import ConfigError, StentorError
from stentor.model.wording.count import counted
from stentor.policies.access import AccessRule
from stentor.runtime.disk import remembered_port
from stentor.runtime.log import LEVELS, logger
from stentor.runtime.server import reserve
from stentor.runtime.token import load_token

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="The configuration file (TOML). Without one: one local broker.")
]
LogOption = Annotated[str | None, typer.Option("--log", help="debug, info, warning or error.")]
FabricTokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token",
        envvar="STENTOR_TOKEN",
        help="The file of the fabric's token, which nodes without TLS prove to each other.",
        show_default="what the file says, or DATA/fabric.token, which is made",
    ),
]
JsonLogOption = Annotated[bool, typer.Option("--json-log", help="Log as JSON, one object per line.")]
ChaosOption = Annotated[
    bool, typer.Option("--chaos", help="Let operators damage what brokers remember: see `stentor corrupt`.")
]


def up(
    config: ConfigOption = None,
    listen: Annotated[str | None, typer.Option(help="host:port, without a file. Port 0 takes a free one.")] = None,
    data: Annotated[Path | None, typer.Option(help="Where to keep data, without a file.")] = None,
    http: Annotated[
        str | None, typer.Option(help='host:port for health and metrics, without a file; "" is off.')
    ] = None,
    tls: Annotated[Path | None, typer.Option(help="A certificate directory, without a file.")] = None,
    access: AccessOption = None,
    token: FabricTokenOption = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="All nodes in one process: for many, on a small machine.")
    ] = False,
    traces: TracesOption = None,
    no_traces: NoTracesOption = False,
    chaos: ChaosOption = False,
    log: LogOption = None,
    json_log: JsonLogOption = False,
) -> None:
    """Start a fabric on this machine and run it until Ctrl-C."""
    check_level(log)
    if config is not None:
        if listen or data or http is not None or tls or access:
            options = "--listen, --data, --http, --tls and --access"
            raise ConfigError(f"{options} are for running without a file: set them in the file")
        chosen = load(config)
    else:
        chosen = _local(listen, data, http, tls)
        default, rules = parse_access(access, tls)
        chosen = replace(chosen, fabric=replace(chosen.fabric, access=default), access=rules)
    chosen = _with_token(chosen, token)
    if traces is not None or no_traces:
        wanted = "none" if no_traces else check_traces(traces)
        chosen = replace(chosen, fabric=replace(chosen.fabric, traces=wanted))
    if in_process:
        chosen = _without_any_http(chosen)
    with ExitStack() as held:  # ports are ours as long as nodes may have to be started again
        chosen = settle_ports(chosen, held)
        setproctitle("stentor: up" if config is None else f"stentor: up {config}")
        assignments = assign_all(chosen, log, json_log, supervised=not in_process, embedded=config is None)
        if chaos:
            assignments = [replace(each, chaos=True) if isinstance(each, Assignment) else each for each in assignments]
        if in_process:
            logger.configure(level=log or chosen.fabric.log, json=json_log, node="")
        (_run_together if in_process else _run_apart)(chosen, assignments)
    _console().print("stopped")


def _run_apart(chosen: Config, assignments: list[AnyAssignment]) -> None:
    """A process for each node, but for a repository that is embedded in a broker's."""

    async def run() -> None:
        output = LineWriter()
        tell = partial(output.print, _warn)
        supervisor = Supervisor(assignments, tell, output)
        meanwhile = [ControlSocket(supervisor, chosen.fabric.data, tell).run]
        if chosen.elasticity is not None:
            meanwhile.append(Autoscaler(chosen.elasticity, supervisor, chosen.fabric.data, tell).run)
        await supervisor.run(partial(output.print, _show, chosen), *meanwhile)

    asyncio.run(run())


def _run_together(chosen: Config, assignments: list[AnyAssignment]) -> None:
    """All nodes in this process."""
    from stentor.cli.running.fleet import Fleet

    if chosen.elasticity is not None:
        _warn("no elasticity with --in-process: another broker would have nothing to run on")

    async def run() -> None:
        await Fleet(assignments, _warn).run(lambda ready: _show(chosen, ready))

    try:
        uvloop.run(run())
    except* StentorError as errors:
        raise errors.exceptions[0] from None


def _console() -> Console:
    return Console(stderr=False, highlight=False)


def _warn(text: str) -> None:
    _console().print(f"[yellow]{text}[/]", soft_wrap=True)


def _show(chosen: Config, nodes: list[Readiness]) -> None:
    console = _console()
    linked = {each.name: each.broker for each in chosen.repositories}
    for node in nodes:
        place = f"stentor://{node.listen}" if node.listen else f"repository, linked to {linked[node.name]}"
        extra = f"  {node.http}" if node.http else ""
        console.print(f"[green]●[/] {node.name}  {place}{extra}", soft_wrap=True)
    if any(node.tls for node in chosen.nodes) and chosen.fabric.access != "open":
        lines = counted(len(chosen.access), "[[access]] line")
        way = "`stentor access list` shows them; --access FILE, or [[access]] in a file, grants more, open opens all"
        console.print(f"access is granted only, by {lines} and grants of owners; {way}", markup=False, soft_wrap=True)
    console.print(f"[dim]data in {chosen.fabric.data}; Ctrl-C stops[/]", soft_wrap=True)


def node(
    name: Annotated[str, typer.Argument(help="The node's name in the file.")],
    config: Annotated[Path, typer.Option("--config", "-c", help="The configuration file (TOML).")],
    token: FabricTokenOption = None,
    chaos: ChaosOption = False,
    log: LogOption = None,
    json_log: JsonLogOption = False,
) -> None:
    """Run one broker or repository of a file in this process, for another machine or a service manager."""
    check_level(log)
    chosen = _with_token(load(config, node=name), token)
    found = chosen.node(name)
    if isinstance(found, Node):
        become(replace(assign(chosen, found, log, json_log, supervised=False), chaos=chaos))
    become(assign_repository(chosen, found, log, json_log, supervised=False))


def _local(listen: str | None, data: Path | None, http: str | None, tls: Path | None) -> Config:
    folder = data or DATA
    config = default(folder)
    node = config.nodes[0]
    address = Address.parse(listen) if listen else node.listen
    check_exposure(address, secured=tls is not None)
    health = node.http if listen is None else Address("127.0.0.1", 0)
    if http is not None:
        health = Address.parse(http) if http else None
    if health is not None:
        check_exposure(health, secured=tls is not None)
    local = replace(node, listen=address, http=health, tls=Tls(directory=tls) if tls else None)
    return replace(config, fabric=FabricTable(data=folder, log="warning"), nodes=(local,))


def _with_token(config: Config, token: Path | None) -> Config:
    """Take another token than the file's, which must be there: nobody else would know one that is made now."""
    if token is None:
        return config
    load_token(token)
    return replace(config, fabric=replace(config.fabric, token=token))


def _without_any_http(config: Config) -> Config:
    """Nodes in one process serve HTTP only where the file says so: a server for each would weigh more than they do."""
    nodes = [replace(node, http=None) if node.http is ANY_HTTP else node for node in config.nodes]
    repositories = [replace(each, http=None) if each.http is ANY_HTTP else each for each in config.repositories]
    return replace(config, nodes=tuple(nodes), repositories=tuple(repositories))


def settle_ports(config: Config, held: ExitStack) -> Config:
    """Choose the ports of nodes that take any free one, for as long as they are held.

    Nodes dial each other, so they must be known before the first is started. Whoever scrapes metrics looks for a node
    where it was, so its HTTP port is that of the last time if it is free.
    """
    data = config.fabric.data
    nodes = [
        replace(node, listen=_settle(node.listen, held), http=node.http and _settle(node.http, held, node.storage))
        for node in config.nodes
    ]
    repositories = [
        replace(each, http=each.http and _settle(each.http, held, home_of(each.name, data)))
        for each in config.repositories
    ]
    return replace(config, nodes=tuple(nodes), repositories=tuple(repositories))


def _settle(address: Address, held: ExitStack, home: Path | None = None) -> Address:
    if address.port:
        return address
    holder = held.enter_context(reserve(address.host, remembered_port(home) if home else 0))
    return Address(address.host, holder.getsockname()[1])


def parse_access(given: str | None, tls: Path | None) -> tuple[AccessDefault | None, tuple[AccessRule, ...]]:
    """Return what --access says: that all is open, or the lines of a file."""
    if given is None:
        return None, ()
    if tls is None:
        raise ConfigError("--access is for --tls: without it everything is open, and only this machine gets in")
    return ("open", ()) if given == "open" else (None, load_access(Path(given)))


def check_level(level: str | None) -> None:
    if level is not None and level not in LEVELS:
        raise ConfigError(f"--log {level}: expected {', '.join(LEVELS)}")


def assign_all(
    config: Config, log: str | None, json_log: bool, *, supervised: bool, embedded: bool
) -> list[AnyAssignment]:
    """What the processes of all nodes are told, brokers first."""
    repositories = [
        assign_repository(config, each, log, json_log, supervised=supervised) for each in config.repositories
    ]
    brokers = [assign(config, node, log, json_log, supervised=supervised) for node in config.nodes]
    if embedded:
        return [replace(brokers[0], repository=repositories[0])]
    return [*brokers, *repositories]


def assign_repository(
    config: Config, repository: Repository, log: str | None, json_log: bool, *, supervised: bool
) -> RepositoryAssignment:
    """What the process of a repository is told."""
    tls = config.broker_of(repository).tls
    return RepositoryAssignment(
        name=repository.name,
        addresses=tuple(str(node.advertise or node.listen) for node in config.brokers_for(repository)),
        unit=str(repository.unit),
        storage=repository.storage,
        lake=str(repository.lake or ""),
        home=str(home_of(repository.name, config.fabric.data)),
        http=str(repository.http) if repository.http else None,
        accepts=repository.accepts,
        most_topics=repository.most_topics or 0,
        most_bytes=repository.most_bytes or 0,
        rules=config.access,
        certificates=str(tls.directory) if tls else None,
        token=str(config.token),
        log=log or config.fabric.log,
        json_log=json_log,
        supervised=supervised,
        limits=config.limits,
    )


def assign(config: Config, node: Node, log: str | None, json_log: bool, *, supervised: bool) -> Assignment:
    """What the process of a broker is told."""
    return Assignment(
        name=str(node.name),
        listen=str(node.listen),
        advertise=str(node.advertise or ""),
        http=str(node.http) if node.http else None,
        storage=str(node.storage),
        certificates=str(node.tls.directory) if node.tls else None,
        token=str(config.token),
        limits=node.limits,
        log=log or config.fabric.log,
        json_log=json_log,
        supervised=supervised,
        numbers=config.numbers(node),
        gateways=config.dials(node),
        costs=config.fabric.costs,
        forwarding=config.forwarding_by_scope(),
        channels=config.channels,
        traces=config.fabric.traces,
        rules=config.access,
        access=config.fabric.access,
        path_length=config.elasticity.path_length if config.elasticity is not None else 0.0,
        clients_per_broker=config.elasticity.clients_per_broker if config.elasticity is not None else 0,
        colours=colours_around(config, node),
    )
