"""Topics are `/`-separated names; patterns are topics in which `+` is any one level and a final `#` any rest."""

from stentor.model.errors import TopicError

LONGEST_TOPIC = 1024  # bytes of UTF-8
DEEPEST_TOPIC = 64  # levels


def check_topic(topic: str) -> str:
    """The topic itself, if events can be published on it."""
    _check_name(topic, "topic")
    if "+" in topic or "#" in topic:
        raise TopicError(
            f"topic {topic!r} holds a wildcard: '+' and '#' are for subscribing, publish on one topic at a time"
        )
    return topic


def check_pattern(pattern: str) -> str:
    """The pattern itself, if it can be subscribed to."""
    _check_name(pattern, "pattern")
    levels = pattern.split("/")
    for position, level in enumerate(levels):
        if level == "#" and position != len(levels) - 1:
            raise TopicError(f"pattern {pattern!r}: '#' stands for all that follows, so it must be the last level")
        if len(level) > 1 and ("+" in level or "#" in level):
            raise TopicError(f"pattern {pattern!r}: a wildcard fills a whole level, {level!r} mixes it with a name")
    return pattern


def matches(pattern: str, topic: str) -> bool:
    """Whether the pattern covers the topic: `a/#` covers `a`, and wildcards do not see `$` topics at the front."""
    wanted, levels = pattern.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    for position, level in enumerate(wanted):
        if level == "#":
            return True
        if position >= len(levels) or level not in ("+", levels[position]):
            return False
    return len(wanted) == len(levels)


def covers(pattern: str, other: str) -> bool:
    """Whether the pattern covers every topic that the other pattern covers."""
    wide, narrow = pattern.split("/"), other.split("/")
    if other.startswith("$") and wide[0] in ("+", "#"):
        return False
    if narrow == ["#"]:  # a topic has at least one level, so that `+/#` is the same
        return wide in (["#"], ["+", "#"])
    for position, level in enumerate(wide):
        if level == "#":
            return True
        if position >= len(narrow) or narrow[position] == "#" or level not in ("+", narrow[position]):
            return False
    return len(wide) == len(narrow)


def _check_name(name: str, what: str) -> None:
    if not name:
        raise TopicError(f"a {what} must not be empty")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise TopicError(f"{what} {name!r} is not valid Unicode") from None
    if size > LONGEST_TOPIC:
        raise TopicError(f"a {what} has at most {LONGEST_TOPIC} bytes, this one has {size}: {name[:40]!r}…")
    if name.count("/") >= DEEPEST_TOPIC:
        raise TopicError(f"a {what} has at most {DEEPEST_TOPIC} levels: {name[:40]!r}…")
    if "\0" in name:
        raise TopicError(f"{what} {name!r} holds a NUL character")
