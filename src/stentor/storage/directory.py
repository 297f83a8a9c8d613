"""A directory of files, as little of one as a log needs. Its twins are `filesystem` (real) and `simulation.disk`.

Every method may raise OSError. What was written is durable after `File.sync`, a file's existence, name and
end after `Directory.sync`; until then a power cut may lose it, tear it or keep a later write without an earlier one.
"""

from typing import Protocol


class File(Protocol):
    def read(self, offset: int = 0, size: int = -1) -> bytes:
        """So many bytes from an offset on, or fewer if it ends before; all of them if no size is given."""
        ...

    def size(self) -> int: ...

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Put bytes at an offset; on OSError some of them may be there."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Directory(Protocol):
    def names(self) -> list[str]:
        """The files in it, sorted."""
        ...

    def open(self, name: str) -> File:
        """The file of this name, created if there is none."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file a name that no other one has."""
        ...

    def replace(self, old: str, new: str) -> None:
        """Give a file the name of another one, which is gone then; at no time there is none of this name."""
        ...

    def remove(self, name: str) -> None: ...

    def sync(self) -> None: ...
