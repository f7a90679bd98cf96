-- Stored reports, with the names of channelstats: complete reports, and the chunks in which they are stored.
CREATE VIEW bulk_store AS SELECT
    json_extract(attributes, '$.report_id') || '#' || timestamp AS item_id,
    json_extract(attributes, '$.value')                         AS value
FROM items
WHERE item_id >= 'report#' AND item_id < 'report$'
  AND json_extract(attributes, '$.value') IS NOT NULL;

-- A chunk whose stamp differs from the head's was written by a process that did not finish.
CREATE VIEW report_store AS SELECT
    json_extract(head.attributes, '$.report_id') AS report_id,
    (SELECT group_concat(value, '') FROM (
        SELECT json_extract(chunk.attributes, '$.value') AS value
        FROM items AS chunk
        WHERE chunk.item_id = head.item_id
          AND chunk.timestamp < printf('%04d', json_extract(head.attributes, '$.chunks'))
          AND json_extract(chunk.attributes, '$.stamp') = json_extract(head.attributes, '$.stamp')
        ORDER BY chunk.timestamp
    ))                                           AS value,
    json_extract(head.attributes, '$.team_id')   AS team_id
FROM items AS head
WHERE head.item_id >= 'report#' AND head.item_id < 'report$' AND head.timestamp = 'head';
