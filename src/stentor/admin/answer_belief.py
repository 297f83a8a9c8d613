"""Which answers of repositories whoever asked them believes."""

from collections.abc import Callable

import msgspec

from stentor.model.control import RegistrationReceipt
from stentor.model.reports.report import RepositoryReport
from stentor.protocols.delivery.authentication import BundleMembers, is_repository

Believes = Callable[[int, RegistrationReceipt], bool]  # whether a receipt that was sent under an id is genuine


def wrote_by(members: BundleMembers) -> Believes:
    """Believe these repositories."""
    return lambda sender, receipt: members.wrote(sender, receipt.sender)


def is_introduced(sender: int, receipt: RegistrationReceipt) -> bool:
    """Believe a repository about itself, where no bundle could be asked: its id proves its name and its principal."""
    try:
        report = msgspec.json.decode(receipt.report, type=RepositoryReport)
    except msgspec.MsgspecError:
        return False
    return report.repository == receipt.sender and is_repository(sender, receipt.sender, report.principal)
