"""The fabric's token on this machine: its file, and the pointers by which commands find it from anywhere.

The token of a fabric is a file of mode 0600 in its data directory. A broker without TLS leaves a pointer under its
address in the user's runtime directory, a file that names the token's; what can be read there is this user's own.
"""

import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from stentor.model.errors import ConfigError
from stentor.model.trust.token import FabricToken
from stentor.runtime.user_directory import is_our_own, runtime_folder

_BYTES = 32
_SHORTEST = 16  # bytes of a token that somebody made by hand
_LARGEST_FILE = 4096
_LOOPBACK = ("127.0.0.1", "[::1]")  # what localhost may be


def make_token(path: Path) -> FabricToken:
    """Return the token of this file, which is made if it is not there."""
    with suppress(FileNotFoundError):
        return _read(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # of mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_hex(_BYTES).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(temporary, path)  # never replaces: nodes that start together agree on the first one
        finally:
            Path(temporary).unlink()
    except OSError as error:
        raise ConfigError(f"{path}: cannot write the fabric's token: {error.strerror}") from None
    return load_token(path)


def load_token(path: Path) -> FabricToken:
    """Return the token of a file that must be there."""
    try:
        return _read(path)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such token; `stentor up` makes one in the data directory of its fabric"
        ) from None


def _read(path: Path) -> FabricToken:
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            text = file.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the fabric's token: {error.strerror}") from None
    if os.getuid() not in (about.st_uid, 0) and about.st_uid != 0:
        raise ConfigError(f"{path}: the fabric's token belongs to another user, who could have made it up")
    if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"{path}: others can read the fabric's token: `chmod 600 {path}`")
    value = text.strip()
    if not _SHORTEST <= len(value) <= _LARGEST_FILE:
        raise ConfigError(f"{path}: expected a token of at least {_SHORTEST} bytes, found {len(value)}")
    return FabricToken(value)


def announce_token(address: str, path: Path) -> str:
    """Leave a pointer to a token under a broker's address; returns why that cannot be, or ""."""
    folder = runtime_folder()
    try:
        runtime_folder(is_made=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".pointer.")
        with os.fdopen(handle, "w") as file:
            file.write(f"{path.resolve()}\n")
        Path(temporary).replace(folder / address)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return ""


def withdraw_token(address: str, path: Path) -> None:
    """Take a pointer away, unless it is another fabric's by now."""
    if pointed_path(address) == path.resolve():
        with suppress(OSError):
            (runtime_folder() / address).unlink()


def find_token(address: str) -> FabricToken | None:
    """Return the token of the fabric whose broker listens at an address, if this user may read it."""
    path = pointed_path(address)
    if path is not None:
        with suppress(ConfigError, FileNotFoundError):  # of a fabric that is gone, or not ours to use
            return _read(path)
    return None


def pointed_path(address: str) -> Path | None:
    """Return the file that the pointer of an address names."""
    folder = runtime_folder()
    if not is_our_own(folder):
        return None
    host, _, port = address.rpartition(":")
    for each in [host] if host.lower() != "localhost" else _LOOPBACK:
        with suppress(OSError, ValueError):
            return Path((folder / f"{each}:{port}").read_text().strip())
    return None
