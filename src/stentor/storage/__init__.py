"""Storage: the boot log of a node, and the ledgers where repositories keep topics.

Read `ledger` (what every kind of ledger does) and `ledger_store` (which kind a line of configuration means) first.
`segments` keeps a ledger in files (`segment_chain`, `commit_group`, `record_index`), `table_ledger` in the tables of
a database (`sqlite`, `postgresql`); `lake` is for events that repositories have forgotten.
"""
