"""HTTP beside a node: is it alive, is it ready, what does it count."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from stentor.gateways.http.metrics import StatusCollector
from stentor.model.status import NodeStatus


def application(status: Callable[[], NodeStatus], ready: Callable[[], bool]) -> Starlette:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(status))

    async def live(request: Request) -> Response:  # noqa: ARG001
        return PlainTextResponse("alive\n")

    async def readiness(request: Request) -> Response:  # noqa: ARG001
        return PlainTextResponse("ready\n") if ready() else PlainTextResponse("not ready\n", 503)

    async def metrics(request: Request) -> Response:  # noqa: ARG001
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    async def report(request: Request) -> Response:  # noqa: ARG001
        return Response(msgspec.json.encode(status()), media_type="application/json")

    return Starlette(
        routes=[
            Route("/livez", live),
            Route("/readyz", readiness),
            Route("/metrics", metrics),
            Route("/status", report),
        ]
    )


class _Server(uvicorn.Server):
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

        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
            ssl_context_factory=None if certificates is None else context,
        )
        self._server = _Server(config)
        self._task = asyncio.get_running_loop().create_task(self._server.serve([listener]))

    async def close(self) -> None:
        self._server.should_exit = True
        await self._task
