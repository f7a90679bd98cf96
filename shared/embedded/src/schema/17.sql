-- As before, but with what is known now about whether a channel is public.
DROP VIEW channels;
CREATE VIEW channels AS SELECT
    *,
    name                                          AS friendly_name,
    channel_id                                    AS slack_cid,
    CASE WHEN archived THEN 0 ELSE coalesce((
        SELECT json_extract(counted.attributes, '$.members') FROM items AS counted
        WHERE counted.item_id = 'members#' || team_id || '#' || channel_id
        ORDER BY counted.timestamp DESC
        LIMIT 1
    ), (
        SELECT CASE WHEN json_valid(raw.value)
            THEN coalesce(json_extract(raw.value, '$.channel.num_members'), json_extract(raw.value, '$.num_members')) END AS members
        FROM items AS snapshot, json_each(snapshot.attributes) AS raw
        WHERE snapshot.item_id = 'channel#' || team_id || '#' || channel_id AND raw.key GLOB 'raw#*' AND members IS NOT NULL
        ORDER BY snapshot.timestamp DESC
        LIMIT 1
    )) END                                        AS members,
    coalesce(visibility, '') <> 'private'         AS is_channel,
    coalesce(visibility, '') = 'private'          AS is_group,
    0                                             AS is_im,
    0                                             AS is_mpim,
    (SELECT min(CASE WHEN json_valid(raw.value)
            THEN coalesce(json_extract(raw.value, '$.channel.created'), json_extract(raw.value, '$.created')) END)
        FROM items AS snapshot, json_each(snapshot.attributes) AS raw
        WHERE snapshot.item_id = 'channel#' || team_id || '#' || channel_id AND raw.key GLOB 'raw#*'
    )                                             AS created
FROM (
    SELECT
        json_extract(attributes, '$.team_id')         AS team_id,
        json_extract(attributes, '$.channel_id')      AS channel_id,
        json_extract(attributes, '$.name')            AS name,
        json_extract(attributes, '$.names_history')   AS names_history,
        json_extract(attributes, '$.topic')           AS topic,
        json_extract(attributes, '$.purpose')         AS purpose,
        coalesce((
            SELECT CASE
                WHEN coalesce(json_extract(mark.attributes, '$.private_at'), '')
                    >= coalesce(json_extract(mark.attributes, '$.public_at'), '') THEN 'private'
                ELSE 'public' END
            FROM items AS mark
            WHERE mark.item_id = 'meta#' || json_extract(items.attributes, '$.team_id') || '#public'
              AND mark.timestamp = json_extract(items.attributes, '$.channel_id')
              AND coalesce(json_extract(mark.attributes, '$.private_at'),
                           json_extract(mark.attributes, '$.public_at')) IS NOT NULL
        ), json_extract(attributes, '$.visibility'))  AS visibility,
        json_extract(attributes, '$.archived')        AS archived,
        json_extract(attributes, '$.deleted')         AS deleted,
        json_extract(attributes, '$.prev_channel_id') AS prev_channel_id,
        json_extract(attributes, '$.next_channel_id') AS next_channel_id,
        max(timestamp)                                AS event_ts
    FROM items
    WHERE item_id >= 'channel#' AND item_id < 'channel$'
      AND json_extract(attributes, '$.folded') IS NOT NULL
    GROUP BY item_id
);
