"""The log: one write a line, whatever it says."""

import io

import pytest

from stentor.runtime.log import Logger


class Writes(io.StringIO):
    """Remembers each write."""

    def __init__(self) -> None:
        super().__init__()
        self.each: list[str] = []

    def write(self, text: str) -> int:
        self.each.append(text)
        return len(text)


@pytest.mark.parametrize("json", [True, False])
def test_a_line_is_one_write(json: bool) -> None:
    log = Logger()
    log.stream = stream = Writes()
    log.configure(level="info", json=json, node="b1")
    log.log("info", "listening", {"on": "127.0.0.1:1"})
    log.log("debug", "nothing", {})
    (line,) = stream.each
    assert line.count("\n") == 1
    assert line.endswith("\n")
    assert "b1" in line


def test_nobody_can_make_up_a_line_of_somebody_else() -> None:
    log = Logger()
    log.stream = stream = Writes()
    log.configure(level="info", json=False, node="b1")
    log.log("error", "internal error", {"trace": "Traceback:\n  line 1\n00:00:00 info b2 all is well"})
    (text,) = stream.each
    first, *others = text.splitlines()
    assert first.endswith("trace=Traceback:")
    assert all(line.startswith("    ") for line in others)
    assert len(others) == 2
