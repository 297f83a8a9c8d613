"""A driver of two acts: copies a topic, then audits a run. A session takes long to start, so both have the same one."""

import json
import sys
from pathlib import Path

from tests.spark.auditing import check
from tests.spark.copying import copy
from tests.spark.driver import session


def main(master: str, copying: str, auditing: str) -> None:
    """Each act gets the folder in which it leaves its marks, then its arguments, as a list in JSON."""
    spark = session(master)
    folder, *arguments = json.loads(copying)
    copy(spark, Path(folder), *arguments)
    folder, *arguments = json.loads(auditing)
    sys.stdout.write(json.dumps(check(spark, Path(folder), *arguments)) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
