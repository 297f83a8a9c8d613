"""Structured logs: one line per event, for people on a terminal and as JSON for machines."""

import sys
import time
from collections.abc import Mapping
from typing import TextIO

import msgspec

LEVELS = ("debug", "info", "warning", "error")


class Logger:
    """Writes to one stream; the level and the form are set once by the command line."""

    def __init__(self) -> None:
        self.stream: TextIO = sys.stderr
        self.threshold = LEVELS.index("error")  # a library is quiet; nodes say how much they tell
        self.json = False
        self.node = ""

    def configure(self, *, level: str, json: bool, node: str) -> None:
        self.threshold = LEVELS.index(level)
        self.json = json
        self.node = node

    def named(self, node: str) -> "Logger":
        """The same for another node in this process."""
        other = Logger()
        other.stream = self.stream
        other.threshold = self.threshold
        other.json = self.json
        other.node = node
        return other

    def log(self, level: str, what: str, details: Mapping[str, str | int | float]) -> None:
        if LEVELS.index(level) < self.threshold:
            return
        moment = time.time()
        if self.json:
            record = {"time": round(moment, 6), "level": level, "node": self.node, "event": what, **details}
            line = msgspec.json.encode(record).decode()
        else:
            clock = time.strftime("%H:%M:%S", time.localtime(moment))
            pairs = " ".join(f"{key}={value}" for key, value in details.items() if value != "")
            line = f"{clock} {level:<7} {self.node + ' ' if self.node else ''}{what}{'  ' + pairs if pairs else ''}"
        try:
            # one write of a whole line, or those of several processes that share a stream would merge; a line that
            # goes on, such as a trace, is indented, so that nobody can make up a line of somebody else's
            self.stream.write(line.replace("\n", "\n    ") + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            return  # nobody reads the log any more; that is no reason to stop


logger = Logger()
