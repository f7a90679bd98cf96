-- The time of the newest message of each archived channel, in whole seconds: later messages are still to be
-- read. A channel that several workspaces share is one row.
CREATE VIEW channel_configuration AS SELECT slack_cid, max(newest) AS last_message_timestamp
FROM (
    SELECT
        marks.timestamp AS slack_cid,
        (SELECT CAST(items.timestamp AS INTEGER)
            FROM items
            WHERE items.item_id = 'message#' || substr(marks.item_id, 6, length(marks.item_id) - 12) || '#' || marks.timestamp
              AND (json_extract(items.attributes, '$.content_version') IS NOT NULL OR json_extract(items.attributes, '$.deleted'))
            ORDER BY items.timestamp DESC
            LIMIT 1
        ) AS newest
    FROM items AS marks
    WHERE marks.item_id >= 'meta#' AND marks.item_id < 'meta$' AND marks.item_id GLOB 'meta#*#public'
)
GROUP BY slack_cid;
