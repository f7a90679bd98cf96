-- Lists of members, and the chunks in which long ones are stored.
DROP VIEW bulk_store;
CREATE VIEW bulk_store AS SELECT
    json_extract(attributes, '$.report_id') || '#' || timestamp AS item_id,
    json_extract(attributes, '$.value')                         AS value
FROM items
WHERE item_id >= 'report#' AND item_id < 'report$'
  AND json_extract(attributes, '$.value') IS NOT NULL
UNION ALL SELECT
    'membership#' || json_extract(attributes, '$.channel_id')
        || CASE timestamp WHEN 'head' THEN '' ELSE '#' || timestamp END,
    json_extract(attributes, '$.value')
FROM items
WHERE item_id >= 'membership#' AND item_id < 'membership$'
  AND json_extract(attributes, '$.value') IS NOT NULL;
