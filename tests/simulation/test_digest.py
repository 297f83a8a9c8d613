"""A seed replays to one digest: in another process, with another PYTHONHASHSEED, with other names in the code."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulation import digests

from stentor.simulation.scenarios import SCENARIOS

SEEDS = {
    "access": range(10),
    "broker": range(5),
    "delivery": range(12),
    "fabric": range(6),
    "fuzz": range(10),
    "log": range(50),
    "network": range(8),
    "overlay": range(30),
}
SOURCE = Path(__file__).resolve().parents[2] / "src" / "stentor"
RENAMES = {  # a class, a field of an effect, a module, and a timer
    r"\bLinkLost\b": "ConnectionGone",
    r"\bjitter\b": "spread",
    r"\bsimulation\.journal\b": "simulation.write_log",
    r"\bClientTick\b": "KeepAlive",
}
KINDS = {"Input", "Effect", "Timer", "ClientTimer"}
PROGRAM = """
import sys
from stentor.simulation.scenarios import SCENARIOS
name, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for seed in range(first, last):
    print(SCENARIOS[name].run(seed).digest)
"""


def digests_elsewhere(name: str, seeds: range, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, str(seeds.start), str(seeds.stop)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [digests.shorten(digest) for digest in done.stdout.split()]


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_a_seed_has_one_digest(name: str) -> None:
    """Those in the file are what workers of other tests find, each with a hash seed of its own."""
    before = digests.load()[name][: len(SEEDS[name])]
    assert len(set(before)) == len(before)
    assert before == digests_elsewhere(name, SEEDS[name], PYTHONHASHSEED="4242")


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_keeping_a_trace_changes_nothing_but_the_trace(name: str) -> None:
    plain, traced = SCENARIOS[name].run(3), SCENARIOS[name].run(3, keep_trace=True)
    assert traced.trace
    assert (plain.digest, plain.anomalies, plain.statistics) == (traced.digest, traced.anomalies, traced.statistics)


def test_digests_outlive_names_of_classes_fields_modules_and_timers(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "stentor", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "stentor/simulation/journal.py").rename(tmp_path / "stentor/simulation/write_log.py")
    found = dict.fromkeys(RENAMES, 0)
    for module in tmp_path.rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        for former, name in RENAMES.items():
            text, count = re.subn(former, name, text, flags=re.MULTILINE)
            found[former] += count
        module.write_text(text, encoding="utf-8")
    assert all(found.values()), found
    for name in ("network", "delivery"):
        assert digests_elsewhere(name, range(2), PYTHONPATH=str(tmp_path)) == digests.load()[name][:2]


def test_every_input_effect_and_timer_has_its_tag_written_out() -> None:
    tags = {}
    for module in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & KINDS:
                tags[module, node.name] = [ast.unparse(each.value) for each in node.keywords if each.arg == "tag"]
    assert len(tags) > 100
    assert [name for (_, name), tag in tags.items() if not tag and name not in KINDS] == []
