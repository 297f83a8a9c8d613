"""The driver: what it does with effects of a machine that has asked for several things at once."""

import asyncio
from pathlib import Path

from stentor.machine import Append, Appended, Effect, Input, Rewrite, Started, Stop
from stentor.runtime.disk import NodeStorage
from stentor.runtime.driver import Driver

RECORDS = [f"record {number}".encode() * number for number in range(1, 60)]


class Writer:
    """A machine that wants many records to be written at once, and stops when all of them are."""

    def __init__(self) -> None:
        self.written: list[int] = []

    def step(self, _now: int, *happened: Input) -> list[Effect]:
        done: list[Effect] = []
        for each in happened:
            match each:
                case Started():
                    done.append(Rewrite("orders", 0, (RECORDS[0],)))
                    done += [Append("orders", token, (record,)) for token, record in enumerate(RECORDS) if token]
                case Appended():
                    self.written.append(each.token)
                    if len(self.written) == len(RECORDS):
                        done.append(Stop("all is written"))
        return done


def test_records_that_are_appended_at_once_are_all_there_in_their_order(tmp_path: Path) -> None:
    storage = NodeStorage(tmp_path)
    writer = Writer()

    async def write() -> None:
        driver = Driver(writer, storage=storage)
        driver.tell(Started())
        assert await asyncio.wait_for(driver.stopped, 20) == "all is written"
        await driver.close()

    asyncio.run(write())
    storage.close()
    assert writer.written == list(range(len(RECORDS)))
    assert NodeStorage(tmp_path).load() == {"orders": RECORDS}
