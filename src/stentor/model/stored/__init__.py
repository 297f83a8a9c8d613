"""What repositories store: records, sets of their numbers, positions in them, and requests to read them."""
