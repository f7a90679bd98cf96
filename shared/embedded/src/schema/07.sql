-- Updates of existing messages, for followers of the archive, which find new messages by their rowids. A row
-- is written in the same transaction as the message. The oldest rows are removed; the newest one is kept, so
-- that no number is reused.
CREATE TABLE changes (
    seq           INTEGER PRIMARY KEY,
    item_rowid    INTEGER NOT NULL,
    changed_at_ms INTEGER NOT NULL
) STRICT;
