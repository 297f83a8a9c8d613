"""What all tests need to hold on a busy machine, and in little time."""

import atexit
import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.postgresql import database, own_database, pytest_configure
from tests.skipping import pytest_runtest_makereport

__all__ = ["database", "own_database", "pytest_configure", "pytest_runtest_makereport"]  # fixtures and hooks

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of the many processes compiles all of the house anew

# where brokers of these tests leave pointers to their tokens, and nobody else's are found
os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="stentor-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_RUNTIME_DIR"], ignore_errors=True)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job; programs would not hear Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# those that take longest begin first, or the last of them would run alone while all others wait for it
_LONGEST = (
    "spark",  # first, so that one worker has all of them and others steal from its end: one session is enough
    "end_to_end/test_reliable.py",
    "end_to_end/test_repository_faults.py",
    "end_to_end/test_reliable_topics.py",
    "end_to_end/test_help_and_status.py",
    "end_to_end",
    "integration",
    "simulation",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files stay together, since their tests share what was started for them."""
    if not config.pluginmanager.hasplugin("randomly"):  # `make test-shuffled` has an order of its own
        items.sort(key=lambda item: _rank(item.path))


def _rank(path: Path) -> int:
    name = path.relative_to(Path(__file__).parent).as_posix()
    return next((place for place, long in enumerate(_LONGEST) if name.startswith(long)), len(_LONGEST))


def pytest_collection_finish() -> None:
    """Every collection of garbage would look through all that was imported, of which nothing is."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
