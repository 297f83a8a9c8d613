"""The benchmarks are no part of the installed package: they are found from the root of the clone."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
