//! The views of questions, with the statements from the documentation of claude-slack-bot.

use ports::archive::{ArchiveError, Update, WriteOutcome};
use rules::question::rows::{self, AnswerRow, QuestionRow};
use rules::question::state::{PartState, WorkStage, WorkState};
use rules::question::{QuestionId, QuestionText};
use rusqlite::Connection;
use slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};

use super::open_for_writing;

/// The eight statements, verbatim.
const PENDING_MESSAGES: &str = "SELECT * FROM message_queue 
WHERE status = 'pending' 
ORDER BY fetched_at ASC 
LIMIT 10;";
const PENDING_RESPONSES: &str = "SELECT * FROM response_queue 
WHERE status = 'pending' 
ORDER BY created_at ASC 
LIMIT 20;";
const WAS_RESPONDED: &str = "SELECT 1 FROM responded_messages 
WHERE message_id = ?;";
const ACTIVE_THREADS: &str = "SELECT * FROM bot_threads 
WHERE last_checked < datetime('now', '-5 minutes')
ORDER BY last_checked ASC;";
const SIZES: &str = "SELECT 
  (SELECT COUNT(*) FROM message_queue WHERE status = 'pending') as pending_messages,
  (SELECT COUNT(*) FROM response_queue WHERE status = 'pending') as pending_responses;";
const CLEAN_MESSAGES: &str = "DELETE FROM message_queue 
WHERE status = 'processed' 
AND processed_at < datetime('now', '-30 days');";
const CLEAN_RESPONSES: &str = "DELETE FROM response_queue 
WHERE status = 'sent' 
AND sent_at < datetime('now', '-30 days');";
const RESET_STUCK: &str = "UPDATE message_queue 
SET status = 'pending' 
WHERE status = 'processing' 
AND processed_at < datetime('now', '-10 minutes');";

/// A database in a file, written like the archive writes it and read like at a SQL prompt, with triggers.
struct QuestionsDatabase {
    _folder: tempfile::TempDir,
    database: Connection,
    now_s: i64,
}

impl QuestionsDatabase {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("annalist.db");
        drop(open_for_writing(&file).unwrap());
        let database = Connection::open(&file).unwrap();
        let now_s = database.query_row("SELECT unixepoch('now')", [], |row| row.get(0)).unwrap();
        Self { _folder: folder, database, now_s }
    }

    fn write(&self, update: &Update) -> Result<WriteOutcome, ArchiveError> {
        let key = (&update.key.item_id, &update.key.timestamp);
        let read = "SELECT attributes FROM items WHERE item_id = ?1 AND timestamp = ?2";
        let stored: Option<String> = self.database.query_row(read, key, |row| row.get(0)).ok();
        let stored = stored.map(|json| serde_json::from_str(&json).unwrap());
        let attributes = serde_json::to_string(&update.apply(stored.as_ref()).unwrap()).unwrap();
        let write = "INSERT INTO items (item_id, timestamp, attributes) VALUES (?1, ?2, ?3)
            ON CONFLICT (item_id, timestamp) DO UPDATE SET attributes = ?3";
        self.database.execute(write, (key.0, key.1, attributes)).unwrap();
        Ok(WriteOutcome::Applied)
    }

    fn columns(&self, view: &str) -> Vec<String> {
        let statement = self.database.prepare(&format!("SELECT * FROM {view}")).unwrap();
        statement.column_names().into_iter().map(str::to_owned).collect()
    }

    fn texts(&self, query: &str) -> Vec<String> {
        let mut statement = self.database.prepare(query).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    fn count(&self, query: &str) -> usize {
        let mut statement = self.database.prepare(query).unwrap();
        let mut rows = statement.query([]).unwrap();
        std::iter::from_fn(|| rows.next().unwrap().map(|_| ())).count()
    }

    /// A question that was asked `ago_s` seconds ago.
    fn ask(&self, n: u32, ago_s: i64) -> QuestionId {
        let (id, asked) = (id(n), asked());
        self.write(&rows::asked(&id, &asked, Some("ops"), self.now_s - ago_s)).unwrap();
        id
    }

    fn question(&self, id: &QuestionId, stage: WorkStage, ago_s: i64) {
        let state = WorkState::NEW.with_stage(stage);
        self.write(&rows::question_state_update(id, state, None, self.now_s - ago_s)).unwrap();
    }
}

fn id(n: u32) -> QuestionId {
    let ts = Ts::parse(&format!("1700000000.{n:06}")).unwrap();
    QuestionId {
        team: TeamId::parse("T1").unwrap(),
        channel: ChannelId::parse("C1").unwrap(),
        thread_ts: ts.clone(),
        ts,
    }
}

fn asked() -> QuestionText {
    QuestionText {
        user: UserId::parse("U1").unwrap(),
        text: "why?".into(),
        mentioned: UserId::parse("U0").ok(),
        files: vec![FileId::parse("F1").unwrap()],
    }
}

#[test]
fn the_views_have_the_columns_of_the_tables() {
    let prompt = QuestionsDatabase::new();
    for (view, columns) in [
        (
            "message_queue",
            "id message_id channel_id channel_name thread_ts user_id text has_attachments file_paths fetched_at status \
             processed_at error_message",
        ),
        (
            "response_queue",
            "id message_id channel_id thread_ts response_text created_at status sent_at error_message retry_count",
        ),
        ("responded_messages", "id message_id channel_id thread_ts response_text responded_at"),
        ("bot_threads", "id channel_id thread_ts last_checked created_at"),
        ("bot_responses", "id channel_id thread_ts response_text posted_at"),
    ] {
        assert_eq!(prompt.columns(view).join(" "), columns, "{view}");
    }
}

#[test]
fn the_eight_statements_select_update_and_delete_the_right_rows() {
    let prompt = QuestionsDatabase::new();
    let (waiting, stuck, recent) = (prompt.ask(1, 60), prompt.ask(2, 1_000), prompt.ask(3, 1_000));
    let (old, new) = (prompt.ask(4, 40 * 86_400), prompt.ask(5, 86_400));
    prompt.question(&stuck, WorkStage::Working, 700);
    prompt.question(&recent, WorkStage::Working, 500);
    prompt.question(&old, WorkStage::Finished, 31 * 86_400);
    prompt.question(&new, WorkStage::Finished, 29 * 86_400);
    assert_eq!(
        prompt.texts(&format!("SELECT message_id FROM ({})", PENDING_MESSAGES.trim_end_matches(';'))),
        [waiting.ts.as_str()]
    );
    let shown = "SELECT concat_ws('|', channel_id, channel_name, thread_ts, user_id, text, has_attachments, file_paths)
        FROM message_queue WHERE status = 'pending'";
    let file = format!("[\"slack/T1/C1/{}/F1\"]", waiting.ts);
    assert_eq!(prompt.texts(shown), [format!("C1|ops|{}|U1|why?|1|{file}", waiting.ts)]);

    for (id, ago_s) in [(&old, 31 * 86_400), (&new, 29 * 86_400)] {
        prompt.write(&rows::answer_update(id, &asked().user, "so", prompt.now_s - ago_s)).unwrap();
        prompt.write(&rows::thread(id, prompt.now_s - ago_s)).unwrap();
    }
    assert_eq!(prompt.count(PENDING_RESPONSES), 2);
    assert_eq!(prompt.texts(&SIZES.replace("as pending_messages,", "|| ':' ||")), ["1:2"]);
    assert_eq!(prompt.count(ACTIVE_THREADS), 2);
    for (id, ago_s) in [(&old, 31 * 86_400), (&new, 29 * 86_400)] {
        let key = ports::archive::ItemKey::answer(&id.team, &id.channel, &id.ts);
        let update = rows::answer_state_update(
            id,
            WorkState::NEW.with_stage(WorkStage::Finished),
            None,
            prompt.now_s - ago_s,
        );
        let attributes = rows::answer_update(id, &asked().user, "so", 0).set_if_absent;
        let answer = AnswerRow::read(&ports::archive::Item { key, attributes }).unwrap();
        prompt.write(&answer.part_update(0, PartState::sent(&id.ts))).unwrap();
        prompt.write(&rows::posted(&answer, "so", &id.ts)).unwrap();
        prompt.write(&rows::responded_update(&answer, prompt.now_s - ago_s)).unwrap();
        prompt.write(&update).unwrap();
    }
    let responded = |id: &QuestionId| {
        let mut statement = prompt.database.prepare(WAS_RESPONDED).unwrap();
        statement.exists([id.ts.as_str()]).unwrap()
    };
    assert!(responded(&old) && !responded(&waiting));
    assert_eq!(
        prompt.texts("SELECT posted_at FROM bot_responses"),
        ["2023-11-14 22:13:20", "2023-11-14 22:13:20"]
    );

    for statement in [CLEAN_MESSAGES, CLEAN_RESPONSES, RESET_STUCK] {
        prompt.database.execute_batch(statement).unwrap();
    }
    let left = |view: &str| prompt.texts(&format!("SELECT message_id FROM {view} ORDER BY message_id"));
    let ids = |ids: &[&QuestionId]| ids.iter().map(|id| id.ts.to_string()).collect::<Vec<_>>();
    assert_eq!(left("message_queue"), ids(&[&waiting, &stuck, &recent, &new]));
    assert_eq!(left("response_queue"), ids(&[&new]));
    assert_eq!(left("responded_messages"), ids(&[&old, &new]), "it stays known that it was answered");
    let pending = "SELECT message_id FROM message_queue WHERE status = 'pending' ORDER BY message_id";
    assert_eq!(prompt.texts(pending), ids(&[&waiting, &stuck]));
    let states = "SELECT json_extract(attributes, '$.state') FROM items WHERE item_id = 'question#T1' ORDER BY timestamp";
    assert_eq!(prompt.texts(states)[..2], ["000000/1/pending", "000001/1/pending"]);
    // A late write of a process that is still working on the question does not overwrite the reset.
    let late = rows::question_state_update(&stuck, WorkState::NEW.with_stage(WorkStage::Finished), None, 0);
    let attributes = "SELECT attributes FROM items WHERE item_id = 'question#T1' AND timestamp LIKE '%2'";
    let stored: ports::archive::Attributes = serde_json::from_str(&prompt.texts(attributes)[0]).unwrap();
    assert_eq!(late.apply(Some(&stored)), None);
    let row = ports::archive::Item { key: late.key.clone(), attributes: stored };
    assert_eq!(QuestionRow::read(&row).unwrap().state.generation, 1);
}

#[test]
fn other_changes_at_a_prompt_are_rejected() {
    let prompt = QuestionsDatabase::new();
    let working = prompt.ask(1, 60);
    prompt.question(&working, WorkStage::Working, 60);
    prompt.write(&rows::answer_update(&working, &asked().user, "so", 0)).unwrap();
    for (statement, expected) in [
        ("UPDATE message_queue SET status = 'processed'", "only status"),
        ("UPDATE message_queue SET status = 'pending', text = 'other'", "only status"),
        ("UPDATE response_queue SET response_text = 'other'", "only status"),
        ("DELETE FROM message_queue", "only what is processed"),
        ("DELETE FROM response_queue", "only what is sent"),
        ("INSERT INTO message_queue (message_id, channel_id) VALUES ('1', 'C1')", "view"),
        ("DELETE FROM responded_messages", "view"),
        ("UPDATE bot_threads SET last_checked = ''", "view"),
    ] {
        let refused = prompt.database.execute_batch(statement).unwrap_err().to_string();
        assert!(refused.contains(expected), "{statement}: {refused}");
    }
    let kept = prompt.texts("SELECT status || text FROM message_queue");
    assert_eq!(kept, ["processingwhy?"]);
}
