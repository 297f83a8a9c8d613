"""`stentor up` and `stentor node`: run a fabric, or one node of it."""

import asyncio
import os
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from stentor.cli.process import ALLOCATOR, Assignment, Readiness
from stentor.cli.supervisor import Supervisor
from stentor.config import Address, Config, Fabric, Node, Tls, check_exposure, default, load
from stentor.model.errors import ConfigError
from stentor.runtime.log import LEVELS

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="The configuration file (TOML). Without one: one local broker.")
]
LogOption = Annotated[str | None, typer.Option("--log", help="debug, info, warning or error.")]
JsonLogOption = Annotated[bool, typer.Option("--json-log", help="Log as JSON, one object per line.")]


def up(
    config: ConfigOption = None,
    listen: Annotated[str | None, typer.Option(help="host:port, without a file. Port 0 takes a free one.")] = None,
    data: Annotated[Path | None, typer.Option(help="Where to keep data, without a file.")] = None,
    http: Annotated[
        str | None, typer.Option(help='host:port for health and metrics, without a file; "" is off.')
    ] = None,
    tls: Annotated[Path | None, typer.Option(help="A certificate directory, without a file.")] = None,
    log: LogOption = None,
    json_log: JsonLogOption = False,
) -> None:
    """Start a fabric on this machine and run it until Ctrl-C."""
    _check_level(log)
    if config is not None:
        if listen or data or http is not None or tls:
            raise ConfigError("--listen, --data, --http and --tls are for running without a file: set them in the file")
        chosen = settle_ports(load(config))
    else:
        chosen = _local(listen, data, http, tls)
    console = Console(stderr=False, highlight=False)
    assignments = [assign(chosen, node, log, json_log, supervised=True) for node in chosen.nodes]

    def ready(nodes: list[Readiness]) -> None:
        for node in nodes:
            extra = f"  {node.http}" if node.http else ""
            console.print(f"[green]●[/] {node.name}  stentor://{node.listen}{extra}", soft_wrap=True)
        console.print(f"[dim]data in {chosen.fabric.data}; Ctrl-C stops[/]", soft_wrap=True)

    supervisor = Supervisor(assignments, lambda text: console.print(f"[yellow]{text}[/]", soft_wrap=True))
    asyncio.run(supervisor.run(ready))
    console.print("stopped")


def node(
    name: Annotated[str, typer.Argument(help="The node's name in the file.")],
    config: Annotated[Path, typer.Option("--config", "-c", help="The configuration file (TOML).")],
    log: LogOption = None,
    json_log: JsonLogOption = False,
) -> None:
    """Run one node of a configuration file in this process, for another machine or a service manager."""
    _check_level(log)
    chosen = load(config, node=name)
    assignment = assign(chosen, chosen.node(name), log, json_log, supervised=False)
    reader, writer = os.pipe()
    os.write(writer, msgspec.json.encode(assignment) + b"\n")
    os.close(writer)
    os.dup2(reader, sys.stdin.fileno())
    # a new image of this same process: the allocator reads its settings only at birth
    os.execve(sys.executable, [sys.executable, "-m", "stentor.cli.process"], {**os.environ, **ALLOCATOR})  # noqa: S606


def _local(listen: str | None, data: Path | None, http: str | None, tls: Path | None) -> Config:
    config = default()
    node = config.nodes[0]
    address = Address.parse(listen) if listen else node.listen
    check_exposure(address, secured=tls is not None)
    folder = data or config.fabric.data
    health = node.http if listen is None else Address("127.0.0.1", 0)
    if http is not None:
        health = Address.parse(http) if http else None
    if health is not None:
        check_exposure(health, secured=tls is not None)
    local = Node(
        name=node.name, listen=address, http=health, storage=folder / "local", tls=Tls(directory=tls) if tls else None
    )
    return Config(fabric=Fabric(data=folder, log="warning"), nodes=(local,))


def settle_ports(config: Config) -> Config:
    """Nodes dial each other, so those that take any free port must have one before the first is started."""
    if not config.links or all(node.listen.port for node in config.nodes):
        return config
    with ExitStack() as held:
        nodes = [node if node.listen.port else _with_port(node, held) for node in config.nodes]
    return msgspec.structs.replace(config, nodes=tuple(nodes))


def _with_port(node: Node, held: ExitStack) -> Node:
    family = socket.AF_INET6 if ":" in node.listen.host else socket.AF_INET
    probe = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
    probe.bind((node.listen.host, 0))
    return msgspec.structs.replace(node, listen=Address(node.listen.host, probe.getsockname()[1]))


def _check_level(level: str | None) -> None:
    if level is not None and level not in LEVELS:
        raise ConfigError(f"--log {level}: expected {', '.join(LEVELS)}")


def assign(config: Config, node: Node, log: str | None, json_log: bool, *, supervised: bool) -> Assignment:
    """What the process of a node is told."""
    return Assignment(
        name=str(node.name),
        listen=str(node.listen),
        advertise=str(node.advertise or ""),
        http=str(node.http) if node.http else None,
        storage=str(node.storage),
        certificates=str(node.tls.directory) if node.tls else None,
        limits=node.limits,
        log=log or config.fabric.log,
        json_log=json_log,
        supervised=supervised,
        numbers=config.numbers(node),
        gateways=config.dials(node),
        costs=config.fabric.costs,
        forwarding=config.forwarding_by_scope(),
        channels=config.channels,
    )
