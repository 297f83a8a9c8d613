"""The names of the topics and ends by which clients and repositories of reliable topics speak to each other."""

from typing import Literal
from urllib.parse import quote

from stentor.model.errors import InvalidInput
from stentor.model.topic import LONGEST_TOPIC

Role = Literal["publisher", "subscriber"]


def inbox_of(name: str) -> str:
    """The topic on which whoever is connected under this name is spoken to."""
    return "$to/" + quote(name, safe=" @.:")  # a name may hold what has a meaning in a topic


def bundle_of(topic: str) -> str:
    """The topic on which all repositories of a topic are spoken to."""
    return f"$bundle/{topic}"


def notice_group_of(topic: str, repository: str, number: int) -> str:
    """The topic on which a repository tells all who want the same of a topic what is stored for them."""
    return f"$chorus/{repository}/{number:x}/{topic}"


WITHIN = "$within/"


def within_of(unit: str, topic: str) -> str:
    """The topic on which events are published that must not leave a unit yet."""
    return f"{WITHIN}{unit}/{topic}"


def end_name(role: Role, name: str, topic: str) -> str:
    """Under which name a publisher or subscriber of a reliable topic connects: each has a link of its own."""
    return f"{role}:{name}:{topic}"


REPOSITORIES = "$repositories"  # on which all repositories are spoken to


def repository_name(name: str) -> str:
    """Under which name a repository connects."""
    return f"repository:{name}"


def check_answerable(name: str) -> None:
    """Refuse a name under which nobody can be answered: its topic would be too long."""
    if len(inbox_of(name)) > LONGEST_TOPIC:
        raise InvalidInput(f"{name[:40]!r}…: nobody who is called that can be spoken to")
