"""Which repositories a new topic gets."""

from collections.abc import Mapping, Sequence

from stentor.model.errors import InvalidInput, Refused
from stentor.model.reports.report import RepositoryReport

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


def check_bundle(there: Found, copies: int, hold: bool, join: bool) -> None:
    """Raise InvalidInput if these repositories cannot be the bundle of a topic; those of one unit must be to join."""
    everyone = [name for name, report in there.items() if not report.unit]
    if not everyone:
        raise InvalidInput(f"{', '.join(there)}: one of the repositories must serve the whole network")
    if hold and not any(report.unit and "/" not in report.unit for report in there.values()):
        raise InvalidInput(
            f"{', '.join(there)}: to hold events at borders, a repository must serve each top-level unit that has "
            "publishers, and none does"
        )
    for unit in sorted({report.unit for report in there.values() if report.unit}) if not join else ():
        storages = [name for name, report in there.items() if report.unit == unit]
        if len(storages) > 1:
            raise InvalidInput(
                f"{unit} would have {len(storages)} storages of its own, {', '.join(storages)}: name one of them with "
                "--repositories, or let them serve it together with --join"
            )
    if copies > len(everyone):
        raise InvalidInput(f"{copies} copies need as many repositories for everyone, and there are {len(everyone)}")
