"""What peers make a node report is summed up in its log, with bounded memory."""

import asyncio
import io
import json
from typing import Any

import pytest

from stentor.runtime import log_summary
from stentor.runtime.log import Logger
from stentor.runtime.log_summary import EXAMPLES, LogSummary


def logger() -> Logger:
    log = Logger()
    log.configure(level="debug", json=True, node="b1")
    log.stream = io.StringIO()
    return log


def lines(log: Logger) -> list[dict[str, Any]]:
    assert isinstance(log.stream, io.StringIO)
    return [json.loads(line) for line in log.stream.getvalue().splitlines()]


def test_a_few_refusals_are_written_and_the_rest_are_counted() -> None:
    async def main() -> None:
        log = logger()
        summary = LogSummary(log, asyncio.get_running_loop())
        for number in range(1000):
            summary.report("warning", "peer refused", {"client": f"c{number}", "code": "forged"})
        summary.report("info", "peer refused", {"client": "other", "code": "silent"})
        assert [line["client"] for line in lines(log)] == ["c0", "c1", "c2", "c3", "c4", "other"]
        summary.close()
        (last,) = lines(log)[6:]
        assert (last["level"], last["event"], last["code"]) == ("warning", "peer refused", "forged")
        assert last["more"] == 1000 - EXAMPLES

    asyncio.run(main())


def test_after_a_while_there_is_a_summary_and_new_ones_are_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_summary, "_WHILE", 0.05)

    async def main() -> None:
        log = logger()
        summary = LogSummary(log, asyncio.get_running_loop())
        for _ in range(20):
            summary.report("warning", "a letter that cannot be read", {"reason": "x"})
        async with asyncio.timeout(30):
            while len(lines(log)) <= EXAMPLES:  # noqa: ASYNC110 - a log sets no event
                await asyncio.sleep(0.01)
        assert lines(log)[-1]["more"] == 20 - EXAMPLES
        summary.report("warning", "a letter that cannot be read", {"reason": "y"})
        assert lines(log)[-1]["reason"] == "y"
        summary.close()
        assert len(lines(log)) == EXAMPLES + 2, "nothing is summed up that was written"

    asyncio.run(main())


def test_what_is_no_peers_doing_is_written_each_time() -> None:
    async def main() -> None:
        log = logger()
        summary = LogSummary(log, asyncio.get_running_loop())
        for number in range(100):
            summary.report("info", "repository is ready", {"topic": f"t{number}"})
            summary.report("error", "a stored record is damaged", {"sequence": number})
        summary.close()
        assert len(lines(log)) == 200

    asyncio.run(main())


def test_many_kinds_take_bounded_memory() -> None:
    async def main() -> None:
        log = logger()
        summary = LogSummary(log, asyncio.get_running_loop())
        for number in range(10_000):
            summary.report("warning", f"something {number}", {"code": str(number)})
        assert len(summary._counts) <= 257
        summary.close()
        assert len(lines(log)) < 300
        assert lines(log)[-1]["event"] == "other reports"

    asyncio.run(main())
