"""URLs of brokers: stentor://host:port."""

from urllib.parse import urlsplit

from stentor.model.errors import InvalidInput

DEFAULT_PORT = 7420


def address_of(url: str) -> str:
    """The `host:port` of a URL."""
    parts = urlsplit(url if "//" in url else f"stentor://{url}")
    try:
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError:
        port = 0
    if not port:
        raise InvalidInput(f"{url!r}: the port must be a number from 1 to 65535")
    if parts.scheme != "stentor" or not parts.hostname or parts.path.strip("/") or parts.query or "@" in parts.netloc:
        raise InvalidInput(f"{url!r} is not a broker's address: write stentor://host:port")
    return f"[{parts.hostname}]:{port}" if ":" in parts.hostname else f"{parts.hostname}:{port}"


def addresses_of(url: str) -> tuple[str, ...]:
    """The `host:port` of every broker that a URL names: stentor://one:7420,two:7420."""
    scheme, slashes, hosts = url.rpartition("//")
    return tuple(address_of(f"{scheme}{slashes}{host}") for host in hosts.split(","))
