"""What it costs that a network heals itself and is rebuilt while it runs, and what is lost without that."""
