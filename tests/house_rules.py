"""Rules that not all of the house obeys yet. `house_violations.json` lists who does not, by rule and place, with how
often: a violation that is not listed fails, and so does one that is listed and gone. `make violations` writes the list
again, after a rename for instance, and refuses to if a rule has more violations than before.
"""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.dropped_names import DROPPED, pairs

import stentor

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "stentor"
FILE = Path(__file__).with_name("house_violations.json")
Found = Counter[str]

MOST_MODULES = 16  # in a package: as many as one looks over
LONGEST_LINE = 120  # columns of a document
_AT_ONCE = 3  # attributes
_FRAMES = {"flow", "frame", "head", "header", "parcel"}  # what bytes of frames are called
_LATER = {"after_commit", "consult", "locate", "recall", "scan", "then", "when_safe"}  # these wait for the disk
_SKIPS = "fmt:" + " skip"  # in two parts, or this line would be one

# Public classes that share a name, each for a reason: the rule leaves them alone.
SHARED_NAMES: dict[str, str] = {
    "Batch": "a batch of events, as matching needs to see it (an interface) and as applications hold it",
    "Charter": "the charter of a topic, and as much of it as the rules of access need (an interface)",
    "Subscription": "what a client says to its broker, under the name that the wire has, and what applications hold",
}


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text(encoding="utf-8"))


def _nodes(is_one: Callable[[ast.AST], bool], *, but: str = " ") -> Found:
    """Count the nodes of which something is true, by module, but for those of one package."""
    found: Found = Counter()
    for module, tree in _trees():
        if not module.startswith(but):
            found[module] += sum(map(is_one, ast.walk(tree)))
    return +found


def _classes() -> Iterator[tuple[str, str]]:
    for module, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield module, node.name


def tracked(*patterns: str) -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for each in done.stdout.split("\0") if each and (path := ROOT / each).is_file()]


def shared_names() -> Found:
    """Public classes of one name: one name means one thing."""
    names = Counter(name for _, name in _classes() if not name.startswith("_") and name not in SHARED_NAMES)
    return Counter({name: count for name, count in names.items() if count > 1})


def crowded_packages() -> Found:
    """Packages with too many modules."""
    modules = Counter(str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if path.stem != "__init__")
    return Counter({package: count for package, count in modules.items() if count > MOST_MODULES})


def skipped_formatting() -> Found:
    """Places that the formatter leaves alone: a call that it makes too long has too many arguments."""
    found = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count(_SKIPS) for path in tracked("*.py")}
    return +Counter(found)


def attributes_at_once() -> Found:
    """Assignments of three attributes or more: each deserves a line, where its comment can stand."""
    return _nodes(sets_attributes_at_once)


def sets_attributes_at_once(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign):
        return False
    targets = [part for each in node.targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
    return sum(isinstance(target, ast.Attribute) for target in targets) >= _AT_ONCE


def counted_bytes() -> Found:
    """Constant slices of frames outside `wire`, which alone knows where their fields stand."""
    return _nodes(counts_bytes, but="wire/")


def counts_bytes(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)):
        return False
    bounds = (node.slice.lower, node.slice.upper)
    return _name(node.value).split("_")[-1] in _FRAMES and any(isinstance(bound, ast.Constant) for bound in bounds)


def handed_lambdas() -> Found:
    """Lambdas that wait for a commit or a scan: no trace shows them, and they may run with an old time."""
    return _nodes(hands_lambda)


def hands_lambda(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    values = (*node.args, *(keyword.value for keyword in node.keywords))
    return _name(node.func) in _LATER and any(isinstance(value, ast.Lambda) for value in values)


def _name(node: ast.expr) -> str:
    """Return what a variable or attribute is called."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def dropped_names() -> Found:
    """Classes and modules whose names were dropped in the package that they are in."""
    there = {(module, name) for module, name in _classes()} | {(module, Path(module).stem) for module, _ in _trees()}
    found: Found = Counter()
    for package in DROPPED:
        dropped = pairs(package)
        inside = {name for module, name in there if module.startswith(f"{package}/")}
        found.update(f"{package}: {name}" for name in inside & dropped.keys())
    return found


def public_names() -> Found:
    """Names that are importable from `stentor` or in docs/api.md, and not both."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## (?:stentor\.)?(.*?)(?:\(|$)", text, flags=re.MULTILINE)
    code = " ".join(re.findall(r"`([^`]+)`", text))
    returned = set(re.findall(r"→ ([A-Z]\w+)", text))
    named = {name for head in heads for name in head.strip().split(", ") if " " not in name} & _importable() | returned
    public = set(stentor.__all__) - {"__version__"}
    return Counter(named - public) + Counter(name for name in public if not re.search(rf"\b{name}\b", code + text))


def _importable() -> set[str]:
    """Classes, functions and modules that there are: a heading may be about something else."""
    functions = {node.name for _, tree in _trees() for node in tree.body if isinstance(node, ast.FunctionDef)}
    return functions | {name for _, name in _classes()} | {Path(module).stem for module, _ in _trees()}


def long_lines() -> Found:
    """Lines of documents that do not fit."""
    found: Found = Counter()
    for path in tracked("*.md"):
        lines = path.read_text(encoding="utf-8").splitlines()
        found[str(path.relative_to(ROOT))] = sum(len(line) > LONGEST_LINE for line in lines)
    return +found


RULES: dict[str, Callable[[], Found]] = {
    rule.__name__: rule
    for rule in (
        shared_names,
        crowded_packages,
        skipped_formatting,
        attributes_at_once,
        counted_bytes,
        handed_lambdas,
        dropped_names,
        public_names,
        long_lines,
    )
}


def listed() -> dict[str, dict[str, int]]:
    """Return the violations that are known, by rule and place."""
    known: dict[str, dict[str, int]] = json.loads(FILE.read_text(encoding="utf-8"))
    return known


def main() -> None:
    """Write the list of today's violations, unless they have become more."""
    before = listed() if FILE.exists() else {}
    found = {name: dict(sorted(rule().items())) for name, rule in RULES.items()}
    more = [name for name, places in before.items() if sum(found[name].values()) > sum(places.values())]
    if more:
        sys.exit(f"more violations than before of {', '.join(more)}: mend them, the list may only shrink")
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
