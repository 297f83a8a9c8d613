"""The real twin of a directory: files of the operating system."""

import errno
import os
from pathlib import Path


class RealFile:
    """One open file; positional reads and writes, so no cursor is shared."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> bytes:
        size = os.fstat(self._descriptor).st_size
        parts = []
        position = 0
        while position < size:
            part = os.pread(self._descriptor, size - position, position)
            if not part:
                break
            parts.append(part)
            position += len(part)
        return b"".join(parts)

    def write(self, offset: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._descriptor, rest, offset)
            if not written:
                raise OSError(errno.EIO, "the file takes no bytes")
            rest, offset = rest[written:], offset + written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)  # flushes a changed size too, but not times

    def close(self) -> None:
        os.close(self._descriptor)


class RealDirectory:
    """A directory of the operating system, made if it is not there."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self._path.iterdir() if entry.is_file())

    def open(self, name: str) -> RealFile:
        return RealFile(self._path / name)

    def sync(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
