-- Two more tables of channelstats. A channel has two rows: one is found by its id, the other by its name.
CREATE VIEW channel AS
SELECT slack_cid AS channel_key, friendly_name, slack_cid, members, is_channel, is_im, is_group, is_mpim, created
FROM channels
UNION ALL
SELECT friendly_name, friendly_name, slack_cid, members, is_channel, is_im, is_group, is_mpim, created
FROM channels
WHERE friendly_name IS NOT NULL;

-- The counts of Slack's directory at its last sync, per workspace.
CREATE VIEW configuration AS SELECT
    'counts'                                      AS key,
    json_extract(attributes, '$.team_id')         AS team_id,
    json_extract(attributes, '$.all_users')       AS all_users,
    json_extract(attributes, '$.active_users')    AS active_users,
    json_extract(attributes, '$.bots')            AS bots,
    json_extract(attributes, '$.deleted_users')   AS deleted_users,
    json_extract(attributes, '$.channels')        AS channels,
    json_extract(attributes, '$.synced_ts')       AS synced_ts
FROM items
WHERE item_id >= 'meta#' AND item_id < 'meta$' AND item_id GLOB 'meta#*#sync' AND timestamp = 'directory';
