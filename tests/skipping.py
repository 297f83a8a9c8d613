"""A skipped test is not a passed one.

`make test` lists what was skipped and why. With `CI` set, a test that proves a requirement fails instead of being
skipped, unless it skips through `lacks`: what only root or the kernel can give is nobody's fault, and is said.
"""

import os
import shutil
from collections.abc import Generator, Sequence
from typing import NoReturn

import pytest

LACKS = "only root or the kernel can give it: "
_SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # not on every user's path


def lacks(what: str) -> NoReturn:
    """Skip the running test, because this machine lacks something that no installation of ours can bring."""
    pytest.skip(LACKS + what)


def system_path() -> str:
    """Return the path on which commands are found, and the system's own directories behind it."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_DIRECTORIES))


def system_tool(name: str) -> str:
    """Return where a tool of the system is, on the path or beside it; skip the running test if it is nowhere."""
    return shutil.which(name, path=system_path()) or lacks(f"{name} is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a test that proves a requirement into a failure, where somebody counts on it."""
    report = yield
    if report.skipped and os.environ.get("CI") and item.get_closest_marker("req") is not None:
        reason = _reason(report)
        if not reason.startswith(LACKS):
            report.outcome = "failed"
            report.longrepr = f"it proves a requirement and was skipped: {reason}"
    return report


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped; pytest reports that as (file, line, reason)."""
    said = report.longrepr[2] if isinstance(report.longrepr, Sequence) else report.longrepr
    return str(said).removeprefix("Skipped: ")
