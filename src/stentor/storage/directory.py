"""A directory of files, as little of one as a log needs. Its twins are `filesystem` (real) and `simulation.disk`.

Every method may raise OSError. What was written is durable after `File.sync`, a file's existence after
`Directory.sync`; until then a power cut may lose it, tear it or keep a later write without an earlier one.
"""

from typing import Protocol


class File(Protocol):
    def read(self) -> bytes:
        """Everything in it."""
        ...

    def write(self, offset: int, data: bytes) -> None:
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

    def sync(self) -> None: ...
