"""Options that several commands share."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, get_args

import msgspec
import typer

from stentor.client.reliable_subscription import From
from stentor.config import Address, check_exposure
from stentor.config.settings import Traces
from stentor.config.value import choice
from stentor.model.attribute import Value, schema_of
from stentor.model.errors import InvalidInput
from stentor.model.stored.epoch import Epoch

UrlOption = Annotated[
    str | None,
    typer.Option("--url", envvar="STENTOR_URL", help="The broker.", show_default="stentor://127.0.0.1:7420"),
]
TlsOption = Annotated[
    Path | None,
    typer.Option("--tls", envvar="STENTOR_TLS", help="A certificate directory as `stentor certs` writes it."),
]
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token",
        envvar="STENTOR_TOKEN",
        help="The file of the fabric's token, for operators without TLS.",
        show_default="that of your own fabric there",
    ),
]
StayOption = Annotated[
    bool, typer.Option("--stay", help="Stay at this broker, also when it asks to move to one that has less to do.")
]
WaitOption = Annotated[
    float,
    typer.Option(
        "--wait",
        envvar="STENTOR_WAIT",
        min=0.0,
        metavar="SECONDS",
        help="Keep trying while no broker is there yet, instead of failing at once.",
        show_default=False,
    ),
]
AccessOption = Annotated[
    str | None,
    typer.Option(
        "--access", metavar="FILE|open", help=r"With --tls: a file of [\[access]] lines, or open for everybody."
    ),
]
TracesOption = Annotated[
    str | None,
    typer.Option(
        "--traces",
        metavar="summed|all|none",
        help="Which traces of what becomes of events are told and kept: sums of them, all, or none.",
        show_default="summed",
    ),
]
NoTracesOption = Annotated[bool, typer.Option("--no-traces", help="The same as --traces none.")]
HttpOption = Annotated[
    str,
    typer.Option("--http", help='host:port for health and metrics; port 0 takes a free one and keeps it, "" is off.'),
]
AttributesOption = Annotated[
    list[str] | None,
    typer.Option("--attr", "-a", help="k=v infers integer, decimal, boolean or string; k:=JSON states it."),
]

FromOption = Annotated[
    str | None,
    typer.Option("--from", help="Where to begin: beginning, now, an epoch such as r1:107, or a time."),
]


def parse_from(text: str) -> From:
    """Return where to begin; a time without a zone is UTC."""
    if text in ("beginning", "now") or text.isdecimal():  # 20261101 is a number, although it is a date, too
        return text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        if (epoch := Epoch.parse(text)) is not None:
            return str(epoch)
        raise InvalidInput(
            f"--from {text}: expected beginning, now, an epoch such as r1:107, or a time such as 2026-11-01T12:00"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def http_address(text: str, tls: Path | None) -> str | None:
    """Return where a node is to serve HTTP, or None for nowhere."""
    if not text:
        return None
    address = Address.parse(text)
    check_exposure(address, secured=tls is not None)
    return str(address)


def parse_attributes(pairs: list[str]) -> dict[str, Value]:
    """`k=v` infers the type, `k:=JSON` states it."""
    attributes: dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidInput(f"--attr {pair!r}: write name=value, or name:=JSON")
        if name.endswith(":"):
            name = name[:-1]
            try:
                value = msgspec.json.decode(text)
            except msgspec.DecodeError as error:
                raise InvalidInput(f"--attr {pair!r}: {text!r} is not JSON ({error}); strings need quotes") from None
        else:
            value = _infer(text)
        if name in attributes:
            raise InvalidInput(f"--attr {name} is given twice")
        attributes[name] = value
    schema_of(attributes)
    return attributes


def _infer(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            # Python also reads "1_000", " 1" and "nan": those are strings here
            return kind(text) if not set(text) - set("0123456789+-.eE") else text
        except ValueError:
            continue
    return text


def check_traces(text: str | None) -> Traces:
    """Return which traces are told; sums of them if nothing is said."""
    return "summed" if text is None else choice(text, get_args(Traces))
