-- The archive. The keys are columns, everything else is one JSON object, as in DynamoDB.
CREATE TABLE items (
    item_id    TEXT NOT NULL,
    timestamp  TEXT NOT NULL,
    parent     TEXT,
    attributes TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX items_key ON items (item_id, timestamp);
CREATE INDEX items_parent ON items (parent, timestamp, item_id) WHERE parent IS NOT NULL;

-- The queues. A message is one row of `jobs` from send to ack. Everything that changes meanwhile is in small
-- rows of other tables, so that receiving and acking never rewrite a body.
CREATE TABLE jobs (
    seq        INTEGER PRIMARY KEY,
    queue      TEXT NOT NULL,
    group_id   TEXT NOT NULL,
    sent_at_ms INTEGER NOT NULL,
    body       TEXT NOT NULL
) STRICT;
-- Rows are inserted in this order, so the index only grows at its end.
CREATE INDEX jobs_order ON jobs (queue, seq, group_id);

-- One row per message that has been received at least once.
CREATE TABLE leases (
    seq           INTEGER PRIMARY KEY,
    queue         TEXT NOT NULL,
    visible_at_ms INTEGER NOT NULL,
    receive_count INTEGER NOT NULL,
    owner         INTEGER NOT NULL
) STRICT;

-- The sends within the deduplication window, and always the last send, so that sequence numbers are never
-- reused.
CREATE TABLE sends (
    seq        INTEGER PRIMARY KEY,
    queue      TEXT NOT NULL,
    dedup      BLOB NOT NULL,
    sent_at_ms INTEGER NOT NULL
) STRICT;

-- For people with a SQL prompt.
CREATE VIEW messages AS SELECT
    json_extract(attributes, '$.team_id')    AS team_id,
    json_extract(attributes, '$.channel_id') AS channel_id,
    timestamp                                AS ts,
    json_extract(attributes, '$.thread_ts')  AS thread_ts,
    json_extract(attributes, '$.user')       AS user,
    json_extract(attributes, '$.text')       AS text,
    json_extract(attributes, '$.subtype')    AS subtype,
    json_extract(attributes, '$.updated_ts') AS updated_ts,
    json_extract(attributes, '$.deleted')    AS deleted,
    json_extract(attributes, '$.raw_event')  AS raw_event
FROM items
WHERE item_id >= 'message#' AND item_id < 'message$'
  AND (json_extract(attributes, '$.content_version') IS NOT NULL OR json_extract(attributes, '$.deleted'));

CREATE VIEW users AS SELECT
    json_extract(attributes, '$.team_id')      AS team_id,
    timestamp                                  AS user_id,
    json_extract(attributes, '$.name')         AS name,
    json_extract(attributes, '$.real_name')    AS real_name,
    json_extract(attributes, '$.display_name') AS display_name,
    json_extract(attributes, '$.is_bot')       AS is_bot,
    json_extract(attributes, '$.deleted')      AS deleted,
    json_extract(attributes, '$.raw_event')    AS raw_event
FROM items
WHERE item_id >= 'user#' AND item_id < 'user$';
