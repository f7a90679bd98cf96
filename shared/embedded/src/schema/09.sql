-- Erasures: time, scope and number of erased rows. The rows contain no erased content.
CREATE VIEW erasures AS SELECT
    json_extract(attributes, '$.at')       AS at,
    json_extract(attributes, '$.scope')    AS scope,
    json_extract(attributes, '$.messages') AS messages,
    json_extract(attributes, '$.files')    AS files
FROM items
WHERE item_id >= 'erasure#' AND item_id < 'erasure$';
