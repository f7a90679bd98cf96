-- What was erased: when, whose or what, and how much. The rows hold no content.
CREATE VIEW erasures AS SELECT
    json_extract(attributes, '$.at')       AS at,
    json_extract(attributes, '$.scope')    AS scope,
    json_extract(attributes, '$.messages') AS messages,
    json_extract(attributes, '$.files')    AS files
FROM items
WHERE item_id >= 'erasure#' AND item_id < 'erasure$';
