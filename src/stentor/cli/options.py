"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from stentor.model.attribute import Value, schema_of
from stentor.model.errors import InvalidInput

UrlOption = Annotated[
    str | None,
    typer.Option("--url", envvar="STENTOR_URL", help="The broker.", show_default="stentor://127.0.0.1:7420"),
]
TlsOption = Annotated[
    Path | None,
    typer.Option("--tls", envvar="STENTOR_TLS", help="A certificate directory as `stentor certs` writes it."),
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
AttributesOption = Annotated[
    list[str] | None,
    typer.Option("--attr", "-a", help="k=v infers integer, decimal, boolean or string; k:=JSON states it."),
]


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
