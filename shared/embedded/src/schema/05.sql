-- Files are identified by their keys, which are their paths below files/ in the data folder. Rows of earlier
-- versions contain a URI that ends in the key.
DROP VIEW files;
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
    CASE WHEN state LIKE '9/stored/%' THEN substr(state, instr(state, 'slack/' || json_extract(attributes, '$.team_id') || '/')) END AS key,
    CASE WHEN state LIKE '1/failed/%' THEN substr(state, 10)
         WHEN state NOT LIKE '9/stored/%' THEN substr(state, 3) END AS why,
    json_extract(attributes, '$.deleted')  AS deleted
FROM (
    SELECT timestamp, attributes, json_extract(attributes, '$."file#' || timestamp || '"') AS state
    FROM items
    WHERE item_id >= 'file#' AND item_id < 'file$'
      AND json_extract(attributes, '$.erased') IS NULL
);

-- The states of a message's files are in its registers, named `file#` and the file's id. The columns show
-- them like `--json`: in the order of `files`, followed by files that an edit removed.
DROP VIEW messages;
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
    json_extract(attributes, '$.raw_event')  AS raw_event,
    json_extract(attributes, '$.files')      AS files,
    (SELECT nullif(json_group_array(key), '[]') FROM (
        SELECT substr(register.value, instr(register.value, 'slack/' || json_extract(items.attributes, '$.team_id') || '/')) AS key
        FROM json_each(items.attributes) AS register
        LEFT JOIN json_each(items.attributes, '$.files') AS listed
            ON substr(register.key, 6) = CASE WHEN listed.type = 'object' THEN json_extract(listed.value, '$.id') END
        WHERE register.key GLOB 'file#*' AND register.value GLOB '9/stored/*'
        GROUP BY register.key
        ORDER BY coalesce(min(listed.key), 1000000), register.key
    ))                                       AS files_s3,
    (SELECT nullif(json_group_object(substr(register.key, 6), substr(register.value, 3)), '{}')
        FROM json_each(items.attributes) AS register
        WHERE register.key GLOB 'file#*' AND register.value GLOB '[02-8]/*'
    )                                        AS files_verdict,
    (SELECT 1 FROM json_each(items.attributes) AS register
        WHERE register.key GLOB 'file#*' AND register.value GLOB '1/failed/*'
        LIMIT 1
    )                                        AS files_fetch_failed,
    (SELECT group_concat(error, '; ') FROM (
        SELECT substr(register.value, 10) AS error
        FROM json_each(items.attributes) AS register
        LEFT JOIN json_each(items.attributes, '$.files') AS listed
            ON substr(register.key, 6) = CASE WHEN listed.type = 'object' THEN json_extract(listed.value, '$.id') END
        WHERE register.key GLOB 'file#*' AND register.value GLOB '1/failed/*'
        GROUP BY error
        ORDER BY min(coalesce(listed.key, 1000000)), min(register.key)
    ))                                       AS files_fetch_error
FROM items
WHERE item_id >= 'message#' AND item_id < 'message$'
  AND (json_extract(attributes, '$.content_version') IS NOT NULL OR json_extract(attributes, '$.deleted'));
