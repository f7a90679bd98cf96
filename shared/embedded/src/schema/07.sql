-- What was written to messages that were there already, for those that follow the archive: new messages are found by their
-- rowids. A row is written with the one that it speaks of; the oldest ones are removed, the newest is always there, so that
-- no number is used twice.
CREATE TABLE changes (
    seq           INTEGER PRIMARY KEY,
    item_rowid    INTEGER NOT NULL,
    changed_at_ms INTEGER NOT NULL
) STRICT;
