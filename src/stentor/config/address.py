"""Where a node listens, and who may reach that."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from stentor.model.errors import ConfigError, InvalidInput

_EXPECTED = 'expected host:port such as "127.0.0.1:7420" or "[::1]:7420"'
_HOST_NAME = re.compile(r"(?=.{1,253}$)(?!-)[A-Za-z0-9_-]{1,63}(\.(?!-)[A-Za-z0-9_-]{1,63})*")
_LOOPBACK = ip_network("127.0.0.0/8")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port to bind; port 0 is any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        host, colon, digits = text.rpartition(":")
        if not colon or not digits.isascii() or not digits.isdigit() or len(digits) > 5 or int(digits) > 65535:
            raise InvalidInput(f'{_EXPECTED} with a port from 0 to 65535, found "{text}"')
        if host.startswith("[") and host.endswith("]"):
            if not isinstance(_literal(host[1:-1]), IPv6Address):
                raise InvalidInput(f'{_EXPECTED}, found "{text}": {host} is not an IPv6 address')
            return cls(host[1:-1], int(digits))
        if ":" in host:
            raise InvalidInput(f'{_EXPECTED}, found "{text}": an IPv6 address goes in brackets')
        if not host:
            raise InvalidInput(f'{_EXPECTED}, found "{text}" without a host')
        if _literal(host) is None and not is_host_name(host):
            raise InvalidInput(f'{_EXPECTED}, found "{text}": {host!r} is neither an IPv4 address nor a host name')
        return cls(host, int(digits))

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def canonical(self) -> "Address":
        """The one spelling that stands for all of its kind."""
        return Address(_canonical(self.host), self.port)

    def collides(self, other: "Address") -> bool:
        """Whether only one of the two can be bound on a machine, as far as their text tells."""
        return self.port != 0 and self.canonical == other.canonical

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it: 127.0.0.0/8, ::1 and localhost; any other name is taken for a way in."""
    literal = _literal(host)
    if isinstance(literal, IPv4Address):
        return literal in _LOOPBACK
    if isinstance(literal, IPv6Address):
        return literal == IPv6Address("::1")
    return host.lower() == "localhost"


def is_host_name(host: str) -> bool:
    """Whether it can be looked up; what ends in a number is an address, or a mistyped one."""
    return _HOST_NAME.fullmatch(host) is not None and not host.rpartition(".")[2].isdigit()


def check_exposure(address: Address, *, secured: bool) -> None:
    """Refuses an address that others can reach, unless TLS with client certificates guards it."""
    if not secured and not address.loopback:
        raise ConfigError(
            f"{address} can be reached by other machines and has no TLS: "
            "make certificates with `stentor certs init certs --host NAME`, then set [tls] directory = "
            '"certs/node", or listen on 127.0.0.1'
        )


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _canonical(host: str) -> str:
    return "127.0.0.1" if host.lower() == "localhost" else str(_literal(host) or host.lower())
