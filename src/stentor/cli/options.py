"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

UrlOption = Annotated[
    str | None,
    typer.Option("--url", envvar="STENTOR_URL", help="The broker.", show_default="stentor://127.0.0.1:7420"),
]
TlsOption = Annotated[
    Path | None,
    typer.Option("--tls", envvar="STENTOR_TLS", help="A certificate directory as `stentor certs` writes it."),
]
