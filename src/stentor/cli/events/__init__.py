"""Commands that publish events and print them: `stentor pub`, `sub` and `send`."""
