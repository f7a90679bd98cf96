//! The rows of the responder. Each state is a register; all other attributes are set once: the first text of
//! an answer stays forever.

use ports::archive::{Attributes, Guard, Item, ItemKey, Update, text_attributes};
use ports::files::FileKey;
use serde_json::{Value, json};
use slack::ids::{ChannelId, TeamId, Ts, UserId};

use super::state::{PartState, TrackedKind, WorkStage, WorkState};
use super::{QuestionId, QuestionText};

/// The register of a question and of an answer.
pub const STATE: &str = "state";

/// The attribute of a question with the name of its channel.
const CHANNEL_NAME: &str = "channel_name";

/// The attribute with the reason of a failure.
pub const ERROR: &str = "error_message";

/// The mark of a question that its budgets have counted.
const COUNTED: &str = "counted";

/// The attribute with the time at which an attempt to post an answer began.
const SENDING_AT: &str = "sending_at";

/// The register of a thread.
const LAST_CHECKED: &str = "last_checked";

/// Longer reasons are truncated: they are for operators.
const MAX_ERROR_CHARS: usize = 500;

#[derive(Debug, Clone, PartialEq)]
pub struct QuestionRow {
    /// The message that asks.
    pub id: QuestionId,
    pub content: QuestionText,
    pub state: WorkState,
    /// When it was first seen, in seconds since the Unix epoch.
    pub fetched_at_s: i64,
    /// Whether its budgets have counted it.
    pub is_counted: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AnswerRow {
    pub id: QuestionId,
    /// The user who asked.
    pub user: Option<UserId>,
    /// The whole text.
    pub text: String,
    pub state: WorkState,
    attributes: Attributes,
}

fn text(item: &Item, name: &str) -> Option<String> {
    item.text(name).map(str::to_owned)
}

/// The id of the question in a row of the responder.
fn id_of(item: &Item) -> Option<QuestionId> {
    let team = TeamId::parse(item.key.item_id.split_once('#')?.1).ok()?;
    let (channel, ts) = item.key.timestamp.split_once('#')?;
    let (channel, ts) = (ChannelId::parse(channel).ok()?, Ts::parse(ts).ok()?);
    let thread_ts = Ts::parse(item.text("thread_ts")?).ok()?;
    Some(QuestionId { team, channel, ts, thread_ts })
}

fn identity(kind: &str, id: &QuestionId, user: Option<&UserId>) -> Attributes {
    let QuestionId { team, channel, ts, thread_ts } = id;
    let mut attributes = text_attributes([
        ("type", kind),
        ("team_id", team.as_str()),
        ("channel_id", channel.as_str()),
        ("question_ts", ts.as_str()),
        ("thread_ts", thread_ts.as_str()),
    ]);
    // The user whose words the row contains or answers, with whom it is erased.
    attributes.extend(user.map(|user| ("user".to_owned(), user.as_str().into())));
    attributes
}

impl QuestionRow {
    /// A question that has no row yet.
    pub fn new(id: &QuestionId, asked: &QuestionText, now_s: i64) -> Self {
        let (id, asked) = (id.clone(), asked.clone());
        Self { id, content: asked, state: WorkState::NEW, fetched_at_s: now_s, is_counted: false }
    }

    /// Reads a row; `None` if it is erased or does not contain a question.
    pub fn read(item: &Item) -> Option<Self> {
        if item.is_erased() {
            return None;
        }
        let id = id_of(item)?;
        let user = UserId::parse(item.text("user")?).ok()?;
        let asked = QuestionText {
            user,
            text: text(item, "text").unwrap_or_default(),
            mentioned: item.text("mentioned").and_then(|user| UserId::parse(user).ok()),
            files: Vec::new(),
        };
        let fetched_at_s = item.attributes.get("fetched_at").and_then(Value::as_i64).unwrap_or_default();
        let (state, is_counted) = (WorkState::read(item.text(STATE)), item.has_flag(COUNTED));
        Some(Self { id, content: asked, state, fetched_at_s, is_counted })
    }
}

impl AnswerRow {
    /// Reads a row; `None` if it is erased or does not contain an answer.
    pub fn read(item: &Item) -> Option<Self> {
        if item.is_erased() {
            return None;
        }
        Some(Self {
            id: id_of(item)?,
            user: item.text("user").and_then(|user| UserId::parse(user).ok()),
            text: text(item, "response_text")?,
            state: WorkState::read(item.text(STATE)),
            attributes: item.attributes.clone(),
        })
    }

    pub fn part(&self, number: usize) -> PartState {
        PartState::read(self.register(number))
    }

    /// When the last attempt to post the part started, in milliseconds since the Unix epoch.
    pub fn part_tried_at_ms(&self, number: usize) -> Option<i64> {
        self.attributes.get(&tried_at(number)).and_then(Value::as_i64)
    }

    /// How often the answer was tried again.
    pub fn retry_count(&self) -> i64 {
        self.attributes.get("retry_count").and_then(Value::as_i64).unwrap_or_default()
    }

    /// When this generation began, in seconds since the Unix epoch; `None` if an operator requested it and it
    /// has not begun yet.
    pub fn begun_at_s(&self) -> Option<i64> {
        let name = match self.state {
            WorkState { generation: 0, .. } => "created_at",
            WorkState { stage: WorkStage::Pending, .. } => return None,
            WorkState { .. } => SENDING_AT,
        };
        self.attributes.get(name).and_then(Value::as_i64)
    }

    /// Whether only Slack knows if one of its parts was posted.
    pub fn is_unclear(&self) -> bool {
        let is_sending = |number| matches!(self.part(number), PartState::Sending(_));
        (0..).take_while(|number| self.register(*number).is_some()).any(is_sending)
    }

    /// The messages as which its parts were posted, in order.
    pub fn posted(&self) -> Vec<Ts> {
        let sent = |number| match self.part(number) {
            PartState::Sent(ts) => Some(ts),
            PartState::New | PartState::Refused(_) | PartState::Sending(_) => None,
        };
        (0..).take_while(|number| self.register(*number).is_some()).filter_map(sent).collect()
    }

    fn register(&self, number: usize) -> Option<&str> {
        self.attributes.get(&part(number)).and_then(Value::as_str)
    }

    /// The update that records an attempt to post a part before it starts, unless the part's register has
    /// changed since the row was read.
    pub fn intent(&self, number: usize, now_ms: i64) -> Update {
        let attempt = self.part(number).next_attempt();
        let guard = Guard::Unchanged {
            register: part(number),
            expected: self.register(number).map(str::to_owned),
            version: PartState::sending(attempt),
        };
        let mut update = Update { guard, ..Update::new(self.key()) };
        update.set.insert(tried_at(number), now_ms.into());
        update.set.insert("retry_count".into(), attempt.saturating_sub(1).into());
        update
    }

    /// The update that records the result of an attempt.
    pub fn part_update(&self, number: usize, version: String) -> Update {
        let guard = Guard::Greater { register: part(number), version };
        Update { guard, ..Update::new(self.key()) }
    }

    fn key(&self) -> ItemKey {
        ItemKey::answer(&self.id.team, &self.id.channel, &self.id.ts)
    }
}

fn part(number: usize) -> String {
    format!("part#{number:03}")
}

fn tried_at(number: usize) -> String {
    format!("part_at#{number:03}")
}

/// The name that the channel had when the question was stored.
pub fn channel_name(row: &Item) -> Option<&str> {
    row.text(CHANNEL_NAME)
}

/// The update that stores a new question, with the current name of its channel. Existing attributes stay.
pub fn asked(id: &QuestionId, asked: &QuestionText, channel_name: Option<&str>, now_s: i64) -> Update {
    let QuestionText { user, text, mentioned, files } = asked;
    let mut set_if_absent = identity("question", id, Some(user));
    set_if_absent.insert("text".into(), text.as_str().into());
    set_if_absent.insert("fetched_at".into(), now_s.into());
    set_if_absent.insert(STATE.into(), WorkState::NEW.register(TrackedKind::Question).into());
    let mentioned = mentioned.as_ref().map(|user| ("mentioned".to_owned(), user.as_str().into()));
    set_if_absent.extend(mentioned);
    set_if_absent.extend(channel_name.map(|name| (CHANNEL_NAME.to_owned(), name.into())));
    if !files.is_empty() {
        let key = |file| FileKey::shared(&id.team, &id.channel, &id.ts, file).to_string();
        set_if_absent.insert("files".into(), json!(files.iter().map(key).collect::<Vec<_>>()));
    }
    Update { set_if_absent, ..Update::new(ItemKey::question(&id.team, &id.channel, &id.ts)) }
}

/// The update that stores the whole text of an answer, once.
pub fn answer_update(id: &QuestionId, user: &UserId, text: &str, now_s: i64) -> Update {
    let mut set_if_absent = identity("answer", id, Some(user));
    set_if_absent.insert("response_text".into(), text.into());
    set_if_absent.insert("created_at".into(), now_s.into());
    set_if_absent.insert(STATE.into(), WorkState::NEW.register(TrackedKind::Answer).into());
    Update { set_if_absent, ..Update::new(ItemKey::answer(&id.team, &id.channel, &id.ts)) }
}

/// The update that moves a question to another state. `processed_at` is the time of the change, by which
/// stuck questions are found and reset.
pub fn question_state_update(id: &QuestionId, state: WorkState, error: Option<&str>, now_s: i64) -> Update {
    let key = ItemKey::question(&id.team, &id.channel, &id.ts);
    let at = (state.stage != WorkStage::Pending).then_some("processed_at");
    state_update(key, TrackedKind::Question, state, at, error, now_s)
}

/// The update that begins the work on a question, as one write: it also creates the row if that is missing,
/// and records whether the budgets have counted the question.
pub fn begin_question(
    id: &QuestionId,
    state: WorkState,
    new: Option<Update>,
    is_counted: bool,
    now_s: i64,
) -> Update {
    let mut update = question_state_update(id, state, None, now_s);
    update.set_if_absent.extend(new.into_iter().flat_map(|new| new.set_if_absent));
    // This write sets another state.
    update.set_if_absent.remove(STATE);
    update.set_if_absent.extend(is_counted.then(|| (COUNTED.to_owned(), true.into())));
    update
}

/// The update that moves an answer to another state.
pub fn answer_state_update(id: &QuestionId, state: WorkState, error: Option<&str>, now_s: i64) -> Update {
    let key = ItemKey::answer(&id.team, &id.channel, &id.ts);
    let at = match state.stage {
        WorkStage::Working => Some(SENDING_AT),
        WorkStage::Finished => Some("sent_at"),
        WorkStage::Pending | WorkStage::Failed => None,
    };
    state_update(key, TrackedKind::Answer, state, at, error, now_s)
}

fn state_update(
    key: ItemKey,
    kind: TrackedKind,
    state: WorkState,
    at: Option<&str>,
    error: Option<&str>,
    now_s: i64,
) -> Update {
    let guard = Guard::Greater { register: STATE.into(), version: state.register(kind) };
    let mut update = Update { guard, ..Update::new(key) };
    update.set.extend(at.map(|at| (at.to_owned(), now_s.into())));
    match error {
        Some(error) => {
            let error: String = error.chars().take(MAX_ERROR_CHARS).collect();
            update.set.insert(ERROR.into(), error.into());
        }
        None => update.remove.push(ERROR),
    }
    update
}

/// The update that records a thread in which the app is about to post.
pub fn thread(id: &QuestionId, now_s: i64) -> Update {
    let QuestionId { team, channel, thread_ts, .. } = id;
    let guard = Guard::Greater { register: LAST_CHECKED.into(), version: format!("{now_s:012}") };
    let mut set_if_absent = text_attributes([
        ("type", "botthread"),
        ("team_id", team.as_str()),
        ("channel_id", channel.as_str()),
        ("thread_ts", thread_ts.as_str()),
    ]);
    set_if_absent.insert("created_at".into(), now_s.into());
    Update { guard, set_if_absent, ..Update::new(ItemKey::bot_thread(team, channel, thread_ts)) }
}

/// The update that records a message that the app has posted.
pub fn posted(answer: &AnswerRow, text: &str, posted_ts: &Ts) -> Update {
    let QuestionId { team, channel, .. } = &answer.id;
    let mut set_if_absent = identity("botmessage", &answer.id, answer.user.as_ref());
    set_if_absent.insert("response_text".into(), text.into());
    Update { set_if_absent, ..Update::new(ItemKey::bot_message(team, channel, posted_ts)) }
}

/// The update that records that a question was answered. The row is kept forever, so that the question is
/// never answered again.
pub fn responded_update(answer: &AnswerRow, now_s: i64) -> Update {
    let QuestionId { team, channel, ts, .. } = &answer.id;
    let mut set_if_absent = identity("responded", &answer.id, answer.user.as_ref());
    set_if_absent.insert("response_text".into(), answer.text.as_str().into());
    set_if_absent.insert("responded_at".into(), now_s.into());
    Update { set_if_absent, ..Update::new(ItemKey::responded(team, channel, ts)) }
}

/// The question that a row of the responder belongs to.
pub fn question_of(item: &Item) -> Option<(ChannelId, Ts)> {
    let (channel, ts) = (item.text("channel_id")?, item.text("question_ts")?);
    Some((ChannelId::parse(channel).ok()?, Ts::parse(ts).ok()?))
}

/// The user with whom a row of the responder is erased.
pub fn user_of(item: &Item) -> Option<&str> {
    item.text("user")
}

/// The keys of the files of a stored question.
pub fn file_keys(question: &Item) -> impl Iterator<Item = &str> {
    let files = question.attributes.get("files").and_then(Value::as_array);
    files.into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a row of the responder belongs to this question.
pub fn belongs_to(item: &Item, channel: &ChannelId, question_ts: &Ts) -> bool {
    question_of(item).is_some_and(|(of, ts)| of == *channel && ts == *question_ts)
}

/// Whether a question or an answer was finished before this second and can be deleted.
pub fn is_done_before(item: &Item, before_s: i64) -> bool {
    let at = if item.text("type") == Some("answer") { "sent_at" } else { "processed_at" };
    let finished = WorkState::read(item.text(STATE)).stage == WorkStage::Finished;
    let done_at = item.attributes.get(at).and_then(Value::as_i64);
    !item.is_erased() && finished && done_at.is_some_and(|done_at| done_at < before_s)
}
