"""One fabric for all tests of a module that only need some broker."""

from collections.abc import Iterator

import pytest
from tests.end_to_end.command import Fabric, fabric


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with fabric(tmp_path_factory.mktemp("fabric")) as up:
        yield up
