"""Debian packages: peers that are missing are installed when we may, and named when we may not."""

import os
import shutil
import subprocess

from benchmarks.targets.target import TargetError


def program(name: str, package: str, install: bool) -> str:
    """The path of a program, after an attempt to install its package if it is missing."""
    # Debian puts daemons where only root's PATH looks
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"
    found = shutil.which(name, path=path)
    if found is None and install:
        _install(package)
        found = shutil.which(name, path=path)
    if found is None:
        raise TargetError(f"{name} is not installed: apt-get install {package}")
    return found


def _install(package: str) -> None:
    apt = shutil.which("apt-get")
    if apt is None:
        raise TargetError(f"{package} is not installed, and there is no apt-get to install it")
    if os.geteuid() != 0:
        raise TargetError(f"{package} is not installed, and only root may: sudo apt-get install {package}")
    # RUNLEVEL=1 keeps the package from starting a service of its own, which would compete with the run
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = [apt, "install", "-y", "--no-install-recommends", package]
    # the first attempt fails where the package lists are missing or old
    for command in (install, [apt, "update"], install):
        outcome = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        if command is install and outcome.returncode == 0:
            return
    reason = (outcome.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise TargetError(f"apt-get install {package} failed: {reason}")
