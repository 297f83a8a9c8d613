"""Stored events, read at rest and in any order: `read_server` at the repository, `read_client` at the reader."""
