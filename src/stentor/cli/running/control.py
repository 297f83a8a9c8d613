"""The control socket of `stentor up`: by it other commands of the same user have one more broker started.

It lies in the user's runtime directory, under a name that follows from the data directory of the fabric. So whoever has
the file of a fabric finds the process that runs it, and nobody else's process is asked.
"""

import asyncio
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from stentor.cli.running.process import Assignment, Readiness
from stentor.cli.running.supervisor import Supervisor
from stentor.model.errors import StentorError, Unreachable
from stentor.runtime.user_directory import runtime_folder

_LONGEST = 1 << 20  # bytes of a request
_WITHIN = 40.0  # seconds: longer than a node may take to come up


class StartAnswer(msgspec.Struct, frozen=True):
    """What a supervisor answers."""

    node: Readiness | None
    reason: str = ""  # why it is not started


def _path(data: Path) -> Path:
    return runtime_folder() / f"up-{sha256(str(data.resolve()).encode()).hexdigest()[:16]}.sock"


class ControlSocket:
    """Starts brokers for those who ask."""

    def __init__(self, supervisor: Supervisor, data: Path, tell: Callable[[str], None]) -> None:
        self._supervisor = supervisor
        self._path = _path(data)
        self._tell = tell

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            runtime_folder(is_made=True)
            self._path.unlink(missing_ok=True)
            server = await asyncio.start_unix_server(self._serve, self._path, limit=_LONGEST)
        except OSError as error:
            self._tell(f"`stentor reconfigure` cannot have brokers started here: {self._path}: {error.strerror}")
            return
        try:
            async with server:
                await server.serve_forever()
        finally:
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._start(msgspec.json.decode(await reader.readline(), type=Assignment))
        except (ValueError, msgspec.MsgspecError) as error:
            answer = StartAnswer(None, f"not an assignment of a broker: {error}")
        writer.write(msgspec.json.encode(answer) + b"\n")
        writer.close()

    async def _start(self, assignment: Assignment) -> StartAnswer:
        models = self._supervisor.running()
        if not models:
            return StartAnswer(None, "no broker of this fabric runs at the moment")
        log, json_log, chaos = models[0].log, models[0].json_log, models[0].chaos
        chosen = msgspec.structs.replace(assignment, supervised=True, log=log, json_log=json_log, chaos=chaos)
        try:
            return StartAnswer(await self._supervisor.add(chosen))
        except StentorError as error:
            return StartAnswer(None, str(error))


async def start_broker(data: Path, assignment: Assignment) -> Readiness | None:
    """Have a broker started by the process that runs the fabric of a data directory; None if none does here."""
    try:
        reader, writer = await asyncio.open_unix_connection(_path(data))
    except OSError:
        return None
    try:
        writer.write(msgspec.json.encode(assignment) + b"\n")
        async with asyncio.timeout(_WITHIN):
            line = await reader.readline()
    except (OSError, TimeoutError):
        line = b""
    finally:
        writer.close()
    if not line:
        raise Unreachable(f"`stentor up` did not say whether it has started {assignment.name}")
    answer = msgspec.json.decode(line, type=StartAnswer)
    if answer.node is None:
        raise Unreachable(answer.reason)
    return answer.node
