"""The epilogue of the demo: Spark audits it by the traces of its own fabric, and draws how long events took."""

import asyncio
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from rich.console import Console

_COMMAND: Final = "from stentor.cli import main; main()"
_JUDGED: Final = (0, 1, 5)  # proven, violated, unproven
_MASTER: Final = "local[2]"


class Epilogue:
    """What Spark says, while the fabric still runs; it is shown when the demo's own checker has spoken."""

    def __init__(self, topic: str, picture: Path) -> None:
        self._topic, self.picture = topic, picture
        self._code = 0
        self._text = self._errors = ""

    @staticmethod
    def is_possible() -> bool:
        return find_spec("pyspark") is not None

    async def run(self, url: str, width: int) -> None:
        """As a process, so that Java and all that goes with it ends when this does."""
        if not self.is_possible():
            return
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _COMMAND,
            "pipeline",
            "audit",
            "--at-rest",
            "--topic",
            self._topic,
            "--plot",
            str(self.picture),
            "--window",
            "1 second",
            "--master",
            _MASTER,
            "--url",
            url,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "COLUMNS": str(width)},
        )
        try:
            said, errors = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        self._code = process.returncode or 0
        self._text, self._errors = said.decode().rstrip(), errors.decode().strip()

    @property
    def is_violated(self) -> bool:
        return self._code == 1 and "violated" in self._text

    def show(self, console: Console) -> bool:
        """Whether there is a picture."""
        if not self.is_possible():
            console.print("\nSpark is not installed, so it cannot audit this: pip install 'stentor[spark]'")
            return False
        if self._code not in _JUDGED or not self._text:  # 1 is also the code of an audit that fails
            reason = self._errors.splitlines()[-1] if self._errors else f"it ended with {self._code}"
            console.print(f"\nSpark could not audit this: {reason}", markup=False)
            return False
        console.print("\nSpark audits the same by the traces that the fabric emitted (stentor pipeline audit):")
        console.print(self._text, markup=False, soft_wrap=True)
        return self.picture.exists()
