"""What simulated applications publish and ask for, with an oracle of its own for what matches."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from random import Random
from typing import Any, NamedTuple

from stentor.model.attribute import Value

Attributes = Mapping[str, Value]

TOPICS = ("a", "a/b", "a/b/c", "a/x", "b", "b/x", "été/ö", "$stentor/a")
PATTERNS = ("a", "a/b", "a/#", "#", "+", "+/x", "a/+/c", "b/#", "été/+", "$stentor/#", "nobody")
_COLOURS = ("red", "green", "blue", "grün")


class Condition(NamedTuple):
    """A filter as text, and what it means, said once more in Python."""

    text: str
    test: Callable[[Any], bool]

    def holds(self, attributes: Attributes) -> bool:
        """A filter that needs an attribute which is not there is not fulfilled."""
        try:
            return self.test(attributes)
        except KeyError:
            return False


CONDITIONS = (
    Condition("n > 5", lambda a: a["n"] > 5),
    Condition("n <= 3", lambda a: a["n"] <= 3),
    Condition("price < 2.5", lambda a: a["price"] < 2.5),
    Condition("colour = 'red'", lambda a: a["colour"] == "red"),
    Condition("urgent = TRUE", lambda a: a["urgent"] is True),
    Condition("n > 2 AND colour = 'grün'", lambda a: a["n"] > 2 and a["colour"] == "grün"),
    Condition(
        "(n > 7 OR price >= 5.0) AND colour != 'blue'",
        lambda a: (a["n"] > 7 or a["price"] >= 5.0) and a["colour"] != "blue",
    ),
    Condition("NOT (n = 4)", lambda a: a["n"] != 4),
    Condition("EXISTS urgent AND NOT urgent", lambda a: "urgent" in a and not a["urgent"]),
)


def mail_condition(name: str) -> Condition:
    """Return what whoever has this name wants of mail."""
    return Condition(f"to = '{name}'", lambda a: a["to"] == name)


class Interest(NamedTuple):
    """A pattern and a filter to subscribe to."""

    pattern: str
    where: str
    wants: Callable[[str, Attributes], bool]


def draw_interest(random: Random) -> Interest:
    pattern = random.choice(PATTERNS)
    if random.random() < 0.4:
        return Interest(pattern, "", lambda topic, _: covers(pattern, topic))
    condition = random.choice(CONDITIONS)
    return Interest(pattern, condition.text, lambda topic, a: covers(pattern, topic) and condition.holds(a))


def draw_attributes(random: Random) -> dict[str, Value]:
    """Some of them, now and then of another type than usual."""
    candidates: list[tuple[str, Value]] = [
        ("n", random.randrange(10)),
        ("price", random.randrange(40) / 4),
        ("colour", random.choice(_COLOURS)),
        ("urgent", random.random() < 0.5),
        ("free", random.choice((1, 1.5, "one", True))),
    ]
    return {name: value for name, value in candidates if random.random() < 0.6}


def covers(pattern: str, topic: str) -> bool:
    """Written another way than the matching that it checks."""
    return _regex(pattern).fullmatch(topic) is not None


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    text = re.escape(pattern).replace(r"\+", "[^/]*").replace("/\\#", "(/.*)?").replace(r"\#", ".*")
    hidden = "(?![$])" if pattern[0] in "+#" else ""
    return re.compile(hidden + text, re.DOTALL)
