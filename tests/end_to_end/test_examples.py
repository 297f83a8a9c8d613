"""The programs in examples/ run as their first lines say, against a fabric as `stentor up` makes it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.end_to_end.command import PATIENCE, Fabric, environment

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PRINTED = {
    "best_effort.py": "flights/ewr: an hour late, 75 minutes\n",
    "blocking.py": "flights/jfk: UA17 is late\n",
    "reliable.py": "stored, 1 copy\n2 apples for 3.5\n",
}


def test_every_example_is_run_here() -> None:
    assert sorted(PRINTED) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_prints_what_it_promises(name: str, running: Fabric) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        env=environment({"STENTOR_URL": running.url()}),
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, PRINTED[name]), done.stderr
