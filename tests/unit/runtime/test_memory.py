"""Memory that is free and still held by the C library."""

import subprocess
import sys

PROGRAM = """
import platform
from pathlib import Path
from stentor.runtime.memory import give_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

pieces = [bytes(4000) for _ in range(20_000)]
full = resident()
pieces = pieces[-1:]  # what is freed lies before what is in use
held = resident()
give_back()
print(platform.libc_ver()[0], full, held, resident())
"""


def test_what_was_freed_before_something_that_is_in_use_is_given_back() -> None:
    """In a process of its own, in which nobody else takes memory meanwhile."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    library, *sizes = done.stdout.split()
    full, held, left = map(int, sizes)
    if library == "glibc":
        assert held > full - (20 << 20), "or it had been given back without our help"
        assert left < held - (60 << 20)
    else:  # another C library does as it likes: it is asked nothing
        assert left <= full
