-- User groups with their handles. `members` is a JSON array of ids: the people who were listed or added since
-- the newest list, and not removed.
CREATE VIEW usergroups AS SELECT
    json_extract(attributes, '$.team_id')         AS team_id,
    timestamp                                     AS usergroup_id,
    json_extract(attributes, '$.handle')          AS handle,
    json_extract(attributes, '$.name')            AS name,
    json_extract(attributes, '$.description')     AS description,
    json_extract(attributes, '$.deleted')         AS deleted,
    json_extract(attributes, '$.member_count')    AS member_count,
    (SELECT json_group_array(member.timestamp) FROM items AS member
        WHERE member.item_id = 'usergroupmember#' || json_extract(items.attributes, '$.team_id') || '#' || items.timestamp
          AND json_extract(member.attributes, '$.removed') IS NULL
          AND json_extract(member.attributes, '$.version') >= coalesce(json_extract(items.attributes, '$.members_version'), '')
    )                                             AS members
FROM items
WHERE item_id >= 'usergroup#' AND item_id < 'usergroup$' AND json_extract(attributes, '$.version') IS NOT NULL;
