"""What a client is called that was given no name: something that nobody else is called."""

import os
import socket
from contextlib import suppress
from pathlib import Path

from stentor.model.errors import InvalidInput
from stentor.model.ranges import check_client_name


def fresh_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"


def made_up_name(certificates: str | Path | None) -> str:
    """Return a name that nobody else has; with TLS it begins with our principal, so that it is ours to take."""
    made_up = fresh_name()
    if certificates is None:
        return made_up
    from stentor.runtime.tls import own_principal  # heavy: only for those who need it

    with suppress(InvalidInput):  # whoever opens a link with these certificates says what is wrong with them
        own = f"{own_principal(Path(certificates))}:{made_up}"
        check_client_name(own)
        return own
    return made_up
