"""Configuration: one TOML file that says which nodes run and what they have in common."""

from stentor.config.access import load_access
from stentor.config.address import Address, check_exposure, is_host_name, is_loopback
from stentor.config.colours import colours_around
from stentor.config.json_schema import schema
from stentor.config.reader import load, parse
from stentor.config.repositories import check_repository_name, storage_line, without_password
from stentor.config.settings import (
    ANY_HTTP,
    CERTIFICATE_FILES,
    COSTS,
    AccessDefault,
    ChannelTable,
    ColourKeys,
    Config,
    DialledLink,
    Elasticity,
    FabricTable,
    LinkTable,
    Node,
    Repository,
    Tls,
    Unit,
    default,
    home_of,
    storage_in,
)

__all__ = [
    "ANY_HTTP",
    "CERTIFICATE_FILES",
    "COSTS",
    "AccessDefault",
    "Address",
    "ChannelTable",
    "ColourKeys",
    "Config",
    "DialledLink",
    "Elasticity",
    "FabricTable",
    "LinkTable",
    "Node",
    "Repository",
    "Tls",
    "Unit",
    "check_exposure",
    "check_repository_name",
    "colours_around",
    "default",
    "home_of",
    "is_host_name",
    "is_loopback",
    "load",
    "load_access",
    "parse",
    "schema",
    "storage_in",
    "storage_line",
    "without_password",
]
