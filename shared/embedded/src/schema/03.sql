-- Who and what Slack confirmed to exist, for five minutes: a cache. Its last rows are in a backup, expired.
CREATE TABLE existence_check_cache (
    cache_key   TEXT PRIMARY KEY,
    ttl         INTEGER NOT NULL,
    verified_at INTEGER
) STRICT, WITHOUT ROWID;
-- What has expired is found without a scan.
CREATE INDEX existence_check_cache_ttl ON existence_check_cache (ttl);
