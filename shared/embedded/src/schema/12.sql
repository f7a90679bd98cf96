-- Questions, answers and posts, with the table and column names of claude-slack-bot. Times have the format of
-- SQLite's datetime(). `id` is the rowid in this file, which changes with a restore.
CREATE VIEW message_queue AS SELECT
    rowid                                                                 AS id,
    json_extract(attributes, '$.question_ts')                             AS message_id,
    json_extract(attributes, '$.channel_id')                              AS channel_id,
    json_extract(attributes, '$.channel_name')                            AS channel_name,
    json_extract(attributes, '$.thread_ts')                               AS thread_ts,
    json_extract(attributes, '$.user')                                    AS user_id,
    json_extract(attributes, '$.text')                                    AS text,
    json_extract(attributes, '$.files') IS NOT NULL                       AS has_attachments,
    json_extract(attributes, '$.files')                                   AS file_paths,
    datetime(json_extract(attributes, '$.fetched_at'), 'unixepoch')       AS fetched_at,
    substr(json_extract(attributes, '$.state'), 10)                       AS status,
    datetime(json_extract(attributes, '$.processed_at'), 'unixepoch')     AS processed_at,
    json_extract(attributes, '$.error_message')                           AS error_message
FROM items
WHERE item_id >= 'question#' AND item_id < 'question$'
  AND json_extract(attributes, '$.user') IS NOT NULL;

CREATE VIEW response_queue AS SELECT
    rowid                                                                 AS id,
    json_extract(attributes, '$.question_ts')                             AS message_id,
    json_extract(attributes, '$.channel_id')                              AS channel_id,
    json_extract(attributes, '$.thread_ts')                               AS thread_ts,
    json_extract(attributes, '$.response_text')                           AS response_text,
    datetime(json_extract(attributes, '$.created_at'), 'unixepoch')       AS created_at,
    substr(json_extract(attributes, '$.state'), 10)                       AS status,
    datetime(json_extract(attributes, '$.sent_at'), 'unixepoch')          AS sent_at,
    json_extract(attributes, '$.error_message')                           AS error_message,
    coalesce(json_extract(attributes, '$.retry_count'), 0)                AS retry_count
FROM items
WHERE item_id >= 'answer#' AND item_id < 'answer$'
  AND json_extract(attributes, '$.response_text') IS NOT NULL;

CREATE VIEW responded_messages AS SELECT
    rowid                                                                 AS id,
    json_extract(attributes, '$.question_ts')                             AS message_id,
    json_extract(attributes, '$.channel_id')                              AS channel_id,
    json_extract(attributes, '$.thread_ts')                               AS thread_ts,
    json_extract(attributes, '$.response_text')                           AS response_text,
    datetime(json_extract(attributes, '$.responded_at'), 'unixepoch')     AS responded_at
FROM items
WHERE item_id >= 'responded#' AND item_id < 'responded$'
  AND json_extract(attributes, '$.question_ts') IS NOT NULL;

CREATE VIEW bot_threads AS SELECT
    rowid                                                                 AS id,
    json_extract(attributes, '$.channel_id')                              AS channel_id,
    json_extract(attributes, '$.thread_ts')                               AS thread_ts,
    datetime(CAST(json_extract(attributes, '$.last_checked') AS INTEGER), 'unixepoch') AS last_checked,
    datetime(json_extract(attributes, '$.created_at'), 'unixepoch')       AS created_at
FROM items
WHERE item_id >= 'botthread#' AND item_id < 'botthread$'
  AND json_extract(attributes, '$.thread_ts') IS NOT NULL;

CREATE VIEW bot_responses AS SELECT
    rowid                                                                 AS id,
    json_extract(attributes, '$.channel_id')                              AS channel_id,
    json_extract(attributes, '$.thread_ts')                               AS thread_ts,
    json_extract(attributes, '$.response_text')                           AS response_text,
    datetime(CAST(substr(timestamp, instr(timestamp, '#') + 1) AS INTEGER), 'unixepoch') AS posted_at
FROM items
WHERE item_id >= 'botmessage#' AND item_id < 'botmessage$'
  AND json_extract(attributes, '$.response_text') IS NOT NULL;

-- A question that is stuck or failed is restarted with the next generation, which is greater than every state
-- of the previous one. The triggers run at a SQL prompt; the connections of this program run no triggers.
CREATE TRIGGER message_queue_reset INSTEAD OF UPDATE ON message_queue BEGIN
    SELECT RAISE(ABORT, 'only status can be set, to pending')
    WHERE NEW.status IS NOT 'pending' OR NEW.id IS NOT OLD.id OR NEW.message_id IS NOT OLD.message_id
       OR NEW.channel_id IS NOT OLD.channel_id OR NEW.channel_name IS NOT OLD.channel_name
       OR NEW.thread_ts IS NOT OLD.thread_ts OR NEW.user_id IS NOT OLD.user_id OR NEW.text IS NOT OLD.text
       OR NEW.has_attachments IS NOT OLD.has_attachments OR NEW.file_paths IS NOT OLD.file_paths
       OR NEW.fetched_at IS NOT OLD.fetched_at OR NEW.processed_at IS NOT OLD.processed_at
       OR NEW.error_message IS NOT OLD.error_message;
    UPDATE items SET attributes = json_set(attributes, '$.state',
        printf('%06d/1/pending', CAST(substr(json_extract(attributes, '$.state'), 1, 6) AS INTEGER) + 1))
    WHERE rowid = OLD.id AND OLD.status IS NOT 'pending';
END;

CREATE TRIGGER response_queue_reset INSTEAD OF UPDATE ON response_queue BEGIN
    SELECT RAISE(ABORT, 'only status can be set, to pending')
    WHERE NEW.status IS NOT 'pending' OR NEW.id IS NOT OLD.id OR NEW.message_id IS NOT OLD.message_id
       OR NEW.channel_id IS NOT OLD.channel_id OR NEW.thread_ts IS NOT OLD.thread_ts
       OR NEW.response_text IS NOT OLD.response_text OR NEW.created_at IS NOT OLD.created_at
       OR NEW.sent_at IS NOT OLD.sent_at OR NEW.error_message IS NOT OLD.error_message
       OR NEW.retry_count IS NOT OLD.retry_count;
    SELECT RAISE(ABORT, 'what is sent stays sent') WHERE OLD.status IS 'sent';
    UPDATE items SET attributes = json_set(attributes, '$.state',
        printf('%06d/1/pending', CAST(substr(json_extract(attributes, '$.state'), 1, 6) AS INTEGER) + 1))
    WHERE rowid = OLD.id AND OLD.status IS NOT 'pending';
END;

-- Finished rows may be deleted. responded_messages permanently records which questions were answered.
CREATE TRIGGER message_queue_delete INSTEAD OF DELETE ON message_queue BEGIN
    SELECT RAISE(ABORT, 'only what is processed, or an error, can be deleted')
    WHERE OLD.status NOT IN ('processed', 'error');
    DELETE FROM items WHERE rowid = OLD.id;
END;

CREATE TRIGGER response_queue_delete INSTEAD OF DELETE ON response_queue BEGIN
    SELECT RAISE(ABORT, 'only what is sent can be deleted') WHERE OLD.status IS NOT 'sent';
    DELETE FROM items WHERE rowid = OLD.id;
END;
