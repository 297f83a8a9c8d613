"""The C compiler: builds the load generator and the relay into the run's own directory, never into the tree."""

import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent


class CompilerError(Exception):
    """There is no C compiler on this machine."""


def _build(source: str, output: Path, *flags: str) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        raise CompilerError("no C compiler found: the load generator needs one (apt-get install gcc libc6-dev)")
    subprocess.run([compiler, "-O2", *flags, "-o", str(output), str(SOURCES / source)], check=True)
    return output


def program(source: str, directory: Path) -> Path:
    """An executable built from one source file."""
    return _build(source, directory / f"{Path(source).stem}.out")


def library(source: str, directory: Path) -> Path:
    """A shared library built from one source file, for ctypes."""
    return _build(source, directory / f"{Path(source).stem}.so", "-shared", "-fPIC")
