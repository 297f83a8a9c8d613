"""The control socket of `stentor up`: who asks gets an answer, and nothing else happens."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from stentor.cli.running.control import ControlSocket, start_broker
from stentor.cli.running.process import Assignment
from stentor.cli.running.supervisor import Supervisor
from stentor.model.errors import Unreachable
from stentor.model.limits import Limits

NEW = Assignment(
    name="x/b9", listen="127.0.0.1:0", http=None, storage="x", certificates=None, limits=Limits(), log="error"
)
_LOOKS = 500


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory of our own; sockets have short names."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "stentor"


def sockets(runtime: Path) -> list[Path]:
    return list(runtime.glob("*.sock"))


def served(data: Path, runtime: Path, act: Callable[[], Awaitable[None]]) -> list[str]:
    """Do something while a supervisor without nodes listens; return what it told people."""
    told: list[str] = []

    async def main() -> None:
        task = asyncio.create_task(ControlSocket(Supervisor([], told.append), data, told.append).run())
        for _ in range(_LOOKS):
            if told or sockets(runtime):
                break
            await asyncio.sleep(0.01)
        await act()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())
    return told


def test_nobody_who_listens_is_no_error(tmp_path: Path) -> None:
    assert asyncio.run(start_broker(tmp_path / "data", NEW)) is None


def test_a_reason_is_told_and_the_socket_goes_with_its_process(tmp_path: Path, runtime: Path) -> None:
    async def act() -> None:
        with pytest.raises(Unreachable, match="no broker of this fabric runs at the moment"):
            await start_broker(tmp_path / "data", NEW)
        assert await start_broker(tmp_path / "another", NEW) is None

    assert served(tmp_path / "data", runtime, act) == []
    assert list(runtime.iterdir()) == []


@pytest.mark.parametrize("line", [b"\n", b"nonsense\n", b'{"type":"broker"}\n', b"x" * (3 << 20) + b"\n"])
def test_nonsense_is_answered(tmp_path: Path, runtime: Path, line: bytes) -> None:
    async def act() -> None:
        (path,) = sockets(runtime)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(line)
        assert b"not an assignment of a broker" in await reader.readline()
        writer.close()

    assert served(tmp_path / "data", runtime, act) == []


def test_a_directory_that_others_may_use_is_not_used(tmp_path: Path, runtime: Path) -> None:
    runtime.mkdir(mode=0o777)
    runtime.chmod(0o777)

    async def act() -> None:
        assert await start_broker(tmp_path / "data", NEW) is None

    (told,) = served(tmp_path / "data", runtime, act)
    assert "cannot have brokers started here" in told
    assert "others may use it" in told
