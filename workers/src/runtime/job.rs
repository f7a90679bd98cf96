//! Decodes jobs, once for every consumer of the payload, and lists the rows that a job writes to the archive.

use ports::archive::{ItemKey, Update, erasure};
use ports::files::FileKey;
use ports::queue::Delivery;
use ports::queue::job::{Job, Origin, Payload};
use ports::queue::route::INVALID_GROUP;
use ports::queue::run::RunId;
use rules::channel::ChannelEvent;
use rules::figures::rollup::DayJob;
use rules::file::FileJob;
use rules::file::image::ImageJob;
use rules::gap::run::{self, RunSpan};
use rules::history::job::FillJob;
use rules::history::proof::NightJob;
use rules::question::QuestionId;
use rules::question::job::{QuestionJob, ReplyJob};
use rules::schedule::SyncJob;
use rules::{Change, SlackEvent, gap};
use serde_json::Value;
use serde_json::value::RawValue;
use slack::envelope::Envelope;
use slack::ids::{TeamId, UserId};

use crate::failure::JobFailure;

/// The quarantine reason for a request without a workspace.
const NO_TEAM: &str = "the request names no workspace (team_id)";

/// The quarantine reason for a request with an ID that cannot be part of a key.
const NOT_AN_ID: &str = "an id does not have Slack's shape";

/// The decoded payload of a job.
pub enum DecodedPayload<'j> {
    /// A request that Slack sent.
    Event(Box<EventJob<'j>>),
    /// A file to fetch.
    File(Box<FileJob>),
    /// An avatar or an emoji to fetch.
    Image(ImageJob),
    /// An interval in which requests were refused.
    Refused {
        /// The workspace that sent them.
        team: TeamId,
        /// The row of its gap.
        gap: Update,
    },
    /// A run of ingest that begins.
    Run {
        /// The workspace whose events it receives.
        team: TeamId,
        run: RunId,
        /// When it began.
        span: RunSpan,
    },
    /// A span of Slack's history, which earlier versions sent.
    Backfill,
    /// A turn of reading a workspace's history.
    Fill(FillJob),
    /// A channel's day to count.
    Stats(DayJob),
    /// A question to answer.
    Question(Box<QuestionJob>),
    /// An answer to post.
    Reply(ReplyJob),
    /// A turn of a night's work.
    Night(NightJob),
    /// A workspace whose directory is to be synced.
    Sync(SyncJob),
}

/// A request that Slack sent.
pub struct EventJob<'j> {
    /// The request's bytes.
    pub raw: &'j RawValue,
    /// The fields around the event.
    pub envelope: Envelope<'j>,
    /// The event, if the request carries one.
    pub event: Option<SlackEvent<'j>>,
    /// The run of ingest that received Slack's first attempt.
    pub run: Option<RunId>,
}

impl<'j> DecodedPayload<'j> {
    /// Decodes a delivery; also returns its origin, if it was sent back.
    pub(super) fn decode(delivery: &'j Delivery) -> Result<(Self, Option<Origin>), JobFailure> {
        let Job { origin, run, payload } = Job::decode(&delivery.body)?;
        let payload = match payload {
            Payload::Event(raw) => Self::Event(Box::new(EventJob::decode(raw, run, delivery)?)),
            Payload::File(raw) => Self::File(Box::new(FileJob::decode(raw)?)),
            Payload::Image(raw) => Self::Image(ImageJob::decode(raw)?),
            Payload::Refused(raw) => {
                let (team, gap) = gap::refused(raw)?;
                Self::Refused { team, gap }
            }
            Payload::Run(raw) => {
                let (team, run, span) = run::begun(raw)?;
                Self::Run { team, run, span }
            }
            Payload::Backfill(_) => Self::Backfill,
            Payload::Fill(raw) => Self::Fill(FillJob::decode(raw)?),
            Payload::Stats(raw) => Self::Stats(DayJob::decode(raw)?),
            Payload::Question(raw) => Self::Question(Box::new(QuestionJob::decode(raw)?)),
            Payload::Reply(raw) => Self::Reply(ReplyJob::decode(raw)?),
            Payload::Night(raw) => Self::Night(NightJob::decode(raw)?),
            Payload::Sync(raw) => Self::Sync(SyncJob::decode(raw)?),
            Payload::Wake(_) => return Err(JobFailure::Permanent("a wake is not in its group".into())),
        };
        Ok((payload, origin))
    }

    /// The kind of payload, for a quarantine reason.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Event(_) => "an event",
            Self::File(_) => "a file",
            Self::Image(_) => "an image",
            Self::Refused { .. } => "a time of refused requests",
            Self::Run { .. } => "a run of ingest",
            Self::Backfill => "a span of history",
            Self::Fill(_) => "the history of a workspace",
            Self::Stats(_) => "a day to count",
            Self::Question(_) => "a question",
            Self::Reply(_) => "an answer",
            Self::Night(_) => "the work of a night",
            Self::Sync(_) => "the sync of a directory",
        }
    }
}

/// The rows that a job writes to the archive and that an erasure may cover; `None` if the job cannot be
/// decoded.
pub fn updates_of(body: &str) -> Option<Vec<Update>> {
    match Job::decode(body).ok()?.payload {
        Payload::Event(raw) => {
            let envelope = Envelope::peek(raw.get().as_bytes()).ok()?;
            let event = SlackEvent::read(&envelope).ok()?;
            // The rows of an event of unknown type are unknown.
            event.rule()?;
            let channel = ChannelEvent::read(&event).ok()?;
            let changes = event.changes().ok()?.into_iter().map(|change| match change {
                Change::Content(content) => content.if_absent().clone(),
                Change::Register(update) => update,
            });
            let changes = changes.filter(|update| erasure::covered_team(&update.key).is_some());
            let gaps = gap::facts(&event).ok()?;
            Some(changes.chain(channel.iter().flat_map(ChannelEvent::inserts)).chain(gaps).collect())
        }
        Payload::File(raw) => {
            let job = FileJob::decode(raw).ok()?;
            let FileJob { team, share, user, .. } = &job;
            // It is covered with the message that shares the file.
            let mut message = Update::new(ItemKey::message(team, &share.channel, &share.ts));
            message.set.extend(user.as_ref().map(|user| ("user".to_owned(), Value::from(user.as_str()))));
            Some(vec![message])
        }
        Payload::Image(raw) => {
            let job = ImageJob::decode(raw).ok()?;
            Some(vec![job.stored(&FileKey::image(&job.team, &job.url))])
        }
        Payload::Question(raw) => {
            let QuestionJob { id, content: asked, .. } = QuestionJob::decode(raw).ok()?;
            let author = asked.map(|asked| asked.user);
            Some(vec![row_of_question(&id, author.as_ref())])
        }
        Payload::Reply(raw) => Some(vec![row_of_question(&ReplyJob::decode(raw).ok()?.id, None)]),
        Payload::Refused(_)
        | Payload::Run(_)
        | Payload::Backfill(_)
        | Payload::Fill(_)
        | Payload::Stats(_)
        | Payload::Night(_)
        | Payload::Sync(_)
        | Payload::Wake(_) => Some(Vec::new()),
    }
}

/// The keys under which a job may store bytes.
pub fn keys_of(body: &str) -> Vec<FileKey> {
    let Ok(Job { payload, .. }) = Job::decode(body) else { return Vec::new() };
    if let Payload::File(raw) = &payload
        && let Ok(job) = FileJob::decode(raw)
    {
        let own = FileKey::shared(&job.team, &job.share.channel, &job.share.ts, &job.object.id);
        return vec![own, job.version_key()];
    }
    if let Payload::Image(raw) = &payload
        && let Ok(job) = ImageJob::decode(raw)
    {
        return vec![FileKey::image(&job.team, &job.url)];
    }
    Vec::new()
}

/// The row with which a job about a question is covered.
fn row_of_question(id: &QuestionId, author: Option<&UserId>) -> Update {
    let mut question = Update::new(ItemKey::question(&id.team, &id.channel, &id.ts));
    question.set.extend(author.map(|user| ("user".to_owned(), Value::from(user.as_str()))));
    question
}

impl<'j> EventJob<'j> {
    fn decode(raw: &'j RawValue, run: Option<RunId>, delivery: &Delivery) -> Result<Self, JobFailure> {
        let envelope =
            Envelope::peek(raw.get().as_bytes()).map_err(|error| JobFailure::Permanent(error.to_string()))?;
        if delivery.group.as_str() == INVALID_GROUP {
            let names_a_team = envelope.team_id.is_some() || envelope.workspace().is_some();
            let reason = if names_a_team { NOT_AN_ID } else { NO_TEAM };
            return Err(JobFailure::Permanent(reason.into()));
        }
        let event = if envelope.event.is_some() { Some(SlackEvent::read(&envelope)?) } else { None };
        if let Some(event) = &event {
            event.check_clocks(delivery.sent_at.0)?;
        }
        Ok(Self { raw, envelope, event, run })
    }
}
