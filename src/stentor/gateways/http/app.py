"""HTTP beside a node: what is where, is it alive, is it ready, what does it count."""

import asyncio
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from stentor.config import Address
from stentor.gateways.http.connections import BoundedServer, bounded
from stentor.gateways.http.node import ServedNode, free_space
from stentor.gateways.http.page import POLICY, page


class _Metrics(Collector):
    """Asks the nodes when they are scraped, so that nothing is counted twice and nothing costs in between."""

    def __init__(self, nodes: Sequence[ServedNode]) -> None:
        self._nodes = nodes

    def collect(self) -> Iterator[Metric]:
        for node in self._nodes:
            yield from node.metrics()
        yield from free_space(self._nodes)


def application(nodes: Sequence[ServedNode]) -> Starlette:
    """Return what serves the nodes of a process: a broker, a repository, or a broker and then the repository inside it.

    The sequence is read at each request: a node may join it later, and leave.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(nodes))

    async def index(request: Request) -> Response:  # noqa: ARG001
        return HTMLResponse(page(nodes), headers={"Content-Security-Policy": POLICY})

    async def live(request: Request) -> Response:  # noqa: ARG001
        return PlainTextResponse("alive\n")

    async def readiness(request: Request) -> Response:  # noqa: ARG001
        reasons = [reason for node in nodes for reason in node.waits_for()]
        if reasons:
            return PlainTextResponse("\n".join(["not ready", *reasons, ""]), 503)
        return PlainTextResponse("ready\n")

    async def metrics(request: Request) -> Response:  # noqa: ARG001
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    async def report(request: Request) -> Response:  # noqa: ARG001
        own, *inside = nodes
        found = {**msgspec.to_builtins(own.status()), **{node.role: node.status() for node in inside}}
        return Response(msgspec.json.encode(found), media_type="application/json")

    return Starlette(
        routes=[
            Route("/", index),
            Route("/livez", live),
            Route("/readyz", readiness),
            Route("/metrics", metrics),
            Route("/status", report),
        ]
    )


class _Server(BoundedServer):
    """The node's process handles its signals itself."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves an application on the node's own event loop until it is closed."""

    def __init__(self, app: Starlette, listener: socket.socket, certificates: Path | None) -> None:
        def context(*_: object) -> ssl.SSLContext:
            from stentor.runtime.tls import server_context  # heavy: only for those who need it

            assert certificates is not None
            return server_context(certificates)

        config = bounded(app, ssl_context_factory=None if certificates is None else context)
        host, port = listener.getsockname()[:2]
        self.url = f"{'http' if certificates is None else 'https'}://{Address(host, port)}"
        self._server = _Server(config)
        self._task = asyncio.get_running_loop().create_task(self._server.serve([listener]))

    async def close(self) -> None:
        self._server.should_exit = True
        await self._task
