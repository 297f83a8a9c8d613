"""Mail: events with explicit destinations that are stored until each of these has them.

All mail of a fabric is one reliable topic. An event of it names its recipient in an attribute, and a client gets the
mail for its own name as a named subscriber does, with a filter that repositories and brokers insist on.
"""

from collections.abc import Iterable
from urllib.parse import quote, unquote

from stentor.model.errors import InvalidInput
from stentor.model.ranges import check_client_name

MAIL = "$mail"
RECIPIENT = "to"  # the attribute that names whom an event is for
KEPT_FOR = 30 * 86_400  # seconds, unless whoever creates the topic says something else: a name may never come


def address_of(name: str) -> str:
    """Return a name as it stands in the attribute; what has a meaning in a filter's literals is escaped."""
    return quote(name, safe=" @.:")


def mail_filter(name: str) -> str:
    """Return the filter that chooses the mail for a name."""
    return f"{RECIPIENT} = '{address_of(name)}'"


def own_mail(name: str, where: str | None) -> str:
    """Return the filter under which a name gets its mail; InvalidInput if it asks for another one."""
    if where not in (None, "", "*"):
        raise InvalidInput(f"mail is chosen by whom it is for, and by nothing else: leave {where!r} out")
    return mail_filter(name)


def check_no_mail(topic: str) -> None:
    """Raise InvalidInput if somebody wants to publish mail as if it were any other topic: it would be for nobody."""
    if topic == MAIL:
        raise InvalidInput(
            "mail is sent to somebody: `stentor send NAME BODY --guaranteed`, or `fabric.send([name], body, "
            "guaranteed=True)`"
        )


def recipients_of(addresses: Iterable[object]) -> dict[str, None]:
    """Return the names among the values of the attribute, each once and in order; what is no address is nobody's."""
    found: dict[str, None] = {}
    for address in addresses:
        if isinstance(address, str):
            name = unquote(address)
            try:
                check_client_name(name)
            except InvalidInput:
                continue
            if address_of(name) == address:
                found[name] = None
    return found
