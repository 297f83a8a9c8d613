"""What `stentor topic` and `stentor repository` have in common: whom they ask, and how they show that they wait."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from stentor.admin.topics import Registrar
from stentor.client.fabric import connect
from stentor.config.quantity import duration
from stentor.model.errors import InvalidInput

JsonOption = Annotated[bool, typer.Option("--json", help="Everything, as JSON.")]
WithinOption = Annotated[float, typer.Option("--timeout", help="Seconds to wait until it is so.")]


@asynccontextmanager
async def registrar(
    url: str | None, tls: Path | None, wait: float = 0.0, token: Path | None = None
) -> AsyncIterator[Registrar]:
    async with connect(url, tls=tls, token=token, wait=wait) as fabric, Registrar(fabric) as asking:
        yield asking


@contextmanager
def waiting(what: str) -> Iterator[Callable[[str], None]]:
    """On a terminal, a line that tells what it waits for."""
    with Console(stderr=True, highlight=False).status(what) as line:
        yield lambda text: line.update(f"{what}: {text}")


def seconds(text: str | None, option: str) -> int:
    """Whole seconds, as people write them; 0 if nothing is said."""
    if text is None:
        return 0
    try:
        number = duration(float(text) if text.replace(".", "", 1).isdigit() else text)
    except InvalidInput as error:
        raise InvalidInput(f"{option}: {error}") from None
    if number < 1 or number > 1e11:
        raise InvalidInput(f"{option} {text}: expected at least 1 s")
    return int(number)


def several(texts: list[str] | None) -> list[str]:
    """Names, given one by one or joined by commas."""
    return [name for text in texts or [] for name in text.split(",") if name]
