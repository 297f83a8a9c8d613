"""[[access]] in a file: what it grants, and every way in which it can be wrong."""

import tomllib
from pathlib import Path

import pytest
from tests.unit.config.test_json_schema import accepts

from stentor.config import load_access, parse, schema
from stentor.model.errors import ConfigError
from stentor.policies.access import AccessRule, settle_access

NODE = "[[node]]\nname = 'b1'\n"
LINES = """
[[access]]
principals = ["alice", "team-*", "OU=trading"]
topics = ["quotes/#", "$stentor/+"]
publish = true
subscribe = true

[[access]]
principals = ["bob"]
send = true
names = ["billing", "desk-*"]
"""
RULES = (
    AccessRule(
        principals=("alice", "team-*", "OU=trading"), topics=("quotes/#", "$stentor/+"), publish=True, subscribe=True
    ),
    AccessRule(principals=("bob",), send=True, names=("billing", "desk-*")),
)


def test_lines_of_a_file_are_rules() -> None:
    config = parse(f"[fabric]\naccess = 'open'\n{NODE}{LINES}")
    assert config.access == RULES
    assert config.fabric.access == "open"
    assert parse(NODE).access == ()
    assert parse(NODE).fabric.access is None
    assert accepts(schema(), tomllib.loads(f"[fabric]\naccess = 'granted'\n{NODE}{LINES}"))


def test_a_rule_reads_as_it_is_written() -> None:
    for rule in RULES:
        written = str(rule).replace("[[access]] ", "[[access]]\n").replace("], ", "]\n").replace("true, ", "true\n")
        assert parse(NODE + written).access == (rule,)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("principals = []", "stentor.toml:4: access[0].principals: expected a list of words in quotes"),
        (
            "send = true",
            'stentor.toml:3: access[0].principals: missing; expected a list of principals such as ["alice"',
        ),
        ("principals = ['a']", "stentor.toml:3: access[0]: grants nothing: set publish, subscribe or send = true"),
        ("principals = ['a']\npublish = true", "stentor.toml:3: access[0].topics: missing; expected a list of topics"),
        ("principals = ['a']\nsubscribe = true\ntopics = ['a/#/b']", "stentor.toml:6: access[0].topics[0]: pattern"),
        ("principals = ['a', '']\nsend = true", "stentor.toml:4: access[0].principals[1]: expected a principal"),
        ("principals = ['OU=']\nsend = true", "stentor.toml:4: access[0].principals[0]: expected a principal"),
        ("principals = ['a']\nsend = 1", "stentor.toml:5: access[0].send: expected true or false, found 1"),
        ("principals = ['a']\nnames = ['']", "stentor.toml:5: access[0].names[0]: expected a client's name"),
        ("principals = ['a']\npublsh = true", "stentor.toml:5: access[0].publsh: unknown key; did you mean 'publish'?"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_with_its_place(lines: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"{NODE}[[access]]\n{lines}\n", "stentor.toml")
    assert any(each.startswith(complaint) for each in str(caught.value).splitlines()), str(caught.value)


def test_access_in_single_brackets_and_a_default_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"access: expected \[\[access\]\], in double brackets, found a table"):
        parse(f"{NODE}[access]\ndefault = 'open'")
    with pytest.raises(ConfigError, match=r"fabric\.access: expected granted or open, found"):
        parse(f"[fabric]\naccess = 'closed'\n{NODE}")
    assert not accepts(schema(), tomllib.loads(f"[fabric]\naccess = 'closed'\n{NODE}"))
    assert not accepts(schema(), tomllib.loads(f"{NODE}[[access]]\nsend = true"))


def test_with_tls_only_what_is_granted_holds_unless_a_file_says_otherwise() -> None:
    assert not settle_access((), None, secured=True).is_open
    assert settle_access((), None, secured=False).is_open
    assert settle_access((), "open", secured=True).is_open
    assert not settle_access((), "granted", secured=False).is_open
    assert settle_access((), "open", secured=True).owns_names
    assert not settle_access((), None, secured=False).owns_names


def test_a_file_of_lines_has_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "access.toml").write_text(LINES)
    assert load_access(tmp_path / "access.toml") == RULES
    (tmp_path / "more.toml").write_text(LINES + NODE)
    with pytest.raises(ConfigError, match=r"more.toml:12: node: unknown key: a file for --access holds \[\[access\]\]"):
        load_access(tmp_path / "more.toml")
    (tmp_path / "wrong.toml").write_text("[[access]]\nprincipals = alice")
    with pytest.raises(ConfigError, match=r"wrong\.toml: not TOML"):
        load_access(tmp_path / "wrong.toml")
    with pytest.raises(ConfigError, match="cannot read"):
        load_access(tmp_path / "nowhere.toml")
