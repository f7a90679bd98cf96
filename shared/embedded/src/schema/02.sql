-- For people with a SQL prompt: the current state of each channel. SQLite shows the columns of the row with
-- the maximum.
CREATE VIEW channels AS SELECT
    json_extract(attributes, '$.team_id')         AS team_id,
    json_extract(attributes, '$.channel_id')      AS channel_id,
    json_extract(attributes, '$.name')            AS name,
    json_extract(attributes, '$.names_history')   AS names_history,
    json_extract(attributes, '$.topic')           AS topic,
    json_extract(attributes, '$.purpose')         AS purpose,
    json_extract(attributes, '$.visibility')      AS visibility,
    json_extract(attributes, '$.archived')        AS archived,
    json_extract(attributes, '$.deleted')         AS deleted,
    json_extract(attributes, '$.prev_channel_id') AS prev_channel_id,
    json_extract(attributes, '$.next_channel_id') AS next_channel_id,
    max(timestamp)                                AS event_ts
FROM items
WHERE item_id >= 'channel#' AND item_id < 'channel$'
  AND json_extract(attributes, '$.folded') IS NOT NULL
GROUP BY item_id;

-- All files. The register of a file's state is `9/stored/URI`, `1/failed/ERROR`, or a digit and a word with
-- the reason why there are no bytes.
CREATE VIEW files AS SELECT
    json_extract(attributes, '$.team_id')  AS team_id,
    timestamp                              AS file_id,
    json_extract(attributes, '$.name')     AS name,
    json_extract(attributes, '$.mimetype') AS mimetype,
    coalesce(json_extract(attributes, '$.size_bytes'), json_extract(attributes, '$.object.size')) AS size_bytes,
    json_extract(attributes, '$.sha256')   AS sha256,
    CASE WHEN state LIKE '9/stored/%' THEN 'held'
         WHEN state LIKE '1/failed/%' THEN 'failed'
         WHEN state IS NULL OR state = '0/pending' THEN 'pending'
         ELSE 'skipped' END                AS state,
    CASE WHEN state LIKE '9/stored/%' THEN substr(state, 10) END AS uri,
    CASE WHEN state LIKE '1/failed/%' THEN substr(state, 10)
         WHEN state NOT LIKE '9/stored/%' THEN substr(state, 3) END AS why,
    json_extract(attributes, '$.deleted')  AS deleted
FROM (
    SELECT timestamp, attributes, json_extract(attributes, '$."file#' || timestamp || '"') AS state
    FROM items
    WHERE item_id >= 'file#' AND item_id < 'file$'
      AND json_extract(attributes, '$.erased') IS NULL
);
