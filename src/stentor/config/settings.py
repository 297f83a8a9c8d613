"""What a configuration says: the nodes to run, and what they have in common."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from stentor.config.address import Address
from stentor.config.problem import suggestion
from stentor.model.errors import ConfigError
from stentor.model.limits import Limits
from stentor.model.scope import ScopePath

CERTIFICATE_FILES = ("ca.pem", "cert.pem", "key.pem")  # what a certificate directory holds

Role = Literal["broker"]
LogLevel = Literal["debug", "info", "warning", "error"]


class Fabric(msgspec.Struct, frozen=True, kw_only=True):
    """What all nodes of this file share."""

    data: Annotated[Path, Meta(description="where nodes keep what must survive; relative to this file")]
    log: Annotated[LogLevel, Meta(description="the least important messages that are logged")] = "info"


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Certificates of a node: what `stentor certs` wrote."""

    directory: Annotated[Path, Meta(description="holds ca.pem, cert.pem and key.pem; relative to this file")]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node, with everything resolved: what it does not set comes from the file's other tables."""

    name: Annotated[ScopePath, Meta(description="unique path of scope names, such as campus/library/b1")]
    role: Annotated[Role, Meta(description="what the node does")] = "broker"
    listen: Annotated[Address, Meta(description="host:port for links; port 0 is any free one")]
    http: Annotated[Address | None, Meta(description='host:port for health and metrics; "" turns it off')]
    storage: Annotated[Path, Meta(description="where this node keeps what must survive; default <data>/<name>")]
    tls: Annotated[Tls | None, Meta(description="instead of the file's [tls]")] = None
    limits: Annotated[Limits, Meta(description="single limits that differ from the file's [limits]")] = Limits()


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file."""

    fabric: Fabric
    limits: Limits = Limits()
    tls: Tls | None = None
    nodes: Annotated[tuple[Node, ...], Meta(description="the nodes to run")] = msgspec.field(name="node")

    def node(self, name: str) -> Node:
        """The node of this name."""
        for node in self.nodes:
            if str(node.name) == name:
                return node
        raise ConfigError(f"no node is called {name!r}{suggestion(name, [str(node.name) for node in self.nodes])}")


DATA = Path(".stentor")
LISTEN = Address("127.0.0.1", 7420)
ANY_HTTP: Address | None = Address("127.0.0.1", 0)  # health is always there, and nodes of one file never collide on it


def default() -> Config:
    """What runs when there is no file: one broker that only this machine can reach."""
    local = Node(name=ScopePath(("local",)), listen=LISTEN, http=Address("127.0.0.1", 7480), storage=DATA / "local")
    return Config(fabric=Fabric(data=DATA), nodes=(local,))
