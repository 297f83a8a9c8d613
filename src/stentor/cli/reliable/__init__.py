"""Commands on reliable topics and those who store them: `stentor topic` and `stentor repository`."""
