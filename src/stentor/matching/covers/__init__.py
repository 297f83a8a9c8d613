"""Which filters may cover others: `cover_index` finds the few that come into question, `extent` compares two."""
