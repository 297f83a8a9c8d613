"""The SQL of a ledger in tables, for both dialects that we speak.

`?` stands for what is given later, INTEGER and BLOB for the dialect's types. Texts are kept as UTF-8 in blobs, because
not every dialect takes all of them as texts. Many ledgers may share the tables: then `ledger` tells them apart, and
MINE, OURS and KEY restrict a statement to one of them.
"""

_LINE = (
    "sequence INTEGER NOT NULL, length INTEGER NOT NULL, kind INTEGER NOT NULL, publisher INTEGER NOT NULL, "
    "incarnation INTEGER NOT NULL, first INTEGER NOT NULL, digest INTEGER NOT NULL"
)
TABLES = (
    f"CREATE TABLE records (LEDGER {_LINE}, time INTEGER NOT NULL, label INTEGER NOT NULL, seal INTEGER NOT NULL, "
    "audience BLOB NOT NULL, frame BLOB NOT NULL, PRIMARY KEY (OURS sequence))",
    "CREATE TABLE facts (LEDGER key BLOB NOT NULL, value BLOB NOT NULL, seal INTEGER NOT NULL, PRIMARY KEY (OURS key))",
    f"CREATE TABLE rows (LEDGER repository BLOB NOT NULL, {_LINE}, seal INTEGER NOT NULL, "
    "PRIMARY KEY (OURS repository, sequence, length))",
    "CREATE INDEX streams ON records (OURS publisher, incarnation, first, length, kind, time, sequence)",
    "CREATE INDEX row_streams ON rows (OURS publisher, incarnation, first, length)",
)
SUMMARIES = (  # older ledgers have none
    "CREATE TABLE IF NOT EXISTS summaries (LEDGER first INTEGER NOT NULL, last INTEGER NOT NULL, "
    "content BLOB NOT NULL, seal INTEGER NOT NULL, PRIMARY KEY (OURS first))"
)


class Statements:
    """The statements in one dialect, for one ledger if `key` tells which."""

    put_record = (
        "INSERT INTO records (OURS sequence, length, kind, publisher, incarnation, first, digest, time, label, seal, "
        "audience, frame) VALUES (KEY ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    drop_record = "DELETE FROM records WHERE MINE sequence = ?"
    holder = "SELECT max(sequence) FROM records WHERE MINE sequence <= ?"
    overlapped = (
        "SELECT sequence, length, kind, publisher, incarnation, first, digest, time, label, seal, audience, frame "
        "FROM records WHERE MINE sequence >= "
        "COALESCE((SELECT max(sequence) FROM records WHERE MINE sequence <= ?), 0) AND sequence <= ? ORDER BY sequence"
    )
    records = (
        "SELECT sequence, length, kind, publisher, incarnation, first, digest, time, label, seal, audience, frame "
        "FROM records WHERE MINE sequence > ? AND sequence < ? ORDER BY sequence LIMIT ?"
    )
    outlines = (
        "SELECT sequence, length, kind, publisher, incarnation, first, digest, time, label "
        "FROM records WHERE MINE sequence > ? ORDER BY sequence LIMIT ?"
    )
    extent = "SELECT count(*), min(sequence) FROM records WHERE MINE 1 = 1"
    following = "SELECT min(sequence) FROM records WHERE MINE sequence > ?"
    find = "SELECT min(sequence) FROM records WHERE MINE kind = 0 AND time >= ?"

    put_fact = (
        "INSERT INTO facts (OURS key, value, seal) VALUES (KEY ?, ?, ?) "
        "ON CONFLICT (OURS key) DO UPDATE SET value = excluded.value, seal = excluded.seal"
    )
    drop_fact = "DELETE FROM facts WHERE MINE key = ?"
    facts = "SELECT key, value, seal FROM facts WHERE MINE 1 = 1 ORDER BY key"

    put_row = (
        "INSERT INTO rows (OURS repository, sequence, length, kind, publisher, incarnation, first, digest, seal) "
        "VALUES (KEY ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (OURS repository, sequence, length) DO UPDATE SET "
        "kind = excluded.kind, publisher = excluded.publisher, incarnation = excluded.incarnation, "
        "first = excluded.first, digest = excluded.digest, seal = excluded.seal"
    )
    rows = (
        "SELECT repository, sequence, length, kind, publisher, incarnation, first, digest, seal FROM rows "
        "WHERE MINE (repository, sequence, length) > (?, ?, ?) ORDER BY repository, sequence, length LIMIT ?"
    )
    overlapping_rows = (
        "SELECT repository, sequence, length, kind, publisher, incarnation, first, digest, seal FROM rows "
        "WHERE MINE repository = ? AND sequence > ? AND sequence <= ? AND sequence + length > ? "
        "ORDER BY sequence, length"
    )

    put_summary = "INSERT INTO summaries (OURS first, last, content, seal) VALUES (KEY ?, ?, ?, ?)"
    drop_summaries = "DELETE FROM summaries WHERE MINE first <= ? AND last >= ?"
    forget_summaries = (
        "DELETE FROM summaries WHERE MINE last < COALESCE((SELECT min(sequence) FROM records WHERE MINE 1 = 1), ?)"
    )
    summaries = "SELECT first, last, content, seal FROM summaries WHERE MINE 1 = 1 ORDER BY first"

    forgotten = (  # 2 is a note, which is no event
        "SELECT publisher, incarnation, max(first + length - 1) FROM records "
        "WHERE MINE sequence <= ? AND sequence + length - 1 <= ? AND kind <> 2 GROUP BY publisher, incarnation"
    )
    forget = "DELETE FROM records WHERE MINE sequence <= ? AND sequence + length - 1 <= ?"
    forget_rows = (
        "DELETE FROM rows WHERE MINE publisher = ? AND incarnation = ? AND first + length - 1 <= ? AND NOT EXISTS ("
        "SELECT 1 FROM records AS here WHERE MINE here.publisher = rows.publisher "
        "AND here.incarnation = rows.incarnation AND here.first < rows.first + rows.length "
        "AND here.first + here.length > rows.first AND here.kind <> 2)"
    )

    def __init__(self, key: int | None = None, mark: str = "?") -> None:
        mine, ours, number = ("", "", "") if key is None else (f"ledger = {key} AND", "ledger,", f"{key},")
        for name, text in vars(Statements).items():
            if isinstance(text, str) and not name.startswith("_"):
                spoken = text.replace("MINE", mine).replace("OURS", ours).replace("KEY ?", f"{number} ?")
                setattr(self, name, spoken.replace("?", mark))
