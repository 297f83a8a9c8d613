"""The real twin of a directory: files of the operating system."""

import errno
import os
from pathlib import Path


class RealFile:
    """One open file; positional reads and writes, so no cursor is shared."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self, offset: int = 0, size: int = -1) -> bytes:
        left = self.size() - offset if size < 0 else size
        parts = []
        while left > 0:
            part = os.pread(self._descriptor, left, offset)
            if not part:
                break
            parts.append(part)
            offset, left = offset + len(part), left - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def write(self, offset: int, data: bytes | memoryview) -> None:
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

    def rename(self, old: str, new: str) -> None:
        (self._path / old).rename(self._path / new)

    def replace(self, old: str, new: str) -> None:
        (self._path / old).replace(self._path / new)

    def remove(self, name: str) -> None:
        (self._path / name).unlink()

    def sync(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
