-- Cache of the existence check: entities that Slack has confirmed to exist, for five minutes. A backup
-- contains its last rows, expired.
CREATE TABLE existence_check_cache (
    cache_key   TEXT PRIMARY KEY,
    ttl         INTEGER NOT NULL,
    verified_at INTEGER
) STRICT, WITHOUT ROWID;
-- Finds expired rows without a scan.
CREATE INDEX existence_check_cache_ttl ON existence_check_cache (ttl);
