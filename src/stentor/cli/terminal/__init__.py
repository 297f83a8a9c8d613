"""What commands share: options, and what a terminal is shown of events, names and tables."""
