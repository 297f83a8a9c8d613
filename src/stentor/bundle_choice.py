"""Which repositories a new topic gets, and whether a topic that exists is the one that is asked for."""

from collections.abc import Mapping, Sequence

from stentor.config.quantity import span
from stentor.model.errors import InvalidInput, Refusal, Refused
from stentor.model.report import RepositoryReport, TopicReport

Found = Mapping[str, RepositoryReport]  # the repositories that answered when they were asked about the topic


def choose(found: Found, named: Sequence[str]) -> dict[str, RepositoryReport]:
    """Return the repositories that are named, or all that are willing; Refused if one of the named is not."""
    for name in named:
        check_willing(found, name)
    chosen = {name: found[name] for name in dict.fromkeys(named)} if named else _willing(found)
    if not chosen:
        unwilling = [report.unwilling for report in found.values() if report.unwilling is not None]
        reasons = "; ".join(each.reason for each in unwilling)
        raise Refused(unwilling[0].code, f"no repository is willing to manage this topic: {reasons}")
    return chosen


def check_willing(found: Found, name: str) -> None:
    """Raise Refused if a repository does not want to manage the topic; that names others which do."""
    unwilling = found[name].unwilling
    if unwilling is not None:
        others = ", ".join(_willing(found)) or "none of those that answer"
        raise Refused(unwilling.code, f"{unwilling.reason}; willing to manage this topic: {others}")


def _willing(found: Found) -> dict[str, RepositoryReport]:
    return {name: report for name, report in found.items() if report.unwilling is None}


def check_bundle(there: Found, copies: int, hold: bool) -> None:
    """Raise InvalidInput if these repositories cannot be the bundle of a topic."""
    everyone = [name for name, report in there.items() if not report.unit]
    if not everyone:
        raise InvalidInput(f"{', '.join(there)}: one of the repositories must serve the whole network")
    if hold and not any(report.unit and "/" not in report.unit for report in there.values()):
        raise InvalidInput(
            f"{', '.join(there)}: to hold events at borders, a repository must serve each top-level unit that has "
            "publishers, and none does"
        )
    if copies > len(everyone):
        raise InvalidInput(f"{copies} copies need as many repositories for everyone, and there are {len(everyone)}")


def check_same(
    known: TopicReport, repositories: tuple[str, ...], copies: int, keep: int, expire: int, hold: bool
) -> None:
    """Refuse what differs from a topic that exists already; what is 0 is not asked for."""
    topic = known.topic
    if known.hold != hold:
        held = "is held" if known.hold else "is not held"
        raise Refused(Refusal.TOPIC, f"{topic} exists already, and {held} at borders: that cannot be changed")
    if set(known.members) != set(repositories):
        members = ", ".join(known.members)
        raise Refused(
            Refusal.TOPIC,
            f"{topic} exists already, on {members}; `stentor topic bundle {topic}` adds and removes some",
        )
    settings = (
        ("copies", f"{known.copies}", f"{copies}" if copies else ""),
        ("keep", span(known.keep), span(keep) if keep else ""),
        ("expire", span(known.expire) if known.expire else "never", span(expire) if expire else ""),
    )
    others = [f"{name} is {so}, not {wanted}" for name, so, wanted in settings if wanted and wanted != so]
    if others:
        raise Refused(
            Refusal.TOPIC,
            f"{topic} exists already with other settings: {'; '.join(others)}; nothing was changed, nor can it be",
        )
