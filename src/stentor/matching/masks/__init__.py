"""The mask index: which of up to 64 members want an event. Read `mask_index` first, then `mask_snapshot`."""
