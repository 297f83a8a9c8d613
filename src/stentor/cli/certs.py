"""`stentor certs`: a development authority and the certificates it signs.

A directory of certificates looks like this, and each of the inner ones is a certificate directory:

    DIR/ca.pem  DIR/ca.key  DIR/revoked.pem  `revoke`, copied to each certificate directory below
    DIR/node/{ca,cert,key}.pem               `init`: for every node of this machine, wherever it is in the network
    DIR/nodes/NAME/{ca,cert,key}.pem         `node NAME`
    DIR/clients/PRINCIPAL/{ca,cert,key}.pem  `client PRINCIPAL`
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from stentor.config import CERTIFICATE_FILES, check_repository_name
from stentor.model.errors import InvalidInput
from stentor.model.scope import ScopePath
from stentor.model.trust.place import REPOSITORY, SCOPE
from stentor.model.wording.count import counted
from stentor.runtime.tls import (
    AUTHORITY,
    AUTHORITY_KEY,
    CERTIFICATE,
    REVOKED,
    Authority,
    CertificateFiles,
    check_principal,
    read_certificates,
    refuse_existing,
    replace_file,
)

AUTHORITY_DAYS = 3650
DAYS = 365
_ALL = "/"  # what stands for the whole network, and for all repositories

app = typer.Typer(help="Make certificates: a development authority, nodes, clients.", no_args_is_help=True)

Target = Annotated[Path, typer.Argument(metavar="DIR", help="where the authority and its certificates go")]
Home = Annotated[Path, typer.Option("--directory", "-d", metavar="DIR", help="where the authority is")]
Hosts = Annotated[
    list[str],
    typer.Option("--host", metavar="HOST", help="a name or address by which the node is dialled, as often as needed"),
]
Scopes = Annotated[
    list[str],
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help="a unit or broker that the node may be in or be, as often as needed; / is the whole network; "
        "without --scope and --repository: NAME",
    ),
]
Repositories = Annotated[
    list[str],
    typer.Option("--repository", metavar="NAME", help="a repository that the node may be; / is any of them"),
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
        certificates: dict[Path, CertificateFiles] = {
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
    scopes: Scopes = [],  # noqa: B006
    repositories: Repositories = [],  # noqa: B006
    directory: Home = Path("certs"),
    days: Days = DAYS,
    force: Force = False,
) -> None:
    """Make a certificate for a node; it is always good for localhost too.

    It says which places in the network the node may take: brokers and repositories elsewhere are refused.
    """
    with _errors_for_people():
        home = directory.joinpath("nodes", *ScopePath.parse(name).parts)
        places = _places(scopes or ([] if repositories else [name]), repositories)
        now, valid = datetime.now(UTC), timedelta(days=days)
        issued = Authority.load(directory).issue_node(name, hosts, valid=valid, now=now, places=places)
        issued.save(home, force=force)
        _spread(directory)
    _tell_node(home)


def _places(scopes: list[str], repositories: list[str]) -> list[str]:
    for scope in scopes:
        if scope != _ALL:
            ScopePath.parse(scope)
    for repository in repositories:
        if repository != _ALL:
            check_repository_name(repository)
    named = [SCOPE + scope.removeprefix(_ALL) for scope in scopes]
    return [*named, *(REPOSITORY + repository.removeprefix(_ALL) for repository in repositories)]


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
        _spread(directory)
    _tell_client(home)


@app.command()
def revoke(
    certificate: Annotated[
        str,
        typer.Argument(
            help="a certificate directory such as certs/clients/alice, a PEM file, or a serial number in hex"
        ),
    ],
    directory: Home = Path("certs"),
) -> None:
    """Take a certificate back: nodes refuse it from now on, and end its links within seconds.

    They read revoked.pem in their certificate directory. Below DIR it is there at once; copy it to other machines.
    """
    with _errors_for_people():
        serial = _serial(certificate)
        authority, path = Authority.load(directory), directory / REVOKED
        former = path.read_bytes() if path.exists() else b""
        replace_file(path, authority.revoke([serial], former, datetime.now(UTC)))
        homes = _spread(directory)
    typer.echo(f"revoked    {serial:x}  ({path}, and in {counted(homes, 'certificate directory')})")


def _serial(certificate: str) -> int:
    path = Path(certificate)
    if path.exists():
        return read_certificates(path / CERTIFICATE if path.is_dir() else path)[0].serial_number
    try:
        return int(certificate.replace(":", ""), 16)
    except ValueError:
        raise InvalidInput(f"{certificate!r} is no certificate, and no serial number in hexadecimal digits") from None


def _spread(directory: Path) -> int:
    """Copy the list of revoked certificates to every certificate directory of an authority; returns how many."""
    if not (directory / REVOKED).exists():
        return 0
    homes = [path.parent for path in directory.rglob(CERTIFICATE)]
    for home in homes:
        replace_file(home / REVOKED, (directory / REVOKED).read_bytes())
    return len(homes)


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
