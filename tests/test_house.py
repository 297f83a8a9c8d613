"""The house itself: short modules and functions, honest names, layers, and a coverage list that tells the truth."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import house_rules
from tests.house_rules import ROOT, SOURCE, tracked

MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

LONGEST_MODULE = 500  # lines
LONGEST_FUNCTION = 70
BANNED = {"util", "utils", "helper", "helpers", "common", "misc", "manager"}
_ENTRY = re.compile(r"^- (?=\*\*[A-Z]{2}-\d{2}\*\*)", re.MULTILINE)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_is_a_house() -> None:
    assert len(MODULES) > 50
    assert len(TESTS) > 20


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_modules_and_functions_are_short(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert len(text.splitlines()) < LONGEST_MODULE
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    }
    assert {function: lines for function, lines in long.items() if lines >= LONGEST_FUNCTION} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    parts = {part for module in MODULES for part in module.relative_to(SOURCE).with_suffix("").parts}
    assert parts & BANNED == set()


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        name(module)
        for module in MODULES
        if (text := module.read_text(encoding="utf-8")).strip() and ast.get_docstring(ast.parse(text)) is None
    ]
    assert silent == []


def test_each_room_knows_only_the_rooms_below_it() -> None:
    check = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


# ---- rules with a list of those who do not keep them yet


@pytest.mark.parametrize("rule", sorted(house_rules.RULES))
def test_nobody_breaks_a_rule_but_those_that_are_listed(rule: str) -> None:
    found, listed = house_rules.RULES[rule](), Counter(house_rules.listed()[rule])
    assert not found - listed, house_rules.RULES[rule].__doc__
    assert not listed - found, "these are mended: `make violations` takes them out of the list"


@pytest.mark.parametrize(
    ("sees", "broken", "kept"),
    [
        (house_rules.counts_bytes, "record.frame[24:32]", "record.frame[start:end]"),
        (house_rules.hands_lambda, "self.commits.then(lambda now: tell(now))", "self.commits.then(self.tell)"),
        (house_rules.sets_attributes_at_once, "self.a, self.b, self.c = 1, 2, 3", "self.a, self.b, c = 1, 2, 3"),
        (house_rules.sets_attributes_at_once, "self.a = self.b = self.c = 0", "self.a = self.b = 0"),
    ],
)
def test_rules_see_what_breaks_them(sees: Callable[[ast.AST], bool], broken: str, kept: str) -> None:
    assert any(map(sees, ast.walk(ast.parse(broken))))
    assert not any(map(sees, ast.walk(ast.parse(kept))))


# ---- docs/internal/coverage.md


class Requirement:
    """One requirement of the list: its id and state, and below it the modules and tests that it names."""

    def __init__(self, entry: str) -> None:
        self.id, self.state = re.findall(r"^\*\*(.*?)\*\* \((.*?)\)", entry)[0]
        parts = dict(re.findall(r"^  - (modules|tests): (.*(?:\n    .*)*)", entry, flags=re.MULTILINE))
        self.modules = re.findall(r"`([^`]+)`", parts.get("modules", ""))
        self.tests = re.findall(r"`([^`]+)`", parts.get("tests", ""))


def requirements() -> dict[str, Requirement]:
    text = (ROOT / "docs" / "internal" / "coverage.md").read_text(encoding="utf-8")
    entries = [Requirement(entry) for entry in _ENTRY.split(text)[1:]]
    found = {entry.id: entry for entry in entries}
    assert len(found) == len(entries), "an id stands in the list once"
    return found


def marks() -> Iterator[tuple[Path, str]]:
    """Every id of every `@pytest.mark.req(…)`, with the file that has it."""
    for path in TESTS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.req"):
                for argument in node.args:
                    assert isinstance(argument, ast.Constant), f"{name(path)}: ids are written out"
                    yield path, str(argument.value)


def test_the_list_knows_every_requirement() -> None:
    found = requirements()
    papers = {requirement.split("-")[0] for requirement in found}
    assert papers == {"RD", "GE", "MK", "CO", "SC", "SP", "UX"}
    for paper in papers:
        numbers = sorted(int(requirement.split("-")[1]) for requirement in found if requirement.startswith(paper))
        assert numbers == list(range(1, len(numbers) + 1)), paper
    assert {row.state for row in found.values()} <= {"done", "part", "open"}


def test_tests_prove_only_requirements_that_there_are() -> None:
    known = requirements()
    assert [(name(path), proven) for path, proven in marks() if proven not in known] == []


def test_what_is_done_names_tests_and_modules_that_exist() -> None:
    wrong = []
    for row in requirements().values():
        if row.state == "open":
            continue
        missing = [test for test in row.tests if not (ROOT / test).exists()]
        missing += [part for part in row.modules if not (SOURCE / part).exists() and not (ROOT / part).exists()]
        if missing or (row.state == "done" and not row.tests):
            wrong.append((row.id, row.state, missing))
    assert wrong == []


def test_what_a_test_proves_is_not_called_open() -> None:
    known = requirements()
    still_open = {requirement for requirement, row in known.items() if row.state == "open"}
    assert [(name(path), proven) for path, proven in marks() if proven in still_open] == []


# ---- what must not be in here


def test_nothing_names_the_machine_it_was_made_on() -> None:
    # spelled in two parts, or this file would name them itself
    traces = [one + two for one, two in (("/wor", "k/"), ("pypi", ".org"), ("file://", "/opt"))]
    found = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [(name(path), trace) for trace in traces if trace in text]
    assert found == []
