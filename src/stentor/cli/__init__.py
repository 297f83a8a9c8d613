"""The command line. Exit codes: 0 done, 1 failed, 2 wrong use or input, 3 no broker there, 4 refused, 130 Ctrl-C."""

import gc
import os
import sys
from contextlib import suppress

from stentor.model.errors import Closed, InvalidInput, Refused, StentorError, Unreachable


def main() -> None:
    """The `stentor` command: every error of ours is one readable message and an exit code that means something."""
    gc.disable()  # what is imported stays: to look for garbage in it took a sixth of the start of a command
    from stentor.cli.main import build, named  # heavy: only for people

    try:
        command = build(named(sys.argv[1:]))
        gc.freeze()
        gc.enable()
        command()
    except StentorError as error:
        _say(error)
        sys.exit(exit_code(error))
    except OSError as error:  # a file that cannot be read, an output that cannot be written
        with suppress(OSError):
            _say(error)
        os._exit(1)  # flushing what cannot be written would only fail again
    except KeyboardInterrupt:
        sys.exit(130)


def _say(error: Exception) -> None:
    from stentor.cli.terminal.printable import printable_lines  # what others chose may be quoted

    print(f"stentor: {printable_lines(str(error))}", file=sys.stderr)


def exit_code(error: StentorError) -> int:
    match error:
        case InvalidInput():
            return 2
        case Unreachable() | Closed():
            return 3
        case Refused():
            return 4
    return 1
