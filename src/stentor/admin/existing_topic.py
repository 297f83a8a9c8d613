"""Whether a topic that exists already is the one that an owner wants to create."""

from stentor.config.quantity import span
from stentor.model.errors import Refusal, Refused
from stentor.model.reports.report import TopicReport


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
