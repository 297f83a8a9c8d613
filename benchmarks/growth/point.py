"""What one size of something that grows costs."""

import msgspec


class Point(msgspec.Struct):
    """Of lives and subscribers, the machines were measured without processes; of topics, a process was."""

    kind: str
    size: int
    idle_cpu_s: float  # of a processor in a minute without any client
    resident_mib: float  # that the process takes, less what it took before; of topics, all that it takes
    opened_s: float  # to open the ledger again, and all that is in it; of topics, until all were opened and asleep
    each_ms: float  # of a processor to come to that size, for each
    held: int  # streams that the repositories still know; of topics, files that are open
    highest_mib: float = 0.0  # of topics, while they were opened
