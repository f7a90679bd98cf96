-- Figures of the archive, with the table and column names of channelstats: each of its tables is a view here.
-- The views use only SQLite's own functions, so they work at any prompt.

-- The words of a message are separated by white space: each kind of white space is replaced by a blank, and a
-- run of blanks by one. Before that, the two characters that temporarily mark a blank are replaced by
-- letters. For SQLite, a text ends at its first NUL.
CREATE VIEW message_figures AS
WITH found AS (
    SELECT
        item_id,
        attributes,
        timestamp                                                              AS ts,
        json_extract(attributes, '$.channel_id')                               AS slack_cid,
        json_extract(attributes, '$.channel_id') || '_' || timestamp           AS cid_ts,
        coalesce(date(CAST(timestamp AS INTEGER), 'unixepoch'), '')            AS date,
        'thread#' || json_extract(attributes, '$.team_id') || '#' || timestamp AS thread,
        json_extract(attributes, '$.user')                                     AS slack_uid,
        coalesce(json_extract(attributes, '$.text'), '')                       AS text,
        json_extract(attributes, '$.thread_ts')                                AS thread_ts,
        coalesce(json_extract(attributes, '$.thread_ts') <> timestamp, 0)      AS is_reply,
        json_extract(attributes, '$.subtype')                                  AS subtype,
        json_extract(attributes, '$.files')                                    AS files,
        json_extract(attributes, '$.raw_event')                                AS raw_event
    FROM items
    WHERE item_id >= 'message#' AND item_id < 'message$'
      AND (json_extract(attributes, '$.content_version') IS NOT NULL OR json_extract(attributes, '$.deleted'))
),
marked AS (
    SELECT *,
        replace(replace(text, char(1), 'x'), char(2), 'x') AS marked_text
    FROM found
),
parted_1 AS (
    SELECT *,
        replace(replace(replace(replace(replace(replace(replace(replace(marked_text, char(9), ' '), char(10), ' '),
        char(11), ' '), char(12), ' '), char(13), ' '), char(133), ' '), char(160), ' '), char(5760), ' ') AS parted_1_text
    FROM marked
),
parted_2 AS (
    SELECT *,
        replace(replace(replace(replace(replace(replace(replace(replace(parted_1_text, char(8192), ' '),
        char(8193), ' '), char(8194), ' '), char(8195), ' '), char(8196), ' '), char(8197), ' '), char(8198), ' '),
        char(8199), ' ') AS parted_2_text
    FROM parted_1
),
parted_3 AS (
    SELECT *,
        replace(replace(replace(replace(replace(replace(replace(replace(parted_2_text, char(8200), ' '),
        char(8201), ' '), char(8202), ' '), char(8232), ' '), char(8233), ' '), char(8239), ' '), char(8287), ' '),
        char(12288), ' ') AS parted_3_text
    FROM parted_2
),
trimmed AS (
    SELECT *, trim(replace(replace(replace(parted_3_text, ' ', char(1, 2)), char(2, 1), ''), char(1, 2), ' ')) AS trimmed
    FROM parted_3
),
counted AS (
    SELECT *, (
        SELECT count(*) FROM items AS reply
        WHERE NOT is_reply AND reply.parent = thread AND reply.item_id = trimmed.item_id AND reply.timestamp <> ts
          AND json_extract(reply.attributes, '$.content_version') IS NOT NULL
          AND json_extract(reply.attributes, '$.deleted') IS NULL
    ) AS reply_count
    FROM trimmed
)
SELECT
    cid_ts,
    date,
    ts,
    slack_cid,
    CASE trimmed WHEN '' THEN 0 ELSE length(trimmed) - length(replace(trimmed, ' ', '')) + 1 END AS word_count,
    slack_uid,
    (SELECT coalesce(group_concat(id, ':'), '') FROM (
        SELECT id FROM (
            SELECT piece.key AS place, substr(piece.value, 1, CASE
                WHEN instr(piece.value, '>') = 0 THEN instr(piece.value, '|')
                WHEN instr(piece.value, '|') = 0 THEN instr(piece.value, '>')
                ELSE min(instr(piece.value, '|'), instr(piece.value, '>')) END - 1) AS id
            FROM json_each('[' || replace(json_quote(text), '<@', '","') || ']') AS piece
            WHERE piece.key > 0 AND (instr(piece.value, '>') > 0 OR instr(piece.value, '|') > 0)
        )
        WHERE length(id) BETWEEN 2 AND 30 AND id NOT GLOB '*[^A-Z0-9]*' AND id IS NOT slack_uid
        GROUP BY id
        ORDER BY min(place)
    )) AS mentions,
    (SELECT coalesce(group_concat(name || ':' || people, ','), '') FROM (
        SELECT name, group_concat(user, ':') AS people FROM (
            SELECT
                substr(register.key, 10, length(rtrim(register.key, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789')) - 10) AS name,
                substr(register.key, length(rtrim(register.key, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789')) + 1) AS user
            FROM json_each(attributes) AS register
            WHERE register.key GLOB 'reaction#*' AND register.value GLOB '*added'
            ORDER BY name, user
        )
        GROUP BY name
        ORDER BY name
    )) AS reactions,
    (SELECT count(*) FROM json_each(attributes) AS register
        WHERE register.key GLOB 'reaction#*' AND register.value GLOB '*added'
    ) AS reaction_count,
    thread_ts,
    CASE
        WHEN is_reply THEN coalesce(
            (SELECT json_extract(root.attributes, '$.user') FROM items AS root
                WHERE root.item_id = counted.item_id AND root.timestamp = counted.thread_ts),
            CASE WHEN json_valid(raw_event) THEN json_extract(raw_event, '$.parent_user_id') END)
        WHEN thread_ts IS NOT NULL OR reply_count > 0 THEN slack_uid
    END AS parent_user_id,
    (SELECT coalesce(group_concat(reply, ','), '') FROM (
        SELECT CASE WHEN author NOT GLOB '*[^A-Z0-9]*' AND length(author) BETWEEN 2 AND 30 THEN author ELSE '' END
            || ':' || timestamp AS reply
        FROM (
            SELECT reply.timestamp, coalesce(
                json_extract(reply.attributes, '$.user'), json_extract(reply.attributes, '$.bot_id'), '') AS author
            FROM items AS reply
            WHERE NOT is_reply AND reply.parent = thread AND reply.item_id = counted.item_id AND reply.timestamp <> ts
              AND json_extract(reply.attributes, '$.content_version') IS NOT NULL
              AND json_extract(reply.attributes, '$.deleted') IS NULL
        )
        ORDER BY timestamp
    )) AS replies,
    reply_count,
    subtype,
    files,
    NOT is_reply AND (thread_ts IS NOT NULL OR reply_count > 0) AS is_threadhead,
    thread_ts IS NOT NULL OR reply_count > 0                    AS is_threaded
FROM counted;

-- The first known message of each author, deleted or not, without notices such as channel joins.
CREATE VIEW first_posts AS SELECT
    json_extract(attributes, '$.user')       AS slack_uid,
    json_extract(attributes, '$.channel_id') AS slack_cid,
    timestamp                                AS message_id,
    CAST(min(timestamp) AS INTEGER)          AS ts
FROM items
WHERE item_id >= 'message#' AND item_id < 'message$'
  AND json_extract(attributes, '$.content_version') IS NOT NULL
  AND json_extract(attributes, '$.user') IS NOT NULL
  AND coalesce(json_extract(attributes, '$.subtype'), 'me_message') IN ('file_share', 'thread_broadcast', 'me_message')
GROUP BY slack_uid;

DROP VIEW users;
CREATE VIEW users AS SELECT
    json_extract(attributes, '$.team_id')      AS team_id,
    timestamp                                  AS user_id,
    json_extract(attributes, '$.name')         AS name,
    json_extract(attributes, '$.real_name')    AS real_name,
    json_extract(attributes, '$.display_name') AS display_name,
    json_extract(attributes, '$.is_bot')       AS is_bot,
    json_extract(attributes, '$.deleted')      AS deleted,
    json_extract(attributes, '$.raw_event')    AS raw_event,
    timestamp                                  AS slack_uid,
    json_extract(attributes, '$.name')         AS user_name,
    json_extract(attributes, '$.tz')           AS tz,
    json_extract(attributes, '$.tz_offset')    AS tz_offset,
    CAST(json_extract(attributes, '$.insert_timestamp') AS INTEGER) AS insert_timestamp
FROM items
WHERE item_id >= 'user#' AND item_id < 'user$'
  AND json_extract(attributes, '$.erased') IS NULL;

-- The ids of users by their last character.
CREATE VIEW user_hash AS SELECT substr(user_id, -1) AS user_key, group_concat(user_id, ' ') AS uids
FROM (SELECT DISTINCT user_id FROM users ORDER BY user_id)
GROUP BY user_key;

-- Channels with the additional columns of channelstats. Each channel has one row, which is found by its id or
-- its name.
DROP VIEW channels;
CREATE VIEW channels AS SELECT
    *,
    name                                          AS friendly_name,
    channel_id                                    AS slack_cid,
    CASE WHEN archived THEN 0 ELSE (
        SELECT CASE WHEN json_valid(raw.value)
            THEN coalesce(json_extract(raw.value, '$.channel.num_members'), json_extract(raw.value, '$.num_members')) END AS members
        FROM items AS snapshot, json_each(snapshot.attributes) AS raw
        WHERE snapshot.item_id = 'channel#' || team_id || '#' || channel_id AND raw.key GLOB 'raw#*' AND members IS NOT NULL
        ORDER BY snapshot.timestamp DESC
        LIMIT 1
    ) END                                         AS members,
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
        json_extract(attributes, '$.visibility')      AS visibility,
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
