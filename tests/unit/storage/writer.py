"""A process that commits to a ledger and tells after each commit: `python -m tests.unit.storage.writer WHERE COUNT`."""

import sys

from tests.unit.storage.records import events

from stentor.model.stored.record import Fact, Row
from stentor.storage.ledger import LedgerError
from stentor.storage.ledger_store import open_ledger

SIZE = 2000


def main(where: str, count: int) -> None:
    ledger = open_ledger(where, "r", "t")
    first = ledger.load().next
    for number in range(first, first + count):
        try:
            ledger.commit([events(number, size=SIZE), Fact("last", b"%d" % number), Row("near", events(number).line)])
        except LedgerError as error:
            sys.stdout.write(f"{type(error).__name__} {error}\n")
        else:
            sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
