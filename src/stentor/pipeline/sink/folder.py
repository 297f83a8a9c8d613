"""A folder that outlives crashes: here, or wherever pyarrow can write."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from stentor.model.errors import InvalidInput


class Folder:
    """Files under one path, which an option names. What a method has returned from is durable."""

    def __init__(self, uri: str, option: str) -> None:
        self.uri, self._option = uri, option
        try:
            self._files, self._path = _resolve(uri)
        except (OSError, ValueError) as error:
            raise InvalidInput(f'option "{option}": {error}') from None
        self._local = isinstance(self._files, fs.LocalFileSystem)

    def within(self, name: str) -> "Folder":
        return Folder(f"{self.uri.rstrip('/')}/{name}", self._option)

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidInput(f'option "{self._option}": {self.uri}: {error}') from None

    def make(self) -> None:
        with self._said():
            self._files.create_dir(self._path, recursive=True)

    def names(self) -> list[str]:
        with self._said():
            found = self._files.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return sorted(each.base_name for each in found if each.type is fs.FileType.File)

    def read(self, name: str) -> bytes | None:
        """What a file holds; None if there is none."""
        with self._said():
            try:
                with self._files.open_input_stream(self._at(name)) as file:
                    return bytes(file.read())
            except FileNotFoundError:
                return None

    def write_once(self, name: str, content: bytes) -> bool:
        """Write a file as a whole, unless it is there: then it stays as it is, and False is returned."""
        draft = f".{name}.{uuid4().hex}"
        with self._said():
            with self._files.open_output_stream(self._at(draft)) as file:
                file.write(content)
            self._sync(draft)
            try:
                return self._claim(draft, name)
            finally:
                with suppress(FileNotFoundError):
                    self._files.delete_file(self._at(draft))
                self._sync()

    def _claim(self, draft: str, name: str) -> bool:
        if self._local:
            try:
                os.link(self._at(draft), self._at(name))
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
                    raise
            else:
                return True
        if self._files.get_file_info(self._at(name)).type is fs.FileType.File:
            return False
        self._files.move(self._at(draft), self._at(name))
        return True

    def rename(self, name: str, to: str) -> None:
        with self._said():
            self._files.move(self._at(name), self._at(to))
            self._sync()

    def remove(self, *names: str) -> None:
        with self._said():
            for name in names:
                with suppress(FileNotFoundError):
                    self._files.delete_file(self._at(name))

    def clear(self) -> None:
        """All of it is gone."""
        with self._said(), suppress(FileNotFoundError):
            self._files.delete_dir(self._path)

    @contextmanager
    def rows(self, name: str, schema: pa.Schema) -> Iterator[pa.ipc.RecordBatchFileWriter]:
        """A file of Arrow batches, durable when it is left."""
        with self._said():
            with (
                self._files.open_output_stream(self._at(name)) as file,
                pa.ipc.new_file(file, schema) as writer,
            ):
                yield writer
            self._sync(name)
            self._sync()

    def batches(self, name: str) -> Iterator[pa.RecordBatch]:
        try:
            file = self._files.open_input_file(self._at(name))
        except FileNotFoundError:
            raise InvalidInput(
                f'option "{self._option}": {self.uri}/{name}, which a task has written, is not here: all machines of '
                "the cluster must see the same files there"
            ) from None
        with self._said(), file:
            reader = pa.ipc.open_file(file)
            for place in range(reader.num_record_batches):
                yield reader.get_batch(place)

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    def _sync(self, name: str = "") -> None:
        """A file, or the folder itself, is on the disk; other file systems see to that themselves."""
        if not self._local:
            return
        handle = os.open(self._at(name), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _resolve(uri: str) -> tuple[fs.FileSystem, str]:
    scheme, colon, rest = uri.partition(":")
    if colon and scheme == "file":
        return fs.LocalFileSystem(), "/" + rest.lstrip("/")
    if colon and len(scheme) > 1 and "/" not in scheme:
        files, path = fs.FileSystem.from_uri(uri)
        return files, path
    return fs.LocalFileSystem(), str(Path(uri).absolute())
