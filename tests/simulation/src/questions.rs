//! People ask questions while everything goes wrong, another bot mentions the app, and the app hears what it says itself. What has to
//! become of the questions, [`super::answers`] says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::archive::{ArchiveExt, Item, ItemKey};
use ports::queue::Queue;
use process::config::responder::{ResponderLimits, ResponderMode, ResponderSettings};
use processor::{Answer, Processor, ProcessorError, Prompt};
use rules::question::QuestionId;
use rules::question::job::QuestionJob;
use rules::question::rows::{self, AnswerRow, QuestionRow};
use rules::question::state::WorkStage;
use serde_json::Value;
use slack::ids::{ChannelId, TeamId, Ts, UserId};
use testkit::corpus::{TEAM, event, ts};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::fleet::Surroundings;
use super::operator::until_idle;
use super::sender::SlackSender;
use super::workload::{Fate, Planned, START_MICROS};
use super::world::{Invariant, World, lock};

/// Where people ask. Nothing else happens there.
pub(super) const CHANNEL: &str = "C0ASKED";

/// Who asks. This person is never erased, their questions may be.
pub(super) const ASKER: &str = "U0ASKER";

/// In every message that is certain to ask.
pub(super) const QUESTION: &str = "question";

/// In every reply that asks if the app has spoken in its thread by then.
pub(super) const REMARK: &str = "remark";

/// Replies without a mention that people write under the app's own messages.
const MAX_FOLLOW_UPS: u64 = 2;

/// Beyond this number of rounds the app talks to itself.
const MAX_ROUNDS: usize = 10;

/// The app, as events name it.
pub(super) const APP: &str = "U0ANNALIST";

/// No clock that jumps makes a question too old.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A model that is quick and never says the same thing twice, in one message or in two.
struct InventiveProcessor(Arc<World>);

#[async_trait]
impl Processor for InventiveProcessor {
    async fn answer(&self, prompt: &Prompt) -> Result<Answer, ProcessorError> {
        sleep(self.0.millis(1..3_000)).await;
        if self.0.has_faults() && self.0.percent(10) {
            return Err(ProcessorError::Transient { reason: "the model is busy".into(), after: None });
        }
        let words = if self.0.percent(30) { 1_000 } else { 1 };
        Ok(Answer::Text(format!("{} {} {}", prompt.id, self.0.below(1_000_000), "word ".repeat(words))))
    }
}

/// The settings of every process.
pub(super) fn settings(world: &Arc<World>, asked: bool) -> ResponderSettings {
    if !asked {
        return ResponderSettings::off();
    }
    let limits = ResponderLimits { max_age: MAX_AGE, per_user_hour: 1_000, ..ResponderLimits::default() };
    let processor: Arc<dyn Processor> = Arc::new(InventiveProcessor(Arc::clone(world)));
    ResponderSettings { mode: ResponderMode::On, processor: Some(processor), limits }
}

/// What is known before anything is asked: the channel and who asks.
pub(super) fn openers() -> [String; 2] {
    let clock = ts(START_MICROS);
    let first = event::message(&clock, ASKER, "first");
    [
        event::envelope(TEAM, "EvAskedPerson", &event::user_change(ASKER, "asker", &clock)),
        event::envelope(TEAM, "EvAskedOpener", &event::posted(CHANNEL, &first)),
    ]
}

/// Whether it is.
pub(super) fn is_known(all: &Surroundings) -> bool {
    let (Ok(team), Ok(user), Ok(channel)) =
        (TeamId::parse(TEAM), UserId::parse(ASKER), ChannelId::parse(CHANNEL))
    else {
        return false;
    };
    [ItemKey::user(&team, &user), ItemKey::public_mark(&team, &channel)]
        .iter()
        .all(|key| all.archive.item(key).is_some())
}

/// What happens in the channel: questions in threads of their own and in one thread, some of which are deleted; replies in it
/// without a mention; and another bot that mentions the app.
pub(super) fn plan(world: &World) -> Vec<Planned> {
    let count = 1 + world.below(5);
    let at = |n: u64, micros: i64| {
        ts(START_MICROS + 2_000_000 + i64::try_from(n).unwrap_or_default() * 1_000_000 + micros)
    };
    let root = at(0, 0);
    // A reply is said after what it replies to.
    let mut at_ms = 0;
    let mut planned = Vec::new();
    for n in 0..count {
        let mut add = |at_ms, name: &str, event: &Value| {
            let body = event::envelope(TEAM, &format!("Ev{name}{n}"), event);
            planned.push(Planned { at_ms, body, fate: Fate::Accepted });
        };
        let (clock, text) = (at(n, 0), format!("<@{APP}> {QUESTION} {n}?"));
        let is_reply = n > 0 && world.percent(50);
        let message = if is_reply {
            event::reply(&clock, &root, ASKER, &text)
        } else {
            event::message(&clock, ASKER, &text)
        };
        add(at_ms, "Asked", &event::posted(CHANNEL, &message));
        // A root would go with its thread.
        if is_reply && world.percent(30) {
            let deleted = event::deleted(CHANNEL, &message, &at(n, 100_000));
            add(at_ms + world.below(30_000), "AskedDeleted", &deleted);
        }
        if world.percent(20) {
            let mut mention =
                event::bot_message(&at(n, 200_000), "B0DEPLOY", "deploy", &format!("<@{APP}> done"));
            mention["thread_ts"] = root.clone().into();
            add(at_ms + world.below(30_000), "AskedByBot", &event::posted(CHANNEL, &mention));
        }
        if world.percent(30) {
            let remark = event::reply(&at(n, 300_000), &root, ASKER, &format!("{REMARK} {n}"));
            add(at_ms + world.below(30_000), "AskedRemark", &event::posted(CHANNEL, &remark));
        }
        at_ms += world.below(25_000);
    }
    planned
}

/// Slack tells the app of its own messages too, and people reply to them.
pub(super) struct OwnPosts {
    all: Arc<Surroundings>,
    sender: Arc<SlackSender>,
    told: usize,
    follow_ups: u64,
}

impl OwnPosts {
    pub(super) fn new(all: &Arc<Surroundings>, sender: &Arc<SlackSender>) -> Self {
        Self { all: Arc::clone(all), sender: Arc::clone(sender), told: 0, follow_ups: 0 }
    }

    /// While the faults last, each event as Slack sends it.
    pub(super) async fn tell(&mut self) {
        let mut sending = JoinSet::new();
        while self.all.asks && self.all.world.has_faults() {
            for body in self.news() {
                let sender = Arc::clone(&self.sender);
                let planned = vec![Planned { at_ms: 0, body, fate: Fate::Accepted }];
                sending.spawn(async move { sender.play(planned).await });
            }
            sleep(Duration::from_millis(500)).await;
        }
        while sending.join_next().await.is_some() {}
    }

    /// Afterwards, until nothing new is said.
    pub(super) async fn tell_the_rest(&mut self) {
        for _ in 0..MAX_ROUNDS {
            let news = self.news();
            if news.is_empty() {
                return;
            }
            for body in news {
                self.sender.insist(&body).await;
            }
            until_idle(&self.all).await;
        }
        self.all.world.broke(Invariant::Bounded, "the app answers itself".into());
    }

    /// Events of what the app has posted since, and of replies to it.
    fn news(&mut self) -> Vec<String> {
        let world = &self.all.world;
        let posted = self.all.truth.posted_in(CHANNEL);
        let mut bodies = Vec::new();
        for message in posted.iter().skip(self.told) {
            let told = event::posted(CHANNEL, message);
            bodies.push(event::envelope(TEAM, &format!("EvOwn{}", self.told), &told));
            self.told += 1;
            if self.follow_ups < MAX_FOLLOW_UPS && world.percent(30) {
                let (Some(root), Some(after)) = (message["thread_ts"].as_str(), micros(message)) else {
                    continue;
                };
                let text = format!("one more {QUESTION}?");
                let reply = event::reply(&ts(after + 500), root, ASKER, &text);
                let name = format!("EvAskedOn{}", self.follow_ups);
                bodies.push(event::envelope(TEAM, &name, &event::posted(CHANNEL, &reply)));
                self.follow_ups += 1;
            }
        }
        bodies
    }
}

fn micros(message: &Value) -> Option<i64> {
    Some(Ts::parse(message["ts"].as_str()?).ok()?.micros())
}

/// What a person wanted last of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastWish {
    /// That it is not answered.
    Cancelled,
    /// That it is.
    AskedAgain,
}

/// The questions that a person has looked after.
pub(super) type LastWishes = Mutex<BTreeMap<String, LastWish>>;

/// A person cancels questions and asks them again, as `annalist questions` does.
pub(super) async fn look_after(all: &Surroundings) {
    let world = &all.world;
    if !all.asks || world.percent(60) {
        return;
    }
    for _ in 0..=world.below(4) {
        sleep(world.millis(1_000..60_000)).await;
        let questions: Vec<QuestionRow> = all.archive.items().iter().filter_map(question).collect();
        let at = usize::try_from(world.below(questions.len() as u64)).unwrap_or_default();
        let Some(question) = questions.get(at) else { continue };
        let answer = answer_of(all, &question.id);
        if answer.as_ref().is_some_and(|answer| answer.state.stage == WorkStage::Finished) {
            continue;
        }
        let wish = if world.percent(50) { LastWish::Cancelled } else { LastWish::AskedAgain };
        world.note("person", || format!("{wish:?}: {}", question.id.name()));
        lock(&all.wishes).insert(question.id.name(), wish);
        let (now_s, again) = (world.true_now().seconds(), question.state.again());
        let written = match wish {
            LastWish::AskedAgain => {
                let job = QuestionJob { id: question.id.clone(), asked: None, attempt: again.generation };
                let update = rows::question_becomes(&question.id, again, None, now_s);
                let written = all.archive.write(&update).await;
                written.is_ok() && all.ledger.send(vec![job.outgoing()]).await.iter().all(Result::is_ok)
            }
            LastWish::Cancelled => {
                let failed = again.at(WorkStage::Failed);
                let why = Some("question cancelled");
                let mut updates = vec![rows::question_becomes(&question.id, failed, why, now_s)];
                updates.extend(answer.map(|answer| {
                    rows::answer_becomes(&answer.id, answer.state.at(WorkStage::Failed), why, now_s)
                }));
                all.archive.write_all(&updates.iter().collect::<Vec<_>>()).await.iter().all(Result::is_ok)
            }
        };
        if !written {
            world.broke(Invariant::Archive, "a person's wish cannot be written".into());
        }
    }
}

/// A question of a row that is one.
pub(super) fn question(row: &Item) -> Option<QuestionRow> {
    QuestionRow::read(row).filter(|_| row.key.item_id.starts_with("question#"))
}

/// The answer to a question, if there is one.
pub(super) fn answer_of(all: &Surroundings, id: &QuestionId) -> Option<AnswerRow> {
    let row = all.archive.item(&ItemKey::answer(&id.team, &id.channel, &id.ts));
    row.as_ref().and_then(AnswerRow::read)
}
