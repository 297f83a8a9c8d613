"""Table 1 of Pallickara, Bulut & Fox: what reliable delivery of 8 KB cost them, in ms."""

from typing import NamedTuple


class PaperRow(NamedTuple):
    """An operation: how we name its figure, the paper's words, and what it measured."""

    key: str
    section: str
    operation: str
    mean: float
    deviation: float
    error: float


TABLE_1 = (
    PaperRow("delivery A", "End-to-end delivery", "1 broker, 1 repository, 20 clients", 8.88, 0.81, 0.11),
    PaperRow("delivery B", "End-to-end delivery", "3 brokers, 1 repository, 20 clients", 10.60, 0.83, 0.12),
    PaperRow("delivery C", "End-to-end delivery", "3 brokers, 3 repositories, 20 clients", 10.48, 0.93, 0.13),
    PaperRow("store", "Storage overheads", "message storage", 1.408, 0.14171, 0.0317),
    PaperRow("retrieve", "Storage overheads", "message retrieval", 0.669, 0.07793, 0.0174),
    PaperRow("recovery", "Recovery, a single repository", "after a failure or scheduled downtime", 85.7, 4.3, 0.958),
    PaperRow("publisher response", "Client recovery", "response for a publisher, generated", 0.825, 0.215, 0.048),
    PaperRow("subscriber response", "Client recovery", "response for a subscriber, generated", 1.613, 0.588, 0.131),
    PaperRow("repository response", "Recovery of 1,000 missed, 20 clients", "response, generated", 59.28, 5.54, 2.77),
    PaperRow("catching up", "Recovery of 1,000 missed, 20 clients", "recovery at the repository", 11_172, 1_733, 867),
    PaperRow("gossip generated", "Repository gossips", "generation of a gossip", 0.243, 0.050, 0.011),
    PaperRow("gossip processed", "Repository gossips", "processing of a gossip", 0.241, 0.016, 0.003),
)
MACHINES = "machines of 4 x 2.4 GHz Xeon on 100 Mbit/s, Java 1.4, MySQL 5"
