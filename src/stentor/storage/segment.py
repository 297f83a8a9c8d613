"""A log in one append-only file of checksummed records. Little-endian.

    file      "STENLOG" u8 version | record …
    record    u32 length | u32 crc32 | u64 durable | payload

`durable` is how many bytes of the file were known to be on the disk when the record was written. It tells a power cut
from damage: behind a bad record, one that was written when the bad one was durable already proves that something
acknowledged was destroyed; anything else was never acknowledged and is cut off. The checksum covers the record's
position as well, so that neither zeros nor a stray copy of a record pass for one.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final, NoReturn

from stentor.model.errors import StentorError
from stentor.storage.directory import Directory, File

VERSION: Final = 1
MAGIC: Final = b"STENLOG"
FILE_HEADER: Final = MAGIC + bytes([VERSION])
SUFFIX: Final = ".log"
_REPLACEMENT: Final = ".new"  # of a file that is to become a log's

_RECORD = struct.Struct("<IIQ")
_POSITION = struct.Struct("<IQQ")
LARGEST_RECORD: Final = (1 << 32) - 1


class LogError(StentorError):
    """A log that cannot do what was asked."""


class LogDamaged(LogError):
    """Something that was durable is not there any more, or the file is not a log of ours."""


class LogFailed(LogError):
    """The disk failed; what was not acknowledged may be lost, and nothing will be acknowledged any more."""


class LogFull(LogError):
    """No space: the record was not taken, earlier ones are safe, and a later one may be taken again."""


def stored_logs(directory: Directory) -> list[str]:
    """The names of the logs in a directory."""
    return [name.removesuffix(SUFFIX) for name in directory.names() if name.endswith(SUFFIX)]


class SegmentLog:
    """Append, sync, then acknowledge. `recovered` is what the log held when it was opened; it is durable."""

    __slots__ = ("_directory", "_durable", "_end", "_failure", "_file", "name", "recovered", "torn")

    def __init__(self, directory: Directory, name: str) -> None:
        self.name = name
        self._directory = directory
        self._failure = ""
        self._end = 0
        self._durable = 0
        self.torn = 0
        self.recovered: list[bytes] = []
        with ExitStack() as stack:
            try:
                self._file: File = directory.open(name + SUFFIX)
                stack.callback(self._file.close)
                self._recover(self._file.read())
                if name + _REPLACEMENT in directory.names():  # nobody got as far as giving it our name
                    directory.remove(name + _REPLACEMENT)
                directory.sync()
            except OSError as error:
                raise LogFailed(f"log {name!r} cannot be opened ({error})") from error
            stack.pop_all()

    def append(self, records: Sequence[bytes]) -> None:
        """Write records at the end; they are not durable before the next `sync`."""
        self._check_alive()
        data = b"".join(_encode_all(records, self._end, self._durable))
        try:
            self._file.write(self._end, data)
        except OSError as error:
            self._take_back(error)
        self._end += len(data)

    def sync(self) -> None:
        """Returns when everything appended is durable."""
        self._check_alive()
        end = self._end
        try:
            self._file.sync()
        except OSError as error:
            raise self._fail(f"log {self.name!r}: the disk did not sync ({error}); restart the node") from error
        self._durable = end

    def rewrite(self, records: Sequence[bytes]) -> None:
        """Returns when the log durably holds these records and nothing else. If that fails, it holds what it held."""
        self._check_alive()
        data = FILE_HEADER + b"".join(_encode_replacement(records))
        new = self.name + _REPLACEMENT
        with ExitStack() as stack:
            try:
                file = self._directory.open(new)
                stack.callback(file.close)
                file.truncate(0)
                file.write(0, data)
                file.sync()
                self._directory.replace(new, self.name + SUFFIX)
            except OSError as error:
                raise LogFull(f"log {self.name!r}: not rewritten ({error})") from error
            stack.pop_all()
        self._file.close()
        self._file, self._end = file, len(data)
        try:
            self._directory.sync()
        except OSError as error:
            raise self._fail(f"log {self.name!r}: the disk did not sync ({error}); restart the node") from error
        self._durable = self._end

    def close(self) -> None:
        self._file.close()

    def _recover(self, data: bytes) -> None:
        if len(data) <= len(FILE_HEADER):
            data = FILE_HEADER  # new or torn at birth: a header is durable before anything is appended
        self._check_header(data)
        self.recovered, self._end, suspect = _scan(data)
        self.torn = len(data) - self._end
        if self.torn:
            self._check_tail(data)
        self._file.truncate(self._end)
        # Written again: a page that once failed to sync looks clean to the kernel and would never reach the disk.
        self._file.write(suspect, data[suspect : self._end])
        self._file.sync()
        self._durable = self._end

    def _check_header(self, data: bytes) -> None:
        if data.startswith(FILE_HEADER):
            return
        if data.startswith(MAGIC):
            raise LogDamaged(
                f"log {self.name!r} has version {data[len(MAGIC)]}, this program reads {VERSION}: use the newer program"
            )
        raise LogDamaged(f"log {self.name!r} does not begin like one: the file is damaged or not ours")

    def _check_tail(self, data: bytes) -> None:
        for position in range(self._end + 1, len(data) - _RECORD.size + 1):
            durable = _durable_at(data, position)
            if durable > self._end and _payload(data, position) is not None:
                raise LogDamaged(
                    f"log {self.name!r} is damaged at byte {self._end}: a durable record is destroyed, "
                    f"while the one at byte {position} behind it is whole; restore the file or start from another copy"
                )

    def _take_back(self, error: OSError) -> NoReturn:
        """A write that failed leaves no trace, or the log is not used any more."""
        try:
            self._file.truncate(self._end)
        except OSError:
            raise self._fail(f"log {self.name!r}: the disk failed a write ({error}); restart the node") from error
        raise LogFull(f"log {self.name!r}: not written ({error})") from error

    def _check_alive(self) -> None:
        if self._failure:
            raise LogFailed(self._failure)

    def _fail(self, failure: str) -> LogFailed:
        self._failure = failure
        return LogFailed(failure)


def _encode_all(records: Sequence[bytes], position: int, durable: int) -> list[bytes]:
    parts = []
    for record in records:
        if len(record) > LARGEST_RECORD:
            raise ValueError(f"a record has at most {LARGEST_RECORD} bytes, this one has {len(record)}")
        checksum = _checksum(position, durable, record)
        parts += [_RECORD.pack(len(record), checksum, durable), record]
        position += _RECORD.size + len(record)
    return parts


def _encode_replacement(records: Sequence[bytes]) -> Iterator[bytes]:
    """Each record says that all in front of it is durable: that is so when the file has its name."""
    position = len(FILE_HEADER)
    for record in records:
        encoded = b"".join(_encode_all([record], position, position))
        position += len(encoded)
        yield encoded


def _checksum(position: int, durable: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(_POSITION.pack(len(payload), durable, position)))


def _durable_at(data: bytes, position: int) -> int:
    """What a record that began here would say was durable; 0 if it could not be true."""
    durable: int = _RECORD.unpack_from(data, position)[2]
    return durable if durable <= position else 0


def _payload(data: bytes, position: int) -> bytes | None:
    """The record that begins here, if one does."""
    if position + _RECORD.size > len(data):
        return None
    length, checksum, durable = _RECORD.unpack_from(data, position)
    start = position + _RECORD.size
    if start + length > len(data) or durable > position:
        return None
    payload = data[start : start + length]
    return payload if _checksum(position, durable, payload) == checksum else None


def _scan(data: bytes) -> tuple[list[bytes], int, int]:
    """The records in front of the first bad byte, where they end, and from where on they may not be durable."""
    records: list[bytes] = []
    position, suspect = len(FILE_HEADER), 0
    while (payload := _payload(data, position)) is not None:
        suspect = _durable_at(data, position)
        records.append(payload)
        position += _RECORD.size + len(payload)
    return records, position, suspect
