-- Claims on work in progress, and completed claims. The columns are those of the table on AWS; times are
-- whole seconds.
CREATE TABLE claims (
    event_key          TEXT PRIMARY KEY,
    status             TEXT NOT NULL,
    lambda_instance_id TEXT NOT NULL,
    lease_until        INTEGER NOT NULL,
    processed_at       INTEGER NOT NULL,
    ttl                INTEGER NOT NULL,
    file_id            TEXT,
    channel_id         TEXT,
    user_id            TEXT,
    -- Which of the processes on this folder: what one that is gone was at is free at once.
    process            INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- For the cleanup, which removes the oldest first.
CREATE INDEX claims_ttl ON claims (ttl);
CREATE INDEX claims_in_progress ON claims (process) WHERE status = 'in_progress';
