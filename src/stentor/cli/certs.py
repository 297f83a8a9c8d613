"""`stentor certs`: a development authority and the certificates it signs.

A directory of certificates looks like this, and each of the inner ones is a certificate directory:

    DIR/ca.pem  DIR/ca.key
    DIR/node/{ca,cert,key}.pem               `init`: for every node of this machine
    DIR/nodes/NAME/{ca,cert,key}.pem         `node NAME`
    DIR/clients/PRINCIPAL/{ca,cert,key}.pem  `client PRINCIPAL`
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from stentor.config import CERTIFICATE_FILES
from stentor.model.errors import InvalidInput
from stentor.model.scope import ScopePath
from stentor.runtime.tls import AUTHORITY, AUTHORITY_KEY, Authority, Credentials, check_principal, refuse_existing

AUTHORITY_DAYS = 3650
DAYS = 365

app = typer.Typer(help="Make certificates: a development authority, nodes, clients.", no_args_is_help=True)

Target = Annotated[Path, typer.Argument(metavar="DIR", help="where the authority and its certificates go")]
Home = Annotated[Path, typer.Option("--directory", "-d", metavar="DIR", help="where the authority is")]
Hosts = Annotated[
    list[str],
    typer.Option("--host", metavar="HOST", help="a name or address by which the node is dialled, as often as needed"),
]
Days = Annotated[int, typer.Option("--days", min=1, max=36500, help="how long it is valid")]
Force = Annotated[bool, typer.Option("--force", help="replace what exists; certificates of an old authority end")]


@app.command()
def init(
    directory: Target = Path("certs"),
    hosts: Hosts = [],  # noqa: B006 - typer copies it
    clients: Annotated[list[str], typer.Option("--client", metavar="PRINCIPAL", help="a client to make too")] = [],  # noqa: B006
    days: Days = DAYS,
    force: Force = False,
) -> None:
    """Make everything in one step: an authority, a certificate for the nodes of this machine, and its clients'."""
    with _errors_for_people():
        principals = [check_principal(client) for client in dict.fromkeys(clients)]
        now, valid = datetime.now(UTC), timedelta(days=days)
        made = Authority.create(valid=timedelta(days=max(days, AUTHORITY_DAYS)), now=now)
        certificates: dict[Path, Credentials] = {
            directory / "node": made.issue_node("node", hosts, valid=valid, now=now),
            **{
                _client_home(directory, principal): made.issue_client(principal, valid=valid, now=now)
                for principal in principals
            },
        }
        inner = [home / name for home in certificates for name in CERTIFICATE_FILES]
        refuse_existing([directory / AUTHORITY, directory / AUTHORITY_KEY, *inner], force=force)
        made.save(directory, force=force)
        for home, credentials in certificates.items():
            credentials.save(home, force=force)
    _tell_authority(directory)
    _tell_node(directory / "node")
    for principal in principals:
        _tell_client(_client_home(directory, principal))


@app.command()
def authority(directory: Target = Path("certs"), days: Days = AUTHORITY_DAYS, force: Force = False) -> None:
    """Make an authority: ca.pem, which everybody may have, and ca.key, which nobody else may."""
    with _errors_for_people():
        Authority.create(valid=timedelta(days=days), now=datetime.now(UTC)).save(directory, force=force)
    _tell_authority(directory)


@app.command()
def node(
    name: Annotated[str, typer.Argument(help="the node's scope path, such as campus/library/b1")],
    hosts: Hosts = [],  # noqa: B006
    directory: Home = Path("certs"),
    days: Days = DAYS,
    force: Force = False,
) -> None:
    """Make a certificate for a node; it is always good for localhost too."""
    with _errors_for_people():
        home = directory.joinpath("nodes", *ScopePath.parse(name).parts)
        issued = Authority.load(directory).issue_node(name, hosts, valid=timedelta(days=days), now=datetime.now(UTC))
        issued.save(home, force=force)
    _tell_node(home)


@app.command()
def client(
    principal: Annotated[str, typer.Argument(help="who the client is: the name that brokers will know it by")],
    directory: Home = Path("certs"),
    days: Days = DAYS,
    force: Force = False,
) -> None:
    """Make a certificate for a client."""
    with _errors_for_people():
        home = _client_home(directory, check_principal(principal))
        issued = Authority.load(directory).issue_client(principal, valid=timedelta(days=days), now=datetime.now(UTC))
        issued.save(home, force=force)
    _tell_client(home)


@contextmanager
def _errors_for_people() -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error


def _client_home(directory: Path, principal: str) -> Path:
    return directory / "clients" / principal


def _tell_authority(directory: Path) -> None:
    typer.echo(f"authority  {directory / AUTHORITY}  (keep {directory / AUTHORITY_KEY} to yourself)")


def _tell_node(home: Path) -> None:
    typer.echo(f'node       {home}  ([tls] directory = "{home}")')


def _tell_client(home: Path) -> None:
    typer.echo(f"client     {home}  (--tls {home}, or STENTOR_TLS={home})")
