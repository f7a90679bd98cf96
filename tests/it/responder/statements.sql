SELECT * FROM message_queue 
WHERE status = 'pending' 
ORDER BY fetched_at ASC 
LIMIT 10;

SELECT * FROM response_queue 
WHERE status = 'pending' 
ORDER BY created_at ASC 
LIMIT 20;

SELECT 1 FROM responded_messages 
WHERE message_id = ?;

SELECT * FROM bot_threads 
WHERE last_checked < datetime('now', '-5 minutes')
ORDER BY last_checked ASC;

SELECT 
  (SELECT COUNT(*) FROM message_queue WHERE status = 'pending') as pending_messages,
  (SELECT COUNT(*) FROM response_queue WHERE status = 'pending') as pending_responses;

DELETE FROM message_queue 
WHERE status = 'processed' 
AND processed_at < datetime('now', '-30 days');

DELETE FROM response_queue 
WHERE status = 'sent' 
AND sent_at < datetime('now', '-30 days');

UPDATE message_queue 
SET status = 'pending' 
WHERE status = 'processing' 
AND processed_at < datetime('now', '-10 minutes');
