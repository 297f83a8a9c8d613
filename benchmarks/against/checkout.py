"""The other commit, checked out beside this tree, with an environment of its own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".against"  # checkouts stay here, because to fill an environment takes minutes


class CheckoutError(Exception):
    """The commit could not be checked out or set up; the text is the end of what git or make said."""


def resolve(commit: str) -> str:
    """Return the short hash of a commit, whatever it is called."""
    return _run(["git", "rev-parse", "--short", "--verify", "--end-of-options", f"{commit}^{{commit}}"], ROOT).strip()


def check_out(commit: str) -> Path:
    """Return the directory of a commit, by its short hash, ready to run."""
    directory = KEPT / commit
    if not (directory / "Makefile").exists():
        # --force: git may still know a checkout here that somebody has deleted
        _run(["git", "worktree", "add", "--force", "--detach", str(directory), commit], ROOT)
    interpreter = Path(sys.executable).resolve()  # the same Python for both sides
    _run(["make", "setup", f"PYTHON={interpreter}"], directory)
    return directory


def _run(command: list[str], directory: Path) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise CheckoutError(f"{' '.join(command[:3])}: {said[-400:] or f'exit status {done.returncode}'}")
    return done.stdout
