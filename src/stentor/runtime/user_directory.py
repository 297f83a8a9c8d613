"""The directory of this user on this machine in which nodes and commands find each other, and nobody else writes."""

import errno
import os
import stat
import tempfile
from pathlib import Path


def runtime_folder(*, is_made: bool = False) -> Path:
    """Return where this user's pointers are; raise OSError if it is to be made and others may write there."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "stentor" if runtime else Path(tempfile.gettempdir()) / f"stentor-{os.getuid()}"
    if is_made:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_our_own(folder):
            raise PermissionError(errno.EPERM, "belongs to somebody else, or others may use it", str(folder))
    return folder


def is_our_own(folder: Path) -> bool:
    """Return whether a directory is there that nobody but this user may read or write."""
    try:
        about = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o077
