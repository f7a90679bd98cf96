-- The bookmarks of channels, including those that were removed.
CREATE VIEW bookmarks AS SELECT
    json_extract(attributes, '$.team_id')      AS team_id,
    json_extract(attributes, '$.channel_id')   AS channel_id,
    timestamp                                  AS bookmark_id,
    json_extract(attributes, '$.title')        AS title,
    json_extract(attributes, '$.link')         AS link,
    json_extract(attributes, '$.emoji')        AS emoji,
    json_extract(attributes, '$.date_updated') AS date_updated,
    json_extract(attributes, '$.removed')      AS removed
FROM items
WHERE item_id >= 'bookmark#' AND item_id < 'bookmark$' AND json_extract(attributes, '$.version') IS NOT NULL;
