"""The [[access]] lines of a file: who may publish, subscribe, send and take names, where nothing else says so."""

import re
import tomllib
from pathlib import Path

from stentor.config import value as values
from stentor.config.lines import Key, locate
from stentor.config.problem import Problems, describe
from stentor.config.table import Table, Tables
from stentor.model.errors import ConfigError, InvalidInput
from stentor.policies.access import AccessRule

_RIGHTS = ("publish", "subscribe", "send")
_ATTRIBUTE = re.compile(r"[A-Za-z]+=.+")


def read_access(tables: Tables, top: Table) -> tuple[AccessRule, ...]:
    """Return the lines of a file; what is wrong with them is reported."""
    return tuple(_rule(tables, value, key) for key, value in tables.array(top, "access"))


def load_access(path: Path) -> tuple[AccessRule, ...]:
    """Return the lines of a file that has nothing else, for those who run without a configuration."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        document = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the access lines: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not TOML in UTF-8: {error}") from error
    problems = Problems(str(path), locate(text))
    for name in document:
        if name != "access":
            problems.add((name,), "unknown key: a file for --access holds [[access]] and nothing else")
    rules = read_access(Tables(problems), document)
    problems.raise_if_any()
    return rules


def _rule(tables: Tables, value: object, key: Key) -> AccessRule:
    table = tables.table(value, key, AccessRule)
    tables.require(table, (*key, "principals"), 'a list of principals such as ["alice", "team-*", "OU=trading"]')
    principals = tables.words(table, (*key, "principals"), _principal)
    topics = tables.words(table, (*key, "topics"), values.topic_pattern)
    names = tables.words(table, (*key, "names"), _name)
    rights = {right: tables.take(table, (*key, right), values.boolean, False) for right in _RIGHTS}
    reported = any((*key, name) in tables.reported for name in ("topics", "names", *_RIGHTS))
    if (rights["publish"] or rights["subscribe"]) and "topics" not in table:
        tables.require(table, (*key, "topics"), 'a list of topics and patterns such as ["quotes/#"]')
    elif not reported and not names and not any(rights.values()) and "names" not in table:
        tables.problems.add(key, "grants nothing: set publish, subscribe or send = true, or names")
    return AccessRule(principals=principals, topics=topics, names=names, **rights)


def _principal(value: object) -> str:
    text = values.text(value, "a principal")
    if not text or ("=" in text and not _ATTRIBUTE.fullmatch(text)):
        raise InvalidInput(
            f"expected a principal, a pattern or an attribute such as OU=trading, found {describe(text)}"
        )
    return text


def _name(value: object) -> str:
    text = values.text(value, "a client's name")
    if not text or not text.isprintable():
        raise InvalidInput(f"expected a client's name or a pattern such as desk-*, found {describe(text)}")
    return text
