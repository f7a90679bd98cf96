-- Hides erased people. An erased message has no content that the messages view would show.
DROP VIEW users;
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
WHERE item_id >= 'user#' AND item_id < 'user$'
  AND json_extract(attributes, '$.erased') IS NULL;
