"""The documents: links lead somewhere, modules that are named exist, and every decision is in the index."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "stentor"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_MODULE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/one-event.md"])
def test_modules_that_a_page_names_exist(page: str) -> None:
    modules = _MODULE.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(modules) > 20
    assert [module for module in modules if not is_there(module)] == []


def is_there(module: str) -> bool:
    """Whether there is a module of this path; a bare name stands for the module of that name in any package."""
    return (SOURCE / module).exists() or (ROOT / module).exists() or ("/" not in module and any(SOURCE.rglob(module)))


def test_every_decision_is_in_the_index() -> None:
    decisions = ROOT / "docs" / "decisions"
    listed = _LINK.findall((decisions / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.name for path in decisions.glob("[0-9]*.md"))
